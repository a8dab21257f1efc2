//! Hooks that a verb waits for: before a stop, and before memory or a disk is copied.

use serde_json::{Value, json};

use super::builds::{build, controller, launch};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor};

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
