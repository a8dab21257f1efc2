//! Do computers outlive their controller, and does the next one take them over as they are?

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use hotdesk::engine::container::{ContainerConfig, ContainerEngine, NetworkConfig};
use hotdesk::engine::{Boot, Engine, MachineSpec};
use serde_json::json;

use super::remains::Remains;
use crate::harness::controller::{RunningController, command, image, no_computers_here, purge};
use crate::harness::host;

/// Starts what lives on after its command: it writes an empty line ten times a second.
const START_BEATING: &str = "setsid -f bash -c 'while :; do echo >> /tmp/beats; sleep 0.1; done' >/dev/null 2>&1 </dev/null; \
     until test -s /tmp/beats; do sleep 0.05; done";

/// What tells one life of a computer from the next: when its first process started, and its process namespace.
const IDENTITY: &str =
    "cut -d' ' -f22 /proc/1/stat; readlink /proc/1/ns/pid; pgrep -f 'tmp/beats' | sort -n | head -1";

#[tokio::test(flavor = "multi_thread")]
async fn t18_computers_run_on_and_are_adopted_as_they_are() {
    let Some((mut house, _, id)) = RunningController::with_a_computer().await else { return };
    let made = house.record(&id).await;
    house.bash(&id, START_BEATING).await;
    let before = house.bash(&id, IDENTITY).await;
    let beats = format!("/proc/{}/root/tmp/beats", house.init_pid(&id));
    let beaten = || std::fs::read(&beats).expect("the beats").len();
    for round in 0..3 {
        // Killed twice, asked to end once: computers run on whichever way their controller goes.
        if round == 1 {
            house.terminate();
            assert!(house.ended(Duration::from_secs(20)).await.success());
        } else {
            house.kill();
        }
        let (down, processes, seen) = (Instant::now(), Remains::of(&house).processes(), beaten());
        assert!(processes.len() > 2, "the computer's processes live: {processes:?}");
        let on = wait::until(Duration::from_secs(30), || async { (beaten() >= seen + 2).then_some(()) });
        assert!(on.await.is_some(), "the computer paused while its controller was away");
        house.start_again().await;
        // At once: no waiting for anything.
        let asked = Instant::now();
        assert_eq!(house.bash(&id, IDENTITY).await, before, "round {round}");
        println!("round {round}: down for {:?}, first answer after {:?}", asked - down, asked.elapsed());
        let record = house.get(&format!("/computers/{id}")).await.body;
        assert_eq!(record["vnc_password"], made["vnc_password"]);
        assert_eq!(
            (&record["status"], &record["ip"], &record["instance_id"]),
            (&json!("running"), &made["ip"], &made["instance_id"])
        );
    }
    // Adopted for good: its end is noticed, and it can be ended.
    assert_eq!(house.post(&format!("/computers/{id}/stop"), json!({})).await.status, 200);
    house.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_computer_that_ended_meanwhile_reads_stopped() {
    let Some((mut house, _, id)) = RunningController::with_a_computer().await else { return };
    house.kill();
    host::kill(&id);
    house.start_again().await;
    house.until_status(&id, "stopped").await;
    assert_eq!(house.post(&format!("/computers/{id}/start"), json!({})).await.status, 200);
    house.until_status(&id, "running").await;
    assert_eq!(house.bash(&id, "echo back").await, "back\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_machine_that_no_computer_owns_is_removed_at_start() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let mut house = RunningController::boot().await;
    house.kill();
    let mut config = ContainerConfig::new(house.data_dir(), image(), env!("CARGO_BIN_EXE_hotdesk"));
    config.network = NetworkConfig::default();
    let engine = ContainerEngine::open(config).expect("an engine");
    let spec = MachineSpec {
        id: ComputerId::random(),
        cpu: 1.0,
        memory_bytes: 1 << 30,
        disk_bytes: 1 << 30,
        bandwidth_mbps: 0,
    };
    engine.create(&spec).await.expect("created");
    let boot = Boot {
        generation: 1,
        token: Secret::random(43),
        resolution: hotdesk::domain::resolution::Resolution::default(),
    };
    engine.start(&spec, &boot).await.expect("started");
    let remains = Remains::of(&house);
    assert_eq!(remains.machines(), [spec.id.to_string()]);
    assert!(!remains.processes().is_empty());
    house.start_again().await;
    assert_eq!(house.get("/computers").await.body["total"], 0);
    remains.are_those_of(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn purge_waits_for_nobody_and_leaves_what_the_next_controller_understands() {
    let Some((mut house, _, id)) = RunningController::with_a_computer().await else { return };
    let remains = Remains::of(&house);
    let refused = Command::new(env!("CARGO_BIN_EXE_hotdesk"))
        .args(["purge", "--yes", "--data-dir"])
        .arg(house.data_dir())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains(&house.pid().to_string()), "{said}");
    assert_eq!(house.bash(&id, "echo here").await, "here\n");
    house.kill();
    purge(&house.data_dir());
    remains.are_those_of(&[]).await;
    house.start_again().await;
    house.until_status(&id, "error").await;
    assert_eq!(house.delete(&format!("/computers/{id}")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_second_controller_on_the_same_data_names_the_first() {
    let mut house = RunningController::boot().await;
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        let second =
            command(house.folder()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it runs");
        quickest = quickest.min(started.elapsed());
        let said = String::from_utf8_lossy(&second.stderr);
        assert!(!second.status.success() && said.contains(&house.pid().to_string()), "{said}");
        assert!(second.stdout.is_empty(), "it never listened");
    }
    assert!(quickest < Duration::from_secs(1), "refused after {quickest:?}");
    assert_eq!(house.get("/workspaces").await.status, 200);
    // The lock goes with its holder, however it ends.
    house.kill();
    house.start_again().await;
    assert_eq!(house.get("/workspaces").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_told_to_end_answers_what_it_was_asked() {
    let Some((mut house, _, id)) = RunningController::with_a_computer().await else { return };
    let asked = house.request(reqwest::Method::POST, &format!("/computers/{id}/bash"));
    let asked = asked.json(&json!({"command": "touch /tmp/begun; sleep 1; echo done"}));
    let begun = async {
        let seen = wait::until(Duration::from_secs(60), || async {
            (house.bash(&id, "ls /tmp/begun 2>/dev/null; true").await == "/tmp/begun\n").then_some(())
        });
        assert!(seen.await.is_some(), "the command did not begin");
        house.terminate();
    };
    let (answer, ()) = tokio::join!(crate::harness::agent::answered(asked), begun);
    assert_eq!((answer.status, &answer.body["output"]), (200, &json!("done\n")), "{}", answer.body);
    let answered = Instant::now();
    assert!(house.ended(Duration::from_secs(20)).await.success());
    println!("ended {:?} after the last answer", answered.elapsed());
    house.start_again().await;
    assert_eq!(house.bash(&id, "echo still here").await, "still here\n");
}
