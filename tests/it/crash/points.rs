//! Recovery after the controller is killed before any step of a verb.
//!
//! T18 (docs/security.md). A step is a sync, rename, mount or spawn of its own. The tests use real computers,
//! and the next controller starts at once.
//!
//! An ordinary run samples the steps deterministically; `make soak` (`HOTDESK_ROUNDS`) takes every step of
//! every verb.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::remains::Leftovers;
use super::rounds::{consistency_timeout, look, requested_rounds};
use super::sweep::{Operation, operations};
use crate::boot_snapshots;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, encryption_skip, gvisor, skip_reason};
use crate::harness::host::names_in;
use crate::harness::syscall_trace::TracedProcess;

/// Distance between the steps that an ordinary run takes. A prime, so that it is no period of the work.
pub const STRIDE: usize = 193;
/// Content of the file on a computer's disk.
const NOTE: u64 = 7;
/// Longest time of a verb that is not interrupted.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a client learns about a request during which its controller may die.
enum Outcome {
    /// The request is complete.
    Done,
    /// There is no answer, or its work was not complete.
    Unknown,
}

struct Scene {
    controller: RunningController,
    remains: Leftovers,
    workspace: String,
    worst: Duration,
}

impl Scene {
    async fn new(controller: RunningController) -> Self {
        let remains = Leftovers::beside_boot_snapshots(&controller);
        let workspace = controller.workspace("w").await;
        Self { controller, remains, workspace, worst: Duration::ZERO }
    }

    /// A computer with a file on its disk, in the status that the verb requires.
    async fn prepare(&self, operation: &Operation) -> Option<String> {
        let from = operation.from?;
        let id = id_of(&self.controller.computer(&self.workspace, "desk").await);
        self.controller.bash(&id, &format!("echo {NOTE} >/root/note; sync")).await;
        let verb = match from {
            "stopped" => "stop",
            "suspended" => "suspend",
            _ => return Some(id),
        };
        let answer = self.controller.act(&id, verb, json!({})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.controller.until_status(&id, from).await;
        Some(id)
    }

    /// Sends the request and waits for the end of the work that follows the answer.
    async fn send(&self, operation: &Operation, id: Option<&str>) -> Outcome {
        let Ok(answer) = operation.request(&self.controller, &self.workspace, id, "").send().await else {
            return Outcome::Unknown;
        };
        assert!(answer.status().is_success(), "{}: {answer:?}", operation.name);
        if !["stop", "start", "restart"].contains(&operation.name) {
            return Outcome::Done;
        }
        let id = id.expect("an existing computer");
        let reached = wait::until(TIMEOUT, || async {
            let Ok(answer) =
                self.controller.request(reqwest::Method::GET, &format!("/computers/{id}")).send().await
            else {
                return Some(Outcome::Unknown);
            };
            let record: Value = answer.json().await.unwrap_or_default();
            (record["status"] == operation.goal).then_some(Outcome::Done)
        });
        reached.await.expect("the verb ends within the timeout")
    }

    /// Kills the controller before a step of the verb and checks the state after the next start. Returns
    /// whether the verb has such a step, and its steps so far.
    async fn kill_at_step(&mut self, operation: &Operation, step: usize) -> (bool, Vec<&'static str>) {
        let id = self.prepare(operation).await;
        let traced = TracedProcess::until(self.controller.pid(), step);
        let outcome = self.send(operation, id.as_deref()).await;
        self.remains.observe();
        let path = traced.end().await;
        self.controller.reap();
        let name = format!(
            "{} from {:?}, killed before step {step}: {:?}",
            operation.name,
            operation.from,
            path.steps.last()
        );
        self.controller.start_again().await;
        let started = Instant::now();
        look::wait_until_settled(&self.controller).await;
        let listed = look::records(&self.controller).await;
        self.check_state(operation, id.as_deref(), &listed, matches!(outcome, Outcome::Done), &name).await;
        self.remains.check(&look::rows(&self.controller).await, consistency_timeout()).await;
        self.worst = self.worst.max(started.elapsed());
        for one in &listed {
            let removed = self.controller.delete(&format!("/computers/{}", id_of(one))).await;
            assert_eq!(removed.status, 200, "{name}: {}", removed.body);
        }
        (path.killed, path.steps)
    }

    /// Asserts that the state is that of before or after the request, and that of after when it was
    /// acknowledged.
    async fn check_state(
        &self,
        operation: &Operation,
        id: Option<&str>,
        listed: &[Value],
        done: bool,
        name: &str,
    ) {
        let creates = ["create", "clone", "fork"].contains(&operation.name);
        let (created, unchanged) = (usize::from(creates), creates || !done);
        let is_old = |one: &Value| Some(one["id"].as_str().expect("an id")) == id;
        let (old, new): (Vec<&Value>, Vec<&Value>) = listed.iter().partition(|one| is_old(one));
        assert!(new.len() == created || new.is_empty() && !done, "{name}: {listed:?}");
        let gone = operation.goal == "none";
        assert!(old.len() == usize::from(id.is_some()) || gone, "{name}: the computer is lost");
        assert!(old.is_empty() || !gone || !done, "{name}: the removed computer is back");
        for one in listed {
            let status = one["status"].as_str().expect("a status");
            let expected =
                status == operation.goal || is_old(one) && Some(status) == operation.from && unchanged;
            assert!(expected, "{name}: {one}");
            let was_written = is_old(one) || ["clone", "fork"].contains(&operation.name);
            if status == "running" && was_written {
                let observed = look::read(&self.controller, &id_of(one)).await;
                assert_eq!(observed.note, Some(NOTE), "{name}");
            }
            let kept = is_old(one) && operation.name.starts_with("snapshot") && done;
            self.check_snapshots(&id_of(one), kept, name).await;
        }
        if let Some(one) = old.first().filter(|_| operation.name == "resize") {
            let size = ["cpu", "ram", "disk_size_gb"].map(|field| one[field].as_f64().expect("a number"));
            let expected = size == [2.0, 8.0, 20.0] || !done && size == [1.0, 4.0, 8.0];
            assert!(expected, "{name}: {size:?}");
        }
    }

    /// Asserts one complete snapshot for each row.
    async fn check_snapshots(&self, id: &str, acknowledged: bool, name: &str) {
        let whole = wait::until(consistency_timeout(), || async {
            let listed = self.controller.get(&format!("/computers/{id}/snapshots")).await.body;
            let listed = listed["snapshots"].as_array().expect("a list").clone();
            let rows: BTreeSet<String> = listed.iter().map(id_of).collect();
            let there = names_in(&self.controller.machine(id).join("snapshots"));
            let is_of_one = |name: &String| {
                let (snapshot, part) = name.split_once('.').expect("a name of a snapshot's part");
                rows.contains(snapshot) && ["img", "memory", "agent"].contains(&part)
            };
            let disks = there.iter().filter(|name| name.ends_with(".img")).count();
            (there.iter().all(is_of_one) && disks == rows.len()).then_some(disks)
        });
        let kept = whole.await.unwrap_or_else(|| panic!("{name}: an incomplete snapshot"));
        assert!(!acknowledged || kept == 1, "{name}: the snapshot is lost");
    }
}

/// Kills controllers at the steps of the selected verbs.
async fn sweep(controller: RunningController, which: impl Fn(&Operation) -> bool) {
    let (mut scene, mut points, stride) =
        (Scene::new(controller).await, 0, if requested_rounds().is_some() { 1 } else { STRIDE });
    for (turn, operation) in operations().iter().filter(|operation| which(operation)).enumerate() {
        // Start at another step for each verb, because many verbs begin alike.
        let mut step = 1 + turn * 7 % stride;
        loop {
            let (killed, steps) = scene.kill_at_step(operation, step).await;
            points += 1;
            if !killed {
                println!("{} from {:?}: {} steps: {steps:?}", operation.name, operation.from, steps.len());
                break;
            }
            step += stride;
        }
    }
    println!("{points} controllers killed; in order within {:?}", scene.worst);
    scene.remains.check(&[], consistency_timeout()).await;
    println!("the host is in order");
    drop(scene);
    println!("all computers are removed");
}

/// Whether the verb needs memory snapshots.
fn needs_memory(operation: &Operation) -> bool {
    operation.name == "suspend" || operation.from == Some("suspended") || operation.copies_memory()
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_of_its_steps() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    sweep(RunningController::boot().await, |operation| !needs_memory(operation)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_of_its_steps_while_memory_is_kept() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&format!("{configuration}{}", boot_snapshots::ON)).await;
    // Each step needs a computer of its own, which need not boot.
    let first = controller.workspace("first").await;
    let booted = id_of(&controller.computer(&first, "booted").await);
    boot_snapshots::until_there_is_one(&controller).await;
    assert_eq!(controller.delete(&format!("/computers/{booted}")).await.status, 200);
    // Only the simulated sweep covers verbs that begin with a snapshot.
    sweep(controller, |operation| needs_memory(operation) && !operation.needs_snapshot()).await;
}

/// Size of the file system with encrypted computers, in MiB.
const ENCRYPTED_MIB: u64 = 3072;

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_step_that_makes_or_removes_an_encrypted_computer() {
    if let Some(skip) = skip_reason().or_else(encryption_skip) {
        return skip.report();
    }
    let encrypted = "[encryption]\ncomputers = true\n";
    let controller = RunningController::boot_on_encrypting_disk(ENCRYPTED_MIB, encrypted).await;
    let concerned = |operation: &Operation| ["create", "clone", "delete"].contains(&operation.name);
    sweep(controller, |operation| concerned(operation) && !needs_memory(operation)).await;
}
