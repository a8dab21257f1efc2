//! Hooks that a verb waits for: before a stop, and before memory or a disk is copied.

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::builds::{build, controller, launch};
use super::services::{TIMEOUT, services};
use super::triggers::{ran, trigger};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::network::TestNetwork;

/// A hook that takes its time, and one that fails.
const CONTENT: &str = "hooks:\n  on_shutdown: sleep 1; echo bye >>/root/trace; exit 3\n  \
    on_pre_snapshot: sleep 1; echo saved >>/root/trace; echo said\n";

async fn hook(controller: &Caller, id: &str, name: &str) -> Value {
    let list = controller.get(&format!("/computers/{id}/services")).await.body;
    let found = list["hooks"].as_array().expect("hooks").iter().find(|hook| hook["name"] == name);
    found.cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_and_a_restart_wait_for_their_hook_also_when_it_fails() {
    let Some(controller) = controller().await else { return };
    let built = build(&controller, "lab@1.0.0", CONTENT).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    for verb in ["stop", "start", "restart"] {
        let done = controller.act(&id, verb, json!({})).await;
        assert_eq!(done.status, 200, "{verb}: {}", done.body);
        controller.until_status(&id, if verb == "stop" { "stopped" } else { "running" }).await;
    }
    assert_eq!(controller.bash(&id, "cat /root/trace").await, "bye\nbye\n");
    assert_eq!(hook(&controller, &id, "on_shutdown").await, Value::Null, "results are those of this boot");
}

/// Port at which a hook reports that it runs.
const REPORT_PORT: u16 = 7000;

#[tokio::test(flavor = "multi_thread")]
async fn a_second_stop_and_a_delete_do_not_wait_for_a_hook() {
    let Some(controller) = controller().await else { return };
    let network = TestNetwork::new();
    let listener = network.listens(network.public, REPORT_PORT);
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let content = format!(
        "hooks:\n  on_shutdown: 'echo runs >/dev/tcp/{}/{REPORT_PORT}; sleep 600; echo slept >>/root/trace'\n",
        network.public
    );
    let built = build(&controller, "lab@1.0.0", &content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    // The hook itself would take ten minutes.
    let again = async {
        listener.accept().await.expect("the hook runs");
        controller.act(&id, "stop", json!({})).await
    };
    let (first, second) = tokio::join!(controller.act(&id, "stop", json!({})), again);
    for stopped in [first, second] {
        assert_eq!(stopped.status, 200, "{}", stopped.body);
    }
    controller.until_status(&id, "stopped").await;
    assert_eq!(controller.act(&id, "start", json!({})).await.status, 200);
    assert_eq!(controller.bash(&id, "cat /root/trace 2>/dev/null || echo none").await, "none\n");
    let path = format!("/computers/{id}");
    let deleted = async {
        listener.accept().await.expect("the hook runs");
        controller.delete(&path).await
    };
    let (_stopped, deleted) = tokio::join!(controller.act(&id, "stop", json!({})), deleted);
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    assert_eq!(controller.get(&path).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_hear_of_a_boot_in_whose_hook_the_agent_was_killed() {
    let Some(controller) = controller().await else { return };
    let content = "hooks: {on_every_boot: 'until [ -e /root/go ]; do sleep 0.1; done'}\n\
        triggers:\n  - {name: boot, source: {type: event, event: boot}, actions: [{type: log, message: booted}]}\n";
    let built = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    services(&controller, &id, |list| list["hooks"][0]["status"] == "running").await;
    controller.act(&id, "bash", json!({"command": "kill -9 $(pgrep -P 1 -f '^hotdesk agent')"})).await;
    let path = format!("/computers/{id}/bash");
    let again = wait::until(TIMEOUT, || async {
        let ran = controller.post(&path, json!({"command": "touch /root/go; echo back"})).await;
        (ran.body["output"] == "back\n").then_some(())
    });
    again.await.expect("the agent is back");
    let boot = trigger(&controller, &id, "boot", ran).await;
    assert_eq!(boot["run_count"], 1, "{boot}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_waits_for_its_hook() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let built = build(&controller, "lab@1.0.0", CONTENT).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    for verb in ["suspend", "resume"] {
        let done = controller.act(&id, verb, json!({})).await;
        assert_eq!(done.status, 200, "{verb}: {}", done.body);
    }
    assert_eq!(controller.bash(&id, "cat /root/trace").await, "saved\n");
    let status = hook(&controller, &id, "on_pre_snapshot").await;
    assert_eq!((&status["status"], &status["exit_code"]), (&json!("succeeded"), &json!(0)), "{status}");
    assert_eq!(controller.bash(&id, "cat /var/log/hotdesk/hooks/on_pre_snapshot.log").await, "said\n");
    let snapshot = controller.post(&format!("/computers/{id}/snapshots"), json!({"name": "s"})).await;
    assert!(snapshot.status < 300, "{}", snapshot.body);
    assert_eq!(controller.bash(&id, "cat /root/trace").await, "saved\nsaved\n");
}
