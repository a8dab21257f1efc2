//! Services, hooks and secrets of templates, in real computers under s6.

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::builds::{build, controller, launch};
use crate::harness::agent::fetch_json;
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::RunningController;

/// Longest time until a service is as expected.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until the services of a computer are as expected, and returns them.
pub async fn services(controller: &Caller, computer: &str, expected: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/computers/{computer}/services");
    let seen = wait::until(TIMEOUT, || async {
        let list = controller.get(&path).await.body;
        expected(&list).then_some(list)
    });
    match seen.await {
        Some(list) => list,
        None => panic!("the services must be as expected: {}", controller.get(&path).await.body),
    }
}

pub fn service<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list["services"].as_array().expect("services").iter().find(|entry| entry["name"] == name);
    found.unwrap_or(&Value::Null)
}

pub fn status<'a>(list: &'a Value, name: &str) -> &'a str {
    service(list, name)["status"].as_str().unwrap_or_default()
}

/// Two services, a program of the desktop, hooks, and a secret for one variable of a service.
const CONTENT: &str = "vars: {port: 3000}\n\
    secrets: [{name: api_key}]\n\
    env: {PLACE: lab}\n\
    hooks:\n  on_first_boot: echo first $PLACE >>/root/trace\n  on_every_boot: echo every >>/root/trace; echo said\n  \
    on_resume: echo resumed >>/root/trace\n\
    apps:\n  - name: web\n    autostart: [{run: 'echo started on $DISPLAY >/root/desktop', delay: 100ms}]\n    services:\n      \
    - {name: site, run: 'echo \"serving as $(id -un)\"; exec python3 -m http.server ${var.port}', cwd: /srv}\n      \
    - {name: key, user: root, restart: on-failure, env: {TOKEN: {secret: api_key}}, run: 'echo \"$TOKEN\" >/root/token; exit 0'}\n";

async fn store_secret(controller: &Caller, value: &str) {
    let request = controller.request(Method::PUT, "/secrets/API_KEY").json(&json!({ "value": value }));
    let stored = fetch_json(request).await;
    assert!(stored.status < 300, "{}", stored.body);
}

/// Builds and launches [`CONTENT`], and follows the computer's life.
async fn check_services(controller: &RunningController) {
    let missing = build(controller, "lab@1.0.0", CONTENT).await;
    assert_eq!(missing["status"], "ready", "{missing}");
    let workspace = controller.workspace("w").await;
    let refused = launch(controller, &workspace, "none", "lab@1.0.0").await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (404, &json!("secret_not_found")),
        "{}",
        refused.body
    );
    store_secret(controller, "it's a key").await;
    let launched = launch(controller, &workspace, "one", "lab@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    let up = services(controller, &id, |list| {
        status(list, "site") == "running" && service(list, "autostart.0")["exit_code"] == 0
    })
    .await;
    let hooks: Vec<(&str, &str)> = up["hooks"]
        .as_array()
        .expect("hooks")
        .iter()
        .map(|hook| (hook["name"].as_str().unwrap_or_default(), hook["status"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(hooks, [("on_every_boot", "succeeded"), ("on_first_boot", "succeeded")]);
    assert_eq!(
        controller.bash(&id, "cat /root/trace /root/desktop").await,
        "first lab\nevery\nstarted on :99\n"
    );
    assert_eq!(controller.bash(&id, "cat /var/log/hotdesk/hooks/on_every_boot.log").await, "said\n");
    // A service that exited with success and may only restart after a failure stays down.
    services(controller, &id, |list| {
        service(list, "key")["exit_code"] == 0 && status(list, "key") == "stopped"
    })
    .await;
    assert_eq!(controller.bash(&id, "cat /root/token; stat -Lc %a /root/.env").await, "it's a key\n600\n");
    let answer =
        "curl -fsS --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:3000/ | grep -c listing";
    assert_ne!(controller.bash(&id, answer).await, "0\n");
    let log = controller.get(&format!("/computers/{id}/services/site/log")).await;
    let text = log.body["text"].as_str().expect("a text");
    assert!(log.status == 200 && text.contains("serving as orgo") && text.contains("GET / HTTP"), "{text}");

    // It restarts when it is killed, and obeys.
    let first = service(&up, "site")["pid"].clone();
    controller.bash(&id, &format!("kill -9 {first}")).await;
    let again = services(controller, &id, |list| {
        status(list, "site") == "running" && service(list, "site")["pid"] != first
    })
    .await;
    let path = format!("/computers/{id}/services/site");
    let stopped = controller.post(&path, json!({"action": "stop"})).await;
    assert_eq!((stopped.status, status(&stopped.body, "site")), (200, "stopped"), "{}", stopped.body);
    let started = controller.post(&path, json!({"action": "start"})).await;
    assert_eq!((started.status, status(&started.body, "site")), (200, "running"), "{}", started.body);
    let restarted = controller.post(&path, json!({"action": "restart"})).await;
    assert_eq!((restarted.status, status(&restarted.body, "site")), (200, "running"), "{}", restarted.body);
    assert_ne!(service(&restarted.body, "site")["pid"], service(&started.body, "site")["pid"]);
    assert_ne!(service(&again, "site")["pid"], service(&restarted.body, "site")["pid"]);
    assert_eq!(controller.post(&path, json!({"action": "jump"})).await.status, 400);
    let unknown = format!("/computers/{id}/services/none");
    assert_eq!(controller.post(&unknown, json!({"action": "stop"})).await.status, 404);
    assert_eq!(controller.get(&format!("{path}/log?bytes=0")).await.status, 400);

    // The next boot has the new value of the secret, and only the hook of every boot.
    store_secret(controller, "new").await;
    let stop = controller.post(&format!("/computers/{id}/stop"), json!({})).await;
    assert_eq!(stop.status, 200, "{}", stop.body);
    let start = controller.post(&format!("/computers/{id}/start"), json!({})).await;
    assert_eq!(start.status, 200, "{}", start.body);
    services(controller, &id, |list| status(list, "site") == "running").await;
    assert_eq!(controller.bash(&id, "cat /root/trace").await, "first lab\nevery\nevery\n");
    services(controller, &id, |list| service(list, "key")["exit_code"] == 0).await;
    assert_eq!(controller.bash(&id, "cat /root/token").await, "new\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_hooks_and_secrets_of_a_template_run_at_each_boot() {
    let Some(controller) = controller().await else { return };
    check_services(&controller).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_obeys_whatever_its_policy_and_takes_its_children_with_it() {
    let Some(controller) = controller().await else { return };
    let content = "apps:\n  - name: web\n    services:\n      \
        - {name: once, user: root, restart: 'no', run: \"sleep 1111\\necho ended\"}\n      \
        - {name: polite, user: root, restart: on-failure, run: \"trap 'exit 0' TERM; while true; do sleep 0.1; done\"}\n";
    let built = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let both = |list: &Value| status(list, "once") == "running" && status(list, "polite") == "running";
    let mut before = services(&controller, &id, both).await;
    let children = async || controller.bash(&id, "pgrep -f '^sleep 1111$' || true").await;
    // A service runs from the start of its shell, which starts its child a moment later.
    let until_child = async |earlier: &str| {
        let found = wait::until(TIMEOUT, || async {
            Some(children().await).filter(|pids| pids.lines().count() == 1 && pids.as_str() != earlier)
        });
        found.await.expect("one child of the service, and none of an earlier run")
    };
    let first = until_child("").await;
    for name in ["once", "polite"] {
        let path = format!("/computers/{id}/services/{name}");
        let restarted = controller.post(&path, json!({"action": "restart"})).await;
        assert_eq!((restarted.status, status(&restarted.body, name)), (200, "running"), "{}", restarted.body);
        assert_ne!(service(&restarted.body, name)["pid"], service(&before, name)["pid"]);
        before = restarted.body;
    }
    assert!(!children().await.lines().any(|pid| pid == first.trim()), "the first run's child has ended");
    until_child(&first).await;
    let stopped = controller.post(&format!("/computers/{id}/services/once"), json!({"action": "stop"})).await;
    assert_eq!((stopped.status, status(&stopped.body, "once")), (200, "stopped"), "{}", stopped.body);
    assert_eq!(controller.bash(&id, "pgrep -fc '^sleep 1111$' || true").await, "0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_the_place_of_the_secrets_does_not_keep_a_computer_from_its_user() {
    let Some(controller) = controller().await else { return };
    store_secret(&controller, "key").await;
    let built = build(&controller, "lab@1.0.0", "secrets: [{name: api_key}]").await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    assert_eq!(controller.bash(&id, ". /root/.env; echo $API_KEY").await, "key\n");
    controller.bash(&id, "rm /root/.env; echo mine >/root/.env").await;
    for verb in ["stop", "start"] {
        let done = controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert_eq!(done.status, 200, "{verb}: {}", done.body);
    }
    assert_eq!(controller.bash(&id, "cat /root/.env").await, "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_its_user_and_a_hook_that_fails_are_named() {
    let Some(controller) = controller().await else { return };
    let content = "apps: [{name: web, services: [{name: api, user: nobody-here, run: 'true'}]}]";
    let failed = build(&controller, "user@1.0.0", content).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    let error = failed["error"].as_str().expect("an error");
    assert!(error.contains("service api: there is no user nobody-here: create it in build.run"), "{error}");
    let content = "hooks: {on_first_boot: 'echo before; (exit 7); echo after'}\n\
        apps: [{name: web, services: [{name: api, user: root, run: sleep 1000}]}]";
    let built = build(&controller, "hook@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let launched = launch(&controller, &workspace, "one", "hook@1.0.0").await;
    let id = id_of(&launched.body);
    let list = services(&controller, &id, |list| status(list, "api") == "running").await;
    let hook = &list["hooks"][0];
    assert_eq!((&hook["status"], &hook["exit_code"]), (&json!("failed"), &json!(7)), "{list}");
    let log = hook["log"].as_str().expect("a path");
    assert_eq!(controller.bash(&id, &format!("cat {log}")).await, "before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_a_user_leads_the_log_of_a_service_nowhere() {
    let Some(controller) = controller().await else { return };
    let content = "build: {run: ['mkdir /srv/logs; chmod 777 /srv/logs']}\n\
        apps:\n  - name: web\n    services:\n      - {name: site, restart: 'no', cwd: '~', log: /srv/logs/site.log, \
        run: 'echo \"up as $(id -un) in $PWD\"; exec sleep 1000'}";
    let built = build(&controller, "log@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "log@1.0.0").await.body);
    services(&controller, &id, |list| status(list, "site") == "running").await;
    let log = format!("/computers/{id}/services/site/log");
    let written = wait::until(TIMEOUT, || async {
        let text = controller.get(&log).await.body["text"].as_str()?.to_owned();
        text.contains("up as orgo in /home/orgo\n").then_some(())
    });
    assert!(written.await.is_some(), "{}", controller.get(&log).await.body);

    let plant = "su -s /bin/sh nobody -c 'rm -f /srv/logs/site.log; ln -s /etc/planted /srv/logs/site.log'";
    controller.bash(&id, plant).await;
    let path = format!("/computers/{id}/services/site");
    // The answer depends on how soon the script has ended.
    controller.post(&path, json!({"action": "restart"})).await;
    services(&controller, &id, |list| service(list, "site")["exit_code"] == 1).await;
    assert_eq!(controller.bash(&id, "test -e /etc/planted || echo none").await, "none\n");
    let refused = controller.get(&log).await;
    let error = refused.body["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("/srv/logs/site.log cannot be read: ") && error.contains("symbolic link"),
        "{error}"
    );

    controller.bash(&id, "rm /srv/logs/site.log").await;
    controller.post(&path, json!({"action": "start"})).await;
    services(&controller, &id, |list| status(list, "site") == "running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_service_waits_while_the_agent_starts_again() {
    let Some(controller) = controller().await else { return };
    let content = "apps: [{name: web, services: [{name: count, user: root, \
        run: 'i=0; while true; do i=$((i + 1)); echo $i; sleep 0.02; done'}]}]";
    let built = build(&controller, "count@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "count@1.0.0").await.body);
    let up = services(&controller, &id, |list| status(list, "count") == "running").await;
    let log = format!("/computers/{id}/services/count/log?bytes=1048576");
    let numbers = async |least: usize| {
        let seen = wait::until(TIMEOUT, || async {
            let text = controller.get(&log).await.body["text"].as_str()?.to_owned();
            let numbers: Option<Vec<usize>> =
                text.lines().map(|line| line.split_once("  ")?.1.parse().ok()).collect();
            numbers.filter(|numbers| numbers.len() >= least)
        });
        seen.await.unwrap_or_else(|| panic!("{least} lines must be in the log"))
    };
    let before = numbers(10).await.len();
    // The command ends with its agent.
    let end = json!({"command": "kill -TERM $(pgrep -of 'hotdesk agent'); sleep 60"});
    controller.post(&format!("/computers/{id}/bash"), end).await;
    let after = numbers(before + 100).await;
    assert!(after.iter().copied().eq(1..=after.len()), "no line is lost: {after:?}");
    let list = services(&controller, &id, |list| status(list, "count") == "running").await;
    assert_eq!(service(&list, "count")["pid"], service(&up, "count")["pid"]);
}

/// Two services with a secret each, and programs without one. They run as root, because without `CAP_SYS_PTRACE`
/// a guest's root reads no environment of another user's process.
const HOLDERS: &str = "secrets: [{name: api_key}, {name: other_key}]\n\
    hooks: {on_every_boot: 'setsid sleep 5555 >/dev/null 2>&1 &'}\n\
    apps:\n  - name: web\n    autostart: [{run: exec sleep 4444}]\n    services:\n      \
    - {name: holder, user: root, env: {TOKEN: {secret: api_key}}, run: exec sleep 1111}\n      \
    - {name: plain, user: root, env: {TOKEN: literal}, run: exec sleep 2222}\n      \
    - {name: second, user: root, env: {TOKEN: {secret: other_key}}, run: exec sleep 3333}\n";

/// Prints which secrets of the computer are in the environment and the arguments of which processes. No
/// command line has a value.
const LOOK: &str = r#"python3 - <<'END'
import glob, re
secrets = dict(re.findall(r"^(\w+)='([^']*)'", open("/root/.env").read(), re.M))
found = []
for folder in glob.glob("/proc/[0-9]*"):
    try:
        texts = {part: open(f"{folder}/{part}", "rb").read() for part in ("environ", "cmdline")}
    except OSError:
        continue
    command = texts["cmdline"].replace(b"\0", b" ").decode().strip()
    found += [f"{name} in {part} of {command}" for name, value in secrets.items() for part in texts
              if value.encode() in texts[part]]
print(len(secrets), *sorted(found), sep="\n")
END"#;

/// Waits until a command prints a text.
pub async fn until_printed(controller: &RunningController, id: &str, command: &str, expected: &str) {
    let printed =
        wait::until(TIMEOUT, || async { (controller.bash(id, command).await == expected).then_some(()) });
    if printed.await.is_none() {
        assert_eq!(controller.bash(id, command).await, expected, "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_in_the_environment_of_its_service_alone() {
    let Some(controller) = controller().await else { return };
    for (name, value) in [("API_KEY", "value-of-the-api-key"), ("OTHER_KEY", "value-of-the-other-key")] {
        let stored = controller.request(Method::PUT, &format!("/secrets/{name}"));
        assert!(fetch_json(stored.json(&json!({ "value": value }))).await.status < 300);
    }
    let built = build(&controller, "lab@1.0.0", HOLDERS).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let count = "pgrep -fc '^sleep (1111|2222|3333|4444|5555)$' || true";
    until_printed(&controller, &id, count, "5\n").await;
    let held = "2\nAPI_KEY in environ of sleep 1111\nOTHER_KEY in environ of sleep 3333\n";
    assert_eq!(controller.bash(&id, LOOK).await, held);

    // A program that runs keeps its environment, and its next start has the new value.
    store_secret(&controller, "new-value-of-the-key").await;
    let synced = controller.post(&format!("/computers/{id}/secrets/sync"), json!({})).await;
    assert_eq!(synced.status, 200, "{}", synced.body);
    assert_eq!(controller.bash(&id, LOOK).await, "2\nOTHER_KEY in environ of sleep 3333\n");
    let restarted =
        controller.post(&format!("/computers/{id}/services/holder"), json!({"action": "restart"})).await;
    assert_eq!(restarted.status, 200, "{}", restarted.body);
    until_printed(&controller, &id, LOOK, held).await;
}
