//! Is a virtual machine a usable desktop through the public API, and does all of it go on after a stop, after a suspend, in a fork
//! and after a rollback?

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::json;

use super::desktop::{
    PROGRAMS, clock_is_off, count, counts_on, reads, shows_a_screen, sleeps_and_wakes, types,
};
use super::gvisor_fork::{SINCE, are_launched_at_once, differ, goes_back_to_what_ran};
use super::qemu::{kernel, no_machines_here};
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;

/// A controller whose computers are virtual machines, with more of its settings; `None`, with the reason printed, where they
/// cannot run.
pub async fn house(more: &str) -> Option<RunningController> {
    if let Some(reason) = no_machines_here() {
        println!("{reason}");
        return None;
    }
    let configuration = format!("engine = \"qemu\"\n[qemu]\nkernel = {:?}\n{more}", kernel());
    Some(RunningController::boot_with(&configuration).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_a_desktop_that_stops_and_sleeps() {
    let Some(mut house) = house("").await else { return };
    let workspace = house.workspace("demo").await;
    let began = Instant::now();
    let record = house.computer(&workspace, "one").await;
    let id = record["id"].as_str().expect("an id");
    println!("a virtual machine: created in {:?}", began.elapsed());
    assert!(house.bash(id, "uname -r").await.trim().ends_with("cloud-amd64"));
    shows_a_screen(&house, id).await;
    house.bash(id, "echo kept >/root/note").await;
    assert_eq!(house.act(id, "stop", json!({})).await.status, 200);
    house.until_status(id, "stopped").await;
    assert_eq!(house.act(id, "start", json!({})).await.status, 200);
    house.until_status(id, "running").await;
    assert_eq!(house.bash(id, "cat /root/note").await.trim(), "kept");

    house.bash(id, PROGRAMS).await;
    reads(&house, id).await;
    sleeps_and_wakes(&mut house, id, 2).await;
    // A controller that starts again finds the machine as it runs.
    let up = house.bash(id, "cut -d. -f1 /proc/uptime").await;
    house.kill();
    house.start_again().await;
    let later = house.bash(id, "cut -d. -f1 /proc/uptime").await;
    let seconds = |text: &str| text.trim().parse::<u64>().expect("seconds");
    assert!(seconds(&later) >= seconds(&up), "the same boot");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_started_a_virtual_machine_is_not_taken_for_it() {
    // Its number is lower than QEMU's, and it ends while the guest boots.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("qemu");
    let script = "#!/bin/sh\nsleep 3 </dev/null >/dev/null 2>&1 &\nexec qemu-system-x86_64 \"$@\"\n";
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let Some(house) = house(&format!("program = {program:?}\n")).await else { return };
    let workspace = house.workspace("demo").await;
    let record = house.computer(&workspace, "one").await;
    assert_eq!(house.bash(record["id"].as_str().expect("an id"), "echo up").await.trim(), "up");
}

/// Who a computer is to its programs, a line each. The address is the same in all guests: the host's is the slot's.
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
    let Some(house) = house("").await else { return };
    let workspace = house.workspace("demo").await;
    let record = house.computer(&workspace, "one").await;
    let one = id_of(&record);
    house.bash(&one, PROGRAMS).await;
    reads(&house, &one).await;
    types(&house, &one, "before", "before").await;
    let (since, before) = (house.bash(&one, SINCE).await, counts_on(&house, &one).await);
    let began = Instant::now();
    let forked = house.act(&one, "fork", json!({})).await;
    println!("a virtual machine: forked in {:?}", began.elapsed());
    assert_eq!((forked.status, &forked.body["name"]), (201, &json!("one (fork)")), "{}", forked.body);
    let two = id_of(&forked.body);
    for id in [&one, &two] {
        let off = clock_is_off(&house, id).await;
        assert!(off < 0.5, "the clock of {id} is off by {off} s");
        assert!(counts_on(&house, id).await > before);
        assert_eq!(house.bash(id, SINCE).await, since, "the same processes");
        types(&house, id, id, &format!("before\n{id}")).await;
        shows_a_screen(&house, id).await;
    }
    differ(&house, &one, &two, &IDENTITY).await;
    assert_eq!(house.bash(&two, "hostname").await.trim(), format!("hotdesk-{}", &two[..8]));
    let now = house.record(&one).await;
    assert_eq!((&now["status"], &now["vnc_password"]), (&json!("running"), &record["vnc_password"]));
    for own in ["vnc_password", "instance_id", "ip"] {
        assert!(now[own].is_string() && now[own] != forked.body[own], "{own}: {now} {}", forked.body);
    }
    assert_eq!(house.delete(&format!("/computers/{one}")).await.status, 200);
    assert_eq!(house.act(&two, "suspend", json!({})).await.status, 200);
    let slept_at = count(&house, &two).await;
    assert!(slept_at > before && counts_on(&house, &two).await > slept_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_goes_back_to_what_ran() {
    if let Some(house) = house("").await {
        goes_back_to_what_ran(house).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn virtual_machines_are_launched_at_once_from_one_snapshot() {
    if let Some(house) = house("").await {
        are_launched_at_once(house, 3, &IDENTITY).await;
    }
}
