//! Does the status tell within seconds that a machine has died behind its controller's back, and does `start` bring it back?

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::harness::controller::{RunningController, no_computers_here, runsc};
use crate::harness::host;

/// By when the status has to say so.
const SOON: Duration = Duration::from_secs(5);
/// The same where others work on the machine too: the better of two tries is held to [`SOON`].
const BUSY: Duration = Duration::from_secs(30);

/// Kills some of a running computer's processes, and expects the truth, a way out of it, and all that was on the disk.
async fn the_truth_is_told(house: &RunningController, victims: impl Fn(&str) -> Vec<u32>) {
    let workspace = house.workspace("w").await;
    let made = house.computer(&workspace, "desk").await;
    let id = made["id"].as_str().expect("an id");
    house.bash(id, "echo kept >/root/kept; sync /root/kept").await;
    let mut quickest = Duration::MAX;
    for round in 0..2 {
        let victims = victims(id);
        assert!(!victims.is_empty(), "nothing runs");
        let died = Instant::now();
        for pid in victims {
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("it runs");
        }
        house.until_status(id, "stopped").await;
        let told = died.elapsed();
        println!("told after {told:?}");
        assert!(told < BUSY, "told after {told:?}");
        quickest = quickest.min(told);
        assert_eq!(host::left_of(id), None, "what its boot took is given back");
        let refused = house.post(&format!("/computers/{id}/click"), json!({"x": 1, "y": 1})).await;
        assert_eq!(
            (refused.status, &refused.body["error"]),
            (409, &json!("Computer is not running (status: stopped)"))
        );
        let way_out = if round == 0 { "start" } else { "ensure-running" };
        assert_eq!(house.act(id, way_out, json!({})).await.status, 200);
        house.until_status(id, "running").await;
        assert_eq!(house.bash(id, "cat /root/kept").await, "kept\n");
    }
    assert!(quickest < SOON, "told after {quickest:?} at best");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_first_process_was_killed_reads_stopped_and_starts_again() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    the_truth_is_told(&house, |id| vec![house.init_pid(id).unsigned_abs()]).await;
}

/// The process that is the kernel of a guest over gVisor.
fn sandbox(id: &str) -> Vec<u32> {
    let is_kernel = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"boot")
    };
    host::processes(id).into_iter().filter(is_kernel).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_whose_kernel_in_user_space_was_killed_reads_stopped_and_starts_again() {
    let runtime = runsc();
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    if !Path::new(&runtime).exists() {
        return println!("skipped: {runtime} is not there (packaging/dev/deps test)");
    }
    let house = RunningController::boot_with(&format!("[container]\nruntime = {runtime:?}\n")).await;
    the_truth_is_told(&house, sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_whose_qemu_was_killed_reads_stopped_and_starts_again() {
    let Some(house) = crate::engines::qemu_desktop::house("").await else { return };
    the_truth_is_told(&house, host::processes).await;
}
