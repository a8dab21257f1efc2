//! Files that are written when a computer starts, and calls of the computer's own actions, in real computers.

use std::process::Command;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::builds::{build, controller, launch};
use super::services::{TIMEOUT, services, status};
use super::triggers::{ran, trigger};
use crate::harness::agent::fetch_json;
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::RunningController;

/// The place where a secret is in memory.
const IN_MEMORY: &str = "/run/hotdesk-files/0";
/// A value that no other file has.
const VALUE: &str = "value-of-the-runtime-file-8d1f";

async fn store_secret(controller: &Caller, value: &str) {
    let request = controller.request(Method::PUT, "/secrets/API_KEY").json(&json!({ "value": value }));
    let stored = fetch_json(request).await;
    assert!(stored.status < 300, "{}", stored.body);
}

async fn restart(controller: &Caller, id: &str) {
    for verb in ["stop", "start"] {
        let done = controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert_eq!(done.status, 200, "{verb}: {}", done.body);
    }
    services(controller, id, |list| status(list, "api") == "running").await;
}

/// Whether the file of a computer's disk has a text anywhere.
fn disk_has(controller: &RunningController, id: &str, text: &str) -> bool {
    let found = Command::new("grep")
        .args(["-a", "-q", "-F", text])
        .arg(controller.machine(id).join("disk.img"))
        .status();
    found.expect("grep").success()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_at_each_boot_and_secrets_only_into_memory() {
    let Some(controller) = controller().await else { return };
    store_secret(&controller, VALUE).await;
    let content = "vars: {port: 3000}\nsecrets: [{name: api_key}]\nbuild: {run: ['useradd web']}\n\
        files:\n  - {to: /opt/app/token, from: 'secret://api_key', mode: '0440', owner: web}\n  \
        - {to: ~/now, inline: 'port ${var.port}', when: runtime, mode: '0640'}\n  - {to: /opt/built, inline: 'at the build'}\n  \
        - {to: /srv/conf/app, inline: x, when: runtime, owner: web}\n  - {to: /opt/second, from: 'secret://api_key'}\n\
        hooks: {on_every_boot: 'cat ~/now >>/root/trace; cat /opt/app/token >/dev/null && echo >>/root/trace'}\n\
        apps: [{name: web, services: [{name: api, user: web, run: 'stat -Lc %s /opt/app/token; exec sleep 1000'}]}]";
    let built = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let launched = launch(&controller, &workspace, "one", "lab@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    services(&controller, &id, |list| status(list, "api") == "running").await;
    let seen = controller.bash(
        &id,
        "readlink /opt/app/token; stat -f -c %T /opt/app/token; stat -Lc '%a %U %G' /opt/app/token; cat /opt/app/token; echo; \
         stat -c '%a' ~/now; cat ~/now /opt/built; echo; cat /root/trace; \
         su -s /bin/sh web -c 'cat /opt/app/token; echo; ls /run/hotdesk-files 2>&1 | grep -c denied'; \
         su -s /bin/sh nobody -c 'cat /opt/app/token 2>/dev/null || echo refused'",
    );
    let expected = format!(
        "{IN_MEMORY}\ntmpfs\n440 web root\n{VALUE}\n640\nport 3000at the build\nport 3000\n{VALUE}\n1\nrefused\n"
    );
    assert_eq!(seen.await, expected);
    controller.bash(&id, "sync").await;
    assert!(disk_has(&controller, &id, "/run/hotdesk-files") && !disk_has(&controller, &id, VALUE));

    // A boot writes both again, with the value of that moment.
    controller.bash(&id, "echo mine >~/now; rm /opt/app/token; echo mine >/opt/app/token").await;
    // Links of a user lead root nowhere: neither one at the place of a file nor one in its path.
    let links = "echo -n mine >/srv/victim; ln -sf /srv/victim ~/now; rm -r /srv/conf; mkdir /srv/other; ln -s other /srv/conf";
    controller.bash(&id, links).await;
    store_secret(&controller, "new").await;
    restart(&controller, &id).await;
    assert_eq!(
        controller
            .bash(
                &id,
                "cat /srv/victim; stat -c ' %U %F' /srv/victim ~/now; ls /srv/other; \
                 grep -c 'symbolic link' /var/log/hotdesk/files/2.log"
            )
            .await,
        "mine root regular file\n root regular file\n1\n"
    );
    assert_eq!(
        controller.bash(&id, "cat ~/now /opt/app/token; readlink /opt/app/token; cat /root/trace").await,
        format!("port 3000new{IN_MEMORY}\nport 3000\nport 3000\n")
    );
    // A file whose link cannot be made keeps no other one from its value.
    controller.bash(&id, "rm /opt/app/token; mkdir /opt/app/token").await;
    store_secret(&controller, "third").await;
    let synced = controller.post(&format!("/computers/{id}/secrets/sync"), json!({})).await;
    assert_eq!(synced.status, 409, "{}", synced.body);
    let error = synced.body["error"].as_str().unwrap_or_default();
    assert!(error.contains("a file with a secret that cannot be written"), "{error}");
    let values = "cat /run/hotdesk-files/0 /opt/second; rmdir /opt/app/token";
    assert_eq!(controller.bash(&id, values).await, "thirdthird");
    // Without the secret the link leads nowhere, also to no earlier value.
    let deleted = controller.delete("/secrets/API_KEY").await;
    assert!(deleted.status < 300, "{}", deleted.body);
    restart(&controller, &id).await;
    assert_eq!(
        controller
            .bash(&id, "readlink /opt/app/token; cat /opt/app/token 2>&1 | grep -c 'No such file'")
            .await,
        format!("{IN_MEMORY}\n1\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_a_secret_needs_its_owner() {
    let Some(controller) = controller().await else { return };
    let content =
        "secrets: [{name: api_key}]\nfiles: [{to: /opt/token, from: 'secret://api_key', owner: nobody-here}]";
    let failed = build(&controller, "lab@1.0.0", content).await;
    let error = failed["error"].as_str().expect("an error");
    assert!(error.contains("file /opt/token: passwd has no nobody-here: create it in build.run"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_call_actions_of_their_own_computer() {
    let Some(controller) = controller().await else { return };
    let trigger_of = |name: &str, endpoint: &str| {
        format!(
            "  - {{name: {name}, source: {{type: process, process: none}}, actions: [{{type: api, endpoint: '{endpoint}'}}]}}\n"
        )
    };
    let content = format!(
        "triggers:\n{}{}{}{}{}{}",
        trigger_of("move", "/move?x={{event.x}}&y=77"),
        trigger_of("picture", "/screenshot"),
        trigger_of("bash", "/bash?command=touch%20/root/called"),
        trigger_of("fails", "/bash?command=exit%204"),
        trigger_of("stable", "/wait_stable?quiet_ms=100&timeout_ms=2000"),
        trigger_of("click", "/click?x={{event.x}}&y=77"),
    );
    let built = build(&controller, "lab@1.0.0", &content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let fire = async |name: &str, event: Value| {
        let path = format!("/computers/{id}/triggers/{name}");
        // The triggers begin after the hooks of the boot.
        let fired = wait::until(TIMEOUT, || async {
            let fired = controller.post(&path, json!({ "event": event })).await;
            (fired.status == 200).then_some(())
        });
        fired.await.expect("the trigger is there");
        trigger(&controller, &id, name, ran).await["runs"][0].clone()
    };
    assert_eq!(fire("move", json!({"x": 55})).await["status"], "succeeded");
    let position = controller.get(&format!("/computers/{id}/cursor_position")).await.body;
    assert_eq!((position["x"].as_f64(), position["y"].as_f64()), (Some(55.0), Some(77.0)), "{position}");
    for name in ["picture", "bash", "stable"] {
        let run = fire(name, json!({})).await;
        assert_eq!(run["status"], "succeeded", "{name}: {run}");
    }
    assert_eq!(controller.bash(&id, "ls /root/called").await, "/root/called\n");
    let failed = fire("fails", json!({})).await;
    assert_eq!(failed["errors"][0], "actions[0]: the command ended with 4", "{failed}");
    // A value of the event does not become another field.
    let wrong = fire("click", json!({"x": "1&button=right"})).await;
    let error = wrong["errors"][0].as_str().unwrap_or_default();
    assert!(error.contains("invalid type: string \"1&button=right\""), "{wrong}");
}
