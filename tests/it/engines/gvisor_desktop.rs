//! Computer over gVisor as a desktop, including suspend and resume.

use serde_json::json;

use super::desktop::{PROGRAMS, check_screenshot, suspend_and_resume, wait_for_terminal};
use crate::harness::controller::{RunningController, gvisor};

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_over_gvisor_is_a_desktop_that_goes_on_after_a_suspend() {
    let Some(configuration) = gvisor() else { return };
    let mut controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("demo").await;
    let record = controller.computer(&workspace, "one").await;
    let id = record["id"].as_str().expect("an id");
    assert!(
        // By this version the agent knows that it runs under gVisor.
        controller.bash(id, "uname -v").await.trim_end() == "#1 SMP Sun Jan 10 15:06:54 PST 2016",
        "gVisor's kernel reports this version"
    );
    check_screenshot(&controller, id).await;
    controller.bash(id, PROGRAMS).await;
    wait_for_terminal(&controller, id).await;
    suspend_and_resume(&mut controller, id, 3).await;
    // A stop discards the memory: the next boot has the contents of the disk.
    assert_eq!(controller.act(id, "suspend", json!({})).await.status, 200);
    assert_eq!(controller.act(id, "stop", json!({})).await.status, 200);
    controller.until_status(id, "stopped").await;
    assert!(!controller.machine(id).join("memory").exists(), "the memory must be removed");
    assert_eq!(controller.act(id, "start", json!({})).await.status, 200);
    assert_eq!(controller.bash(id, "pgrep -c xterm || true; tail -1 /root/typed").await.trim(), "0\nafter");
}
