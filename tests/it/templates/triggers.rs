//! Triggers of templates in real computers.

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::builds::{build, controller, launch};
use super::services::{TIMEOUT, service, services, status};
use crate::harness::caller::{Caller, id_of};

/// Waits until a trigger is as expected, and returns it.
pub async fn trigger(controller: &Caller, id: &str, name: &str, expected: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/computers/{id}/triggers");
    let find = |list: &Value| {
        let found =
            list["triggers"].as_array().and_then(|all| all.iter().find(|entry| entry["name"] == name));
        found.cloned().unwrap_or_default()
    };
    let seen = wait::until(TIMEOUT, || async {
        let entry = find(&controller.get(&path).await.body);
        expected(&entry).then_some(entry)
    });
    match seen.await {
        Some(entry) => entry,
        None => panic!("the trigger {name} must be as expected: {}", controller.get(&path).await.body),
    }
}

pub fn ran(entry: &Value) -> bool {
    entry["runs"][0]["ended_at"].is_string()
}

/// A trigger of each source that a test can set off within seconds.
const CONTENT: &str = "build: {run: ['mkdir /srv/in']}\n\
    apps: [{name: web, services: [{name: api, user: root, run: \"while true; do cat /srv/say 2>/dev/null && rm -f /srv/say; sleep 0.2; done\"}],\n  \
    health: {type: command, command: test ! -e /srv/sick, every: 1s, retries: 1, on_fail: none}}]\n\
    triggers:\n  \
    - {name: boot, title: After each boot, source: {type: event, event: boot}, actions: [{type: command, run: 'echo booted >>/root/trace'}]}\n  \
    - {name: file, source: {type: file, path: /srv/in, events: [create]}, actions: [\n    \
        {type: command, run: 'echo \"new {{ event.path }} by {{ event.trigger }}\" >>/root/trace'}, {type: log, message: 'seen {{ event.path }}'}]}\n  \
    - {name: process, source: {type: process, process: sleepy}, actions: [{type: log, message: 'sleepy {{ event.state }}'}]}\n  \
    - {name: log, source: {type: log, service: api, match: fatal, parse: json}, actions: [{type: service, op: restart, target: api}]}\n  \
    - {name: sick, source: {type: event, event: unhealthy}, actions: [{type: log, message: '{{ event.app }}'}]}\n  \
    - {name: cron, source: {type: cron, schedule: 0 9 * * * Europe/Berlin}, actions: [{type: log, message: tick}]}\n  \
    - {name: minute, source: {type: cron, schedule: '* * * * *'}, actions: [{type: log, message: 'at {{ event.scheduled_at }}'}]}\n  \
    - {name: window, source: {type: desktop, event: window_open}, actions: [{type: log, message: '{{ event.title }}'}], dedup: {debounce: 1s}}\n  \
    - {name: url, source: {type: http, url: 'http://127.0.0.1:9/', interval: 1s}, actions: [{type: command, run: exit 4}], dedup: {cooldown: 1h}}\n  \
    - {name: full, source: {type: metric, metric: memory, op: '>', value: 0}, actions: [{type: log, message: '{{ event.metric }}'}]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn triggers_of_every_source_run_their_actions_and_their_state_can_be_read() {
    let Some(controller) = controller().await else { return };
    let built = build(&controller, "lab@1.0.0", CONTENT).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);

    let boot = trigger(&controller, &id, "boot", ran).await;
    assert_eq!(
        (&boot["title"], &boot["source"], &boot["run_count"]),
        (&json!("After each boot"), &json!("event"), &json!(1))
    );
    assert_eq!(
        (&boot["runs"][0]["status"], &boot["runs"][0]["event"]["event"]),
        (&json!("succeeded"), &json!("boot"))
    );
    let full = trigger(&controller, &id, "full", ran).await;
    assert_eq!(full["runs"][0]["event"]["metric"], "memory");

    // The name of the file is data, whatever it has.
    controller.bash(&id, "touch '/srv/in/a $(touch owned)'").await;
    let file = trigger(&controller, &id, "file", ran).await;
    assert_eq!(file["runs"][0]["event"]["path"], "/srv/in/a $(touch owned)");
    assert_eq!(
        controller.bash(&id, "cat /root/trace; test ! -e /root/owned && echo safe").await,
        "booted\nnew /srv/in/a $(touch owned) by file\nsafe\n"
    );

    controller.bash(&id, "cp $(command -v sleep) /usr/local/bin/sleepy; sleepy 1000 >/dev/null 2>&1 &").await;
    let process = trigger(&controller, &id, "process", ran).await;
    assert_eq!(process["runs"][0]["event"]["state"], "started");

    let before = services(&controller, &id, |list| status(list, "api") == "running").await;
    controller
        .bash(&id, "echo '{\"level\":\"fatal\",\"code\":7}' >/srv/say.new; mv /srv/say.new /srv/say")
        .await;
    let log = trigger(&controller, &id, "log", ran).await;
    assert_eq!(
        (&log["runs"][0]["event"]["code"], &log["runs"][0]["event"]["service"]),
        (&json!(7), &json!("api"))
    );
    assert_eq!(log["runs"][0]["status"], "succeeded", "{log}");
    services(&controller, &id, |list| service(list, "api")["pid"] != service(&before, "api")["pid"]).await;

    controller.bash(&id, "touch /srv/sick").await;
    let sick = trigger(&controller, &id, "sick", ran).await;
    assert_eq!(sick["runs"][0]["event"]["app"], "web");

    let cron = trigger(&controller, &id, "cron", |entry| entry["next_at"].is_string()).await;
    assert_eq!((&cron["status"], &cron["run_count"]), (&json!("watching"), &json!(0)), "{cron}");

    controller.bash(&id, "xterm -T 'a title' -e sleep 1000 >/dev/null 2>&1 & sleep 0.1").await;
    // Windows of the session open too.
    let window = trigger(&controller, &id, "window", |entry| {
        entry["runs"][0]["event"]["title"] == "a title" && ran(entry)
    })
    .await;
    assert_eq!(window["runs"][0]["event"]["title"], "a title", "{window}");

    // A failed action is named, and the rule drops what comes too soon.
    let url =
        trigger(&controller, &id, "url", |entry| entry["dropped"].as_u64() > Some(0) && ran(entry)).await;
    assert_eq!((&url["run_count"], &url["runs"][0]["status"]), (&json!(1), &json!("failed")), "{url}");
    let error = url["runs"][0]["errors"][0].as_str().expect("an error");
    assert!(error.starts_with("actions[0]: the command ended with 4"), "{error}");

    // By hand, whatever the rule says.
    let path = format!("/computers/{id}/triggers/file");
    let fired = controller.post(&path, json!({"event": {"path": "/by/hand"}})).await;
    assert_eq!((fired.status, &fired.body["name"]), (200, &json!("file")), "{}", fired.body);
    trigger(&controller, &id, "file", |entry| entry["run_count"] == 2 && ran(entry)).await;
    let lines =
        controller.bash(&id, "tail -n1 /root/trace; cut -d' ' -f2- /var/log/hotdesk/triggers.log").await;
    for line in [
        "new /by/hand by file",
        "file: seen /by/hand",
        "process: sleepy started",
        "sick: web",
        "window: a title",
        "full: memory",
    ] {
        assert!(lines.lines().any(|found| found == line), "{line} is not in {lines}");
    }
    let unknown = controller.post(&format!("/computers/{id}/triggers/none"), json!({})).await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);

    // Last, because the next minute began meanwhile or soon does. In one request, which waits for it.
    let fires = "until grep -q ' minute: at ' /var/log/hotdesk/triggers.log; do sleep 1; done; echo fired";
    assert_eq!(controller.bash(&id, fires).await, "fired\n");
    let minute = trigger(&controller, &id, "minute", ran).await;
    assert_eq!((&minute["source"], &minute["runs"][0]["status"]), (&json!("cron"), &json!("succeeded")));
    let at = minute["runs"][0]["event"]["scheduled_at"].as_str().expect("a time");
    assert!(at.ends_with(":00.000Z"), "{at}");
}
