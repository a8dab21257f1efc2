//! Virtual machine as a desktop: boot snapshot, suspend, fork, rollback and launches.

use super::desktop::Desktop;
use super::qemu::{kernel, qemu_skip_reason};
use crate::boot_snapshots;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::sampling::sampled;

/// Boots a controller whose computers are virtual machines, with further settings. Prints the reason and
/// returns `None` where they cannot run.
pub async fn boot_controller(more: &str) -> Option<RunningController> {
    if let Some(skip) = qemu_skip_reason() {
        skip.report();
        return None;
    }
    Some(RunningController::boot_with(&configuration(more)).await)
}

/// The configuration of a controller whose computers are virtual machines, with further settings.
pub fn configuration(more: &str) -> String {
    format!("[engines]\noffered = \"vm\"\n[qemu]\nkernel = {:?}\n{more}", kernel())
}

/// Commands that print what identifies a computer to its programs. Without the address, because all guests
/// have the same one and the host maps it by slot.
const IDENTITY: [&str; 6] = [
    "hostname",
    "cat /etc/hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "head -c 16 /dev/urandom | base64",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_a_desktop_that_sleeps_forks_and_goes_back() {
    let Some(controller) = boot_controller(boot_snapshots::ON).await else { return };
    let workspace = controller.workspace("first").await;
    let booted = id_of(&controller.computer(&workspace, "booted").await);
    boot_snapshots::until_there_is_one(&controller).await;
    // The desktop that goes through everything begins from the boot snapshot, as most computers do.
    let mut desktop = Desktop::start(controller, &IDENTITY).await;
    boot_snapshots::expect_begun(&desktop.controller, 1).await;
    desktop.expect_another(&booted).await;
    assert_eq!(desktop.controller.delete(&format!("/computers/{booted}")).await.status, 200);
    assert!(desktop.controller.bash(&desktop.id, "uname -r").await.trim().ends_with("cloud-amd64"));
    desktop.check_suspends(sampled(1, 2)).await;
    let fork = desktop.check_fork().await;
    assert_eq!(desktop.controller.delete(&format!("/computers/{fork}")).await.status, 200);
    let snapshot = desktop.check_rollback(1).await;
    // A restarted controller adopts the machine.
    let uptime_before = uptime(&desktop).await;
    desktop.controller.kill();
    desktop.controller.start_again().await;
    assert!(uptime(&desktop).await >= uptime_before, "the machine must not boot again");
    desktop.check_launches(&snapshot, sampled(1, 2)).await;
}

/// Seconds since the machine has booted.
async fn uptime(desktop: &Desktop) -> u64 {
    let text = desktop.controller.bash(&desktop.id, "cut -d. -f1 /proc/uptime").await;
    text.trim().parse().expect("seconds")
}
