//! Health checks of applications: their state, their actions, and builds that wait for them.

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::builds::{build, controller, launch, layers, log};
use super::services::{TIMEOUT, service, services, status};
use crate::events::source::{JsonMessages, subscribe};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::socket::Client;

/// Applications of every kind of check. Those that a file decides fail as soon as a test removes it.
const CONTENT: &str = "build: {run: ['touch /srv/flag']}\n\
    apps:\n  - name: web\n    services: [{name: api, user: root, cwd: /srv, run: exec python3 -m http.server 3000}]\n    \
    health: {type: http, url: 'http://127.0.0.1:3000/', every: 1s, timeout: 1s, retries: 2, on_fail: 'restart_service:api'}\n  \
    - {name: port, health: {type: tcp, port: 3000, every: 1s}}\n  \
    - {name: python, health: {type: process, process: python3, every: 1s}}\n  \
    - {name: flag, health: {type: command, command: 'echo looked; test -e /srv/flag', every: 1s, retries: 1, on_fail: alert}}\n";

fn app<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list["health"].as_array().expect("health").iter().find(|entry| entry["app"] == name);
    found.unwrap_or(&Value::Null)
}

fn is_healthy(list: &Value, name: &str) -> bool {
    app(list, name)["status"] == "healthy"
}

/// The next event of the application `flag`. On a busy machine others may miss the time of a check.
async fn next_of_flag(events: &mut Client) -> Value {
    loop {
        let event = events.next_json().await["event"].take();
        if event["data"]["app"] == "flag" {
            return event;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_application_restarts_its_service_or_alerts_and_its_state_can_be_read() {
    let Some(controller) = controller().await else { return };
    let built = build(&controller, "lab@1.0.0", CONTENT).await;
    assert_eq!(built["status"], "ready", "{built}");
    let log = super::builds::log(&controller, "lab@1.0.0").await;
    assert!(
        log.iter()
            .any(|entry| entry["phase"] == "check" && entry["line"] == "the services are up and healthy"),
        "{log:?}"
    );
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let all = ["web", "port", "python", "flag"];
    let all_healthy = |list: &Value| all.iter().all(|name| is_healthy(list, name));
    let healthy = services(&controller, &id, all_healthy).await;
    let first = service(&healthy, "api")["pid"].clone();
    assert_eq!(app(&healthy, "web")["failures"], 0);

    // A server that hangs: its service restarts.
    controller.bash(&id, &format!("kill -STOP {first}")).await;
    let again = services(&controller, &id, |list| {
        is_healthy(list, "web") && status(list, "api") == "running" && service(list, "api")["pid"] != first
    })
    .await;
    assert!(app(&again, "web")["actions"].as_u64() >= Some(1), "{again}");

    // An alert is an event. The applications behind the service that restarted have events of their own.
    services(&controller, &id, all_healthy).await;
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = password.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    let mut events = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    subscribe(&mut events, "subscribe", &["health_change"]).await;
    controller.bash(&id, "rm /srv/flag").await;
    let event = next_of_flag(&mut events).await;
    let expected = json!({"app": "flag", "status": "unhealthy", "action": "alert",
        "reason": "the command ended with 1; its output is in /var/log/hotdesk/health/flag.log"});
    assert_eq!((&event["type"], &event["data"]), (&json!("health_change"), &expected));
    let list = services(&controller, &id, |list| app(list, "flag")["status"] == "unhealthy").await;
    assert_eq!(
        app(&list, "flag")["reason"],
        "the command ended with 1; its output is in /var/log/hotdesk/health/flag.log"
    );
    assert!(
        app(&list, "flag")["failures"].as_u64() >= Some(1) && app(&list, "flag")["checked_at"].is_string()
    );
    controller.bash(&id, "touch /srv/flag").await;
    let event = next_of_flag(&mut events).await["data"].clone();
    assert_eq!(event, json!({"app": "flag", "status": "healthy", "action": "alert"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_application_restarts_its_computer() {
    let Some(controller) = controller().await else { return };
    let content = "build: {run: ['touch /srv/flag']}\nhooks: {on_every_boot: 'echo boot >>/root/boots'}\n\
        apps: [{name: flag, health: {type: command, command: test -e /srv/flag, every: 1s, retries: 1, on_fail: restart_vm}}]";
    let built = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    services(&controller, &id, |list| is_healthy(list, "flag")).await;
    controller.bash(&id, "rm /srv/flag").await;
    let restarted = wait::until(TIMEOUT, || async {
        let read = controller.act(&id, "bash", json!({"command": "cat /root/boots"})).await;
        (read.body["output"] == "boot\nboot\n").then_some(())
    });
    restarted.await.expect("the computer restarts");
    // It starts anew: failures do not count at once.
    let list = services(&controller, &id, |list| app(list, "flag")["failures"].as_u64() > Some(0)).await;
    assert_eq!(app(&list, "flag")["status"], "starting");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_check_reads_the_secrets_of_the_template() {
    let Some(controller) = controller().await else { return };
    let value = "a 'key' of $HOME";
    let stored = controller.request(Method::PUT, "/secrets/API_KEY").json(&json!({"value": value}));
    assert!(fetch_json(stored).await.status < 300);
    let content = "secrets: [{name: api_key}]\nenv: {KEY: {secret: api_key}}\n\
        files: [{to: /opt/expected, inline: \"a 'key' of $HOME\"}]\n\
        apps:\n  - name: key\n    health: {type: command, every: 1s, \
        command: 'test \"$KEY\" = \"$(cat /opt/expected)\"; . /root/.env; test \"$API_KEY\" = \"$KEY\"'}\n";
    let built = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    // The check of the build reads them, too: the application would not be healthy without.
    let log = log(&controller, "lab@1.0.0").await;
    let checks: Vec<&Value> = log.iter().filter(|entry| entry["phase"] == "check").collect();
    assert!(checks.iter().all(|entry| entry["level"] == "info"), "{checks:?}");
    assert!(checks.iter().any(|entry| entry["line"] == "the services are up and healthy"), "{checks:?}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    services(&controller, &id, |list| is_healthy(list, "key")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_fails_with_the_name_and_the_output_of_a_service_that_is_not_up() {
    let Some(controller) = controller().await else { return };
    let content = "apps: [{name: web, services: [{name: api, user: root, restart: 'no', run: 'echo broken by design; exit 3'}]}]";
    let failed = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    let error = failed["error"].as_str().expect("an error");
    assert!(error.contains("the service api is not up: it ended with exit code 3"), "{error}");
    assert!(error.contains("broken by design"), "{error}");
    assert_eq!(layers(&controller), Vec::<String>::new());
    let workspace = controller.workspace("w").await;
    let refused = launch(&controller, &workspace, "one", "lab@1.0.0").await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("TEMPLATE_NOT_READY")),
        "{}",
        refused.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_a_check_without_secrets_is_skipped_and_one_with_them_shows_no_output() {
    let Some(controller) = controller().await else { return };
    let services = |end: &str| {
        format!(
            "secrets: [{{name: api_key}}]\napps: [{{name: web, services: [{{name: api, user: root, \
             restart: 'no', env: {{TOKEN: {{secret: api_key}}}}, run: 'echo \"the key is $TOKEN\"; {end}'}}], \
             health: {{type: command, every: 1s, command: 'echo \"$TOKEN\"; . /root/.env; exit \"$API_KEY\"'}}}}]"
        )
    };
    let built = build(&controller, "without@1.0.0", &services("exit 4")).await;
    assert_eq!(built["status"], "ready", "{built}");
    let entries = log(&controller, "without@1.0.0").await;
    let checks: Vec<&Value> = entries.iter().filter(|entry| entry["phase"] == "check").collect();
    assert!(checks.len() == 1 && checks[0]["level"] == "warn", "{checks:?}");
    let line = checks[0]["line"].as_str().expect("a line");
    assert!(line.starts_with("not checked: services (api) and health of applications (web): "), "{line}");
    assert!(line.ends_with("the account that builds has no secret API_KEY"), "{line}");

    let value = "canary-value-of-a-key-51c9";
    let stored = controller.request(Method::PUT, "/secrets/API_KEY").json(&json!({"value": value}));
    assert!(fetch_json(stored).await.status < 300);
    let failed = build(&controller, "broken@1.0.0", &services("exit 3")).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    let error = failed["error"].as_str().expect("an error");
    assert!(error.contains("the service api is not up: it ended with exit code 3"), "{error}");
    assert!(error.contains("the output of api is not shown"), "{error}");
    let entries = log(&controller, "broken@1.0.0").await;
    assert!(!format!("{failed} {entries:?}").contains(value), "{entries:?}");
}
