//! Virtual machine as a desktop: suspend, fork, rollback and launches.

use std::os::unix::fs::PermissionsExt;

use super::desktop::Desktop;
use super::qemu::{kernel, qemu_skip_reason};
use crate::harness::controller::RunningController;
use crate::harness::sampling::sampled;

/// Boots a controller whose computers are virtual machines, with further settings. Prints the reason and
/// returns `None` where they cannot run.
pub async fn boot_controller(more: &str) -> Option<RunningController> {
    if let Some(skip) = qemu_skip_reason() {
        skip.report();
        return None;
    }
    let configuration = format!("engine = \"qemu\"\n[qemu]\nkernel = {:?}\n{more}", kernel());
    Some(RunningController::boot_with(&configuration).await)
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
    let Some(controller) = boot_controller("").await else { return };
    let mut desktop = Desktop::start(controller, &IDENTITY).await;
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
    desktop.check_launches(&snapshot, 2).await;
}

/// Seconds since the machine has booted.
async fn uptime(desktop: &Desktop) -> u64 {
    let text = desktop.controller.bash(&desktop.id, "cut -d. -f1 /proc/uptime").await;
    text.trim().parse().expect("seconds")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_started_a_virtual_machine_is_not_taken_for_it() {
    // The process has a lower pid than QEMU and ends while the guest boots.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("qemu");
    let script = "#!/bin/sh\nsleep 3 </dev/null >/dev/null 2>&1 &\nexec qemu-system-x86_64 \"$@\"\n";
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("the mode is set");
    let Some(controller) = boot_controller(&format!("program = {program:?}\n")).await else { return };
    let workspace = controller.workspace("demo").await;
    let record = controller.computer(&workspace, "one").await;
    assert_eq!(controller.bash(record["id"].as_str().expect("an id"), "echo up").await.trim(), "up");
}
