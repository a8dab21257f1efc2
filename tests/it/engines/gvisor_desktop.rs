//! Is a computer over gVisor a usable desktop, and does all of it go on after a suspend?

use serde_json::json;

use super::desktop::{PROGRAMS, reads, shows_a_screen, sleeps_and_wakes};
use crate::harness::controller::{RunningController, gvisor};

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_over_gvisor_is_a_desktop_that_goes_on_after_a_suspend() {
    let Some(configuration) = gvisor() else { return };
    let mut house = RunningController::boot_with(&configuration).await;
    let workspace = house.workspace("demo").await;
    let record = house.computer(&workspace, "one").await;
    let id = record["id"].as_str().expect("an id");
    assert!(house.bash(id, "uname -r").await.starts_with("4.4.0"), "gVisor's kernel says so of itself");
    shows_a_screen(&house, id).await;
    house.bash(id, PROGRAMS).await;
    reads(&house, id).await;
    sleeps_and_wakes(&mut house, id, 3).await;
    // A stop takes its memory: what comes up is what is on its disk.
    assert_eq!(house.act(id, "suspend", json!({})).await.status, 200);
    assert_eq!(house.act(id, "stop", json!({})).await.status, 200);
    house.until_status(id, "stopped").await;
    assert!(!house.machine(id).join("memory").exists(), "memory is gone");
    assert_eq!(house.act(id, "start", json!({})).await.status, 200);
    assert_eq!(house.bash(id, "pgrep -c xterm || true; tail -1 /root/typed").await.trim(), "0\nafter");
}
