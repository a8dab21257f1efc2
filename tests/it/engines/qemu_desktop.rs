//! Virtual machine as a desktop through the API: stop, suspend, fork and rollback.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::json;

use super::desktop::{
    PROGRAMS, check_screenshot, clock_offset, count, suspend_and_resume, type_line, wait_for_count,
    wait_for_terminal,
};
use super::gvisor_fork::{START_TIMES, check_launches, check_rollback, expect_different};
use super::qemu::{kernel, qemu_skip_reason};
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_a_desktop_that_stops_and_sleeps() {
    let Some(mut controller) = boot_controller("").await else { return };
    let workspace = controller.workspace("demo").await;
    let began = Instant::now();
    let record = controller.computer(&workspace, "one").await;
    let id = record["id"].as_str().expect("an id");
    println!("a virtual machine: created in {:?}", began.elapsed());
    assert!(controller.bash(id, "uname -r").await.trim().ends_with("cloud-amd64"));
    check_screenshot(&controller, id).await;
    controller.bash(id, "echo kept >/root/note").await;
    assert_eq!(controller.act(id, "stop", json!({})).await.status, 200);
    controller.until_status(id, "stopped").await;
    assert_eq!(controller.act(id, "start", json!({})).await.status, 200);
    controller.until_status(id, "running").await;
    assert_eq!(controller.bash(id, "cat /root/note").await.trim(), "kept");

    controller.bash(id, PROGRAMS).await;
    wait_for_terminal(&controller, id).await;
    suspend_and_resume(&mut controller, id, 2).await;
    // A restarted controller adopts the machine.
    let uptime_before = controller.bash(id, "cut -d. -f1 /proc/uptime").await;
    controller.kill();
    controller.start_again().await;
    let uptime_after = controller.bash(id, "cut -d. -f1 /proc/uptime").await;
    let seconds = |text: &str| text.trim().parse::<u64>().expect("seconds");
    assert!(seconds(&uptime_after) >= seconds(&uptime_before), "the machine must not boot again");
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

/// Commands that print what identifies a computer to its programs, one line each. All guests have the same
/// address: the host maps it by slot.
const IDENTITY: [&str; 6] = [
    "hostname",
    "cat /etc/hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "head -c 16 /dev/urandom | base64",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_forked_while_it_goes_on() {
    let Some(controller) = boot_controller("").await else { return };
    let workspace = controller.workspace("demo").await;
    let record = controller.computer(&workspace, "one").await;
    let one = id_of(&record);
    controller.bash(&one, PROGRAMS).await;
    wait_for_terminal(&controller, &one).await;
    type_line(&controller, &one, "before", "before").await;
    let (since, before) = (controller.bash(&one, START_TIMES).await, wait_for_count(&controller, &one).await);
    let began = Instant::now();
    let forked = controller.act(&one, "fork", json!({})).await;
    println!("a virtual machine: forked in {:?}", began.elapsed());
    assert_eq!((forked.status, &forked.body["name"]), (201, &json!("one (fork)")), "{}", forked.body);
    let two = id_of(&forked.body);
    for id in [&one, &two] {
        let offset = clock_offset(&controller, id).await;
        assert!(offset < 0.5, "clock offset of {offset} s on {id}");
        assert!(wait_for_count(&controller, id).await > before);
        assert_eq!(controller.bash(id, START_TIMES).await, since, "the same processes");
        type_line(&controller, id, id, &format!("before\n{id}")).await;
        check_screenshot(&controller, id).await;
    }
    expect_different(&controller, &one, &two, &IDENTITY).await;
    assert_eq!(controller.bash(&two, "hostname").await.trim(), format!("hotdesk-{}", &two[..8]));
    let now = controller.record(&one).await;
    assert_eq!((&now["status"], &now["vnc_password"]), (&json!("running"), &record["vnc_password"]));
    for own in ["vnc_password", "instance_id", "ip"] {
        assert!(now[own].is_string() && now[own] != forked.body[own], "{own}: {now} {}", forked.body);
    }
    assert_eq!(controller.delete(&format!("/computers/{one}")).await.status, 200);
    assert_eq!(controller.act(&two, "suspend", json!({})).await.status, 200);
    let paused_at = count(&controller, &two).await;
    assert!(paused_at > before && wait_for_count(&controller, &two).await > paused_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_goes_back_to_what_ran() {
    if let Some(controller) = boot_controller("").await {
        check_rollback(controller).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn virtual_machines_are_launched_at_once_from_one_snapshot() {
    if let Some(controller) = boot_controller("").await {
        check_launches(controller, 3, &IDENTITY).await;
    }
}
