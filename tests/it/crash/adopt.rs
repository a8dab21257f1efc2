//! Adoption of running computers by the next controller.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{Boot, MachineSpec, NetworkConfig};
use serde_json::json;

use super::remains::Leftovers;
use crate::engines::host::{container_settings, open_engine};
use crate::harness::controller::{RunningController, command, image, purge, skip_reason};
use crate::harness::host;
use crate::harness::program::program;

/// Starts a process that outlives its command and appends an empty line ten times a second.
const START_HEARTBEAT: &str = "setsid -f bash -c 'while :; do echo >> /tmp/beats; sleep 0.1; done' >/dev/null 2>&1 </dev/null; \
     until test -s /tmp/beats; do sleep 0.05; done";

/// Distinguishes one boot of a computer from the next: start time of its first process, and its process
/// namespace.
const IDENTITY: &str =
    "cut -d' ' -f22 /proc/1/stat; readlink /proc/1/ns/pid; pgrep -f 'tmp/beats' | sort -n | head -1";

#[tokio::test(flavor = "multi_thread")]
async fn t18_computers_run_on_and_are_adopted_as_they_are() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    let created = controller.record(&id).await;
    controller.bash(&id, START_HEARTBEAT).await;
    let before = controller.bash(&id, IDENTITY).await;
    let heartbeat_file = format!("/proc/{}/root/tmp/beats", controller.init_pid(&id));
    let heartbeat_length = || std::fs::read(&heartbeat_file).expect("the heartbeat file").len();
    for round in 0..3 {
        // Two kills and one orderly end: computers keep running in each case.
        if round == 1 {
            controller.terminate();
            assert!(controller.ended(Duration::from_secs(20)).await.success());
        } else {
            controller.kill();
        }
        let (down, processes, reached) =
            (Instant::now(), Leftovers::new(&controller).processes(), heartbeat_length());
        assert!(processes.len() > 2, "the computer's processes must live: {processes:?}");
        let went_on = wait::until(Duration::from_secs(30), || async {
            (heartbeat_length() >= reached + 2).then_some(())
        });
        assert!(went_on.await.is_some(), "the computer must keep running without its controller");
        controller.start_again().await;
        // The first request is served without waiting.
        let requested = Instant::now();
        assert_eq!(controller.bash(&id, IDENTITY).await, before, "round {round}");
        println!(
            "round {round}: down for {:?}, first answer after {:?}",
            requested - down,
            requested.elapsed()
        );
        let record = controller.get(&format!("/computers/{id}")).await.body;
        assert_eq!(record["vnc_password"], created["vnc_password"]);
        assert_eq!(
            (&record["status"], &record["ip"], &record["instance_id"]),
            (&json!("running"), &created["ip"], &created["instance_id"])
        );
    }
    // The adoption is complete: the controller notices the computer's end and can stop it.
    assert_eq!(controller.post(&format!("/computers/{id}/stop"), json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_computer_that_ended_meanwhile_reads_stopped() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    controller.kill();
    host::kill(&id);
    controller.start_again().await;
    controller.until_status(&id, "stopped").await;
    assert_eq!(controller.post(&format!("/computers/{id}/start"), json!({})).await.status, 200);
    controller.until_status(&id, "running").await;
    assert_eq!(controller.bash(&id, "echo back").await, "back\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_machine_that_no_computer_owns_is_removed_at_start() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let mut controller = RunningController::boot().await;
    controller.kill();
    let mut config = container_settings(controller.data_dir(), image(), program());
    config.host.network = NetworkConfig::default();
    let engine = open_engine(config);
    let spec = MachineSpec {
        id: ComputerId::random(),
        isolation: Isolation::Shared,
        cpu: 1.0,
        memory_bytes: 1 << 30,
        disk_bytes: 1 << 30,
        bandwidth_mbps: 0,
        layers: Vec::new(),
        egress: None,
    };
    engine.create(&spec).await.expect("created");
    let boot = Boot {
        generation: 1,
        token: Secret::random(43),
        resolution: hotdesk::domain::desktop::resolution::Resolution::default(),
    };
    engine.start(&spec, &boot).await.expect("started");
    let leftovers = Leftovers::new(&controller);
    assert_eq!(leftovers.machines(), [spec.id.to_string()]);
    assert!(!leftovers.processes().is_empty());
    controller.start_again().await;
    assert_eq!(controller.get("/computers").await.body["total"], 0);
    leftovers.check_running(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn purge_waits_for_nobody_and_leaves_what_the_next_controller_understands() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    let leftovers = Leftovers::new(&controller);
    let refused = Command::new(program())
        .args(["purge", "--yes", "--data-dir"])
        .arg(controller.data_dir())
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && message.contains(&controller.pid().to_string()), "{message}");
    assert_eq!(controller.bash(&id, "echo here").await, "here\n");
    controller.kill();
    purge(&controller.data_dir());
    leftovers.check_running(&[]).await;
    controller.start_again().await;
    controller.until_status(&id, "error").await;
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_second_controller_on_the_same_data_names_the_first() {
    let mut controller = RunningController::boot().await;
    let (mut quickest, most) = (Duration::MAX, Duration::from_secs(1));
    for attempt in 0..10 {
        // Of a busy machine the best of some attempts counts.
        if attempt >= 3 && quickest < most {
            break;
        }
        let started = Instant::now();
        let second = command(controller.folder())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .expect("the program starts");
        quickest = quickest.min(started.elapsed());
        let message = String::from_utf8_lossy(&second.stderr);
        assert!(!second.status.success() && message.contains(&controller.pid().to_string()), "{message}");
        assert!(second.stdout.is_empty(), "the second controller must not listen");
    }
    assert!(quickest < most, "refused after {quickest:?}");
    assert_eq!(controller.get("/workspaces").await.status, 200);
    // The kernel releases the lock however its holder ends.
    controller.kill();
    controller.start_again().await;
    assert_eq!(controller.get("/workspaces").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_told_to_end_answers_what_it_was_asked() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    let request = controller.request(reqwest::Method::POST, &format!("/computers/{id}/bash"));
    let request = request.json(&json!({"command": "touch /tmp/begun; sleep 1; echo done"}));
    let begun = async {
        let reached = wait::until(Duration::from_secs(60), || async {
            (controller.bash(&id, "ls /tmp/begun 2>/dev/null; true").await == "/tmp/begun\n").then_some(())
        });
        assert!(reached.await.is_some(), "the command must begin");
        controller.terminate();
    };
    let (answer, ()) = tokio::join!(crate::harness::agent::fetch_json(request), begun);
    assert_eq!((answer.status, &answer.body["output"]), (200, &json!("done\n")), "{}", answer.body);
    let answered = Instant::now();
    assert!(controller.ended(Duration::from_secs(20)).await.success());
    println!("ended {:?} after the last answer", answered.elapsed());
    controller.start_again().await;
    assert_eq!(controller.bash(&id, "echo still here").await, "still here\n");
}
