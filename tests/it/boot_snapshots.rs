//! Boot snapshots: computers begin from a desktop that was booted once for their size, each with its own identity.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::base::wait;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Engine, EngineError, Shortage};
use reqwest::Method;
use serde_json::{Value, json};

use crate::crash::repair::{own_findings, run_doctor};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::picture;
use crate::harness::simulation::{Setup, Simulation};
use crate::templates::builds::{build, launch};
use crate::templates::services::{TIMEOUT, services, status};

/// Longest time until a boot snapshot is made: emulated processors boot a desktop in 20 s on a quiet machine.
const MADE_TIMEOUT: Duration = Duration::from_secs(180);
/// Configuration lines that turn boot snapshots on.
pub const ON: &str = "[boot_snapshots]\nkeep = 2\n";

async fn simulation(keep: u32) -> Simulation {
    let agent = std::sync::Arc::new(|_: &_| crate::harness::simulation::default_agent());
    Simulation::boot_with_agent(agent, Setup { boot_snapshots: keep, ..Setup::default() }).await
}

impl Simulation {
    /// Waits until this number of boot snapshots is ready, and returns their machines.
    pub async fn until_boot_snapshots(&self, count: usize) -> Vec<ComputerId> {
        let store = self.store().await;
        let ready = wait::until(MADE_TIMEOUT, || async {
            let all = store.boot_snapshots().await.expect("the store");
            let ready: Vec<_> = all.iter().filter(|(_, it)| it.ready).map(|(machine, _)| *machine).collect();
            (ready.len() == count && all.len() == count).then_some(ready)
        });
        ready.await.expect("boot snapshots")
    }

    async fn create_computer(&self, workspace: &str, name: &str, more: Value) -> String {
        let mut body = json!({ "workspace_id": workspace, "name": name });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let made = self.create("/computers", body).await;
        assert_eq!(made["status"], "running", "{made}");
        id_of(&made)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_a_size_boots_and_others_begin_from_its_snapshot() {
    let controller = simulation(2).await;
    let workspace = controller.workspace("w").await;
    controller.create_computer(&workspace, "first", json!({})).await;
    let [machine] = controller.until_boot_snapshots(1).await.try_into().expect("one");
    assert_eq!((controller.engine.calls(Verb::Launch), controller.engine.calls(Verb::Create)), (0, 2));
    let second = controller.create_computer(&workspace, "second", json!({ "bandwidth_limit_mbps": 5 })).await;
    assert_eq!((controller.engine.calls(Verb::Launch), controller.engine.calls(Verb::Create)), (1, 2));
    assert_eq!(controller.size(&second).id.to_string(), second);

    // Clients see nothing of the machine with the snapshot, and no action reaches it.
    let list = controller.get("/computers").await.body.to_string();
    assert!(list.contains(&second) && !list.contains(&machine.to_string()), "{list}");
    assert_eq!(controller.get(&format!("/computers/{machine}")).await.status, 404);

    // Another size boots once more. Of three sizes the one that was used least recently goes.
    controller.create_computer(&workspace, "large", json!({ "ram": 8 })).await;
    controller.until_boot_snapshots(2).await;
    controller.create_computer(&workspace, "third", json!({})).await;
    controller.create_computer(&workspace, "larger", json!({ "ram": 16 })).await;
    let kept = wait::until(MADE_TIMEOUT, || async {
        let three = controller.engine.calls(Verb::Snapshot) == 3;
        (three && controller.store().await.boot_snapshots().await.expect("the store").len() == 2)
            .then_some(())
    });
    kept.await.expect("two snapshots stay");
    controller.create_computer(&workspace, "fourth", json!({})).await;
    assert_eq!(controller.engine.calls(Verb::Launch), 3, "the size that was used last is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_built_template_has_the_boot_snapshot_of_its_hardware_before_its_first_launch() {
    let controller = simulation(2).await;
    let workspace = controller.workspace("w").await;
    let status = build(&controller, "lab@1.0.0", "hardware: {cpu: 2, ram_gb: 8}").await;
    assert_eq!(status["status"], "ready", "{status}");
    controller.until_boot_snapshots(1).await;
    let launched =
        controller.create_computer(&workspace, "c", json!({"template_ref": "default/lab@1.0.0"})).await;
    assert_eq!(controller.engine.calls(Verb::Launch), 1);
    let record = controller.get(&format!("/computers/{launched}")).await.body;
    assert_eq!((record["cpu"].as_f64(), record["ram"].as_u64()), (Some(2.0), Some(8)), "{record}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_cannot_use_a_snapshot_boots() {
    let mut controller = simulation(2).await;
    let workspace = controller.workspace("w").await;
    controller.create_computer(&workspace, "first", json!({})).await;
    controller.until_boot_snapshots(1).await;
    let short = || EngineError::NoCapacity(Shortage::DiskSpace, "none".to_owned());
    let broken = || EngineError::Damaged("a part differs".to_owned());
    for (verb, error, kept) in [
        (Verb::Launch, short(), true),
        (Verb::Launch, broken(), false),
        (Verb::Resume, short(), true),
        (Verb::Resume, broken(), false),
    ] {
        let call = controller.engine.calls(verb) + 1;
        controller.engine.plan(Fault { verb, call, failure: Failure::Before(error.clone()) });
        let name = format!("{verb:?} {kept}");
        controller.create_computer(&workspace, &name, json!({})).await;
        assert_eq!(controller.engine.calls(verb), call, "{error:?}");
        let left = controller.store().await.boot_snapshots().await.expect("the store").len();
        assert_eq!(left, usize::from(kept), "{verb:?} {error:?}");
        // The next create of the size wants another snapshot.
        let next = format!("after {verb:?} {kept}");
        controller.create_computer(&workspace, &next, json!({})).await;
        controller.until_boot_snapshots(1).await;
    }
    // No machine is left of a failed attempt: nine computers and one snapshot.
    assert_eq!(controller.engine.list().await.expect("machines").len(), 10);
    controller.restart().await;
    assert_eq!(controller.engine.list().await.expect("machines").len(), 10);
    controller.until_boot_snapshots(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_while_it_makes_one_leaves_nothing() {
    for verb in [Verb::Create, Verb::Start, Verb::Snapshot, Verb::Stop] {
        for done in [false, true] {
            let mut controller = simulation(2).await;
            let workspace = controller.workspace("w").await;
            let call = if matches!(verb, Verb::Create | Verb::Start) { 2 } else { 1 };
            controller.engine.plan(Fault { verb, call, failure: Failure::Never { done } });
            let first = controller.create_computer(&workspace, "first", json!({})).await;
            let stuck =
                wait::until(MADE_TIMEOUT, || async { (controller.engine.stuck() == 1).then_some(()) });
            stuck.await.expect("the step is reached");
            controller.kill().await;
            let clean = wait::until(MADE_TIMEOUT, || async {
                (controller.machines() == [first.clone()]).then_some(())
            });
            clean.await.unwrap_or_else(|| panic!("{verb:?} {done}: {:?}", controller.machines()));
            assert!(controller.store().await.boot_snapshots().await.expect("the store").is_empty());
            controller.until_status(&first, "running").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_snapshot_to_keep_every_computer_boots() {
    let mut controller = simulation(2).await;
    let workspace = controller.workspace("w").await;
    controller.create_computer(&workspace, "first", json!({})).await;
    controller.until_boot_snapshots(1).await;
    controller.keep_boot_snapshots(0);
    controller.restart().await;
    controller.create_computer(&workspace, "second", json!({})).await;
    assert_eq!(controller.engine.calls(Verb::Launch), 0);
    assert_eq!(controller.machines().len(), 2, "the snapshot's machine is removed");
}

/// Bit of the capability in `/proc/PID/status` (capabilities(7)).
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// Commands that print what identifies a computer to its programs. The last one is new with each call.
const IDENTITY: [&str; 6] = [
    "hostname",
    "cat /etc/machine-id",
    "cat /run/hotdesk/token",
    "ip -o link | grep -o 'ether [0-9a-f:]*'",
    "cat /etc/ssh/ssh_host_*_key.pub 2>/dev/null || hostname",
    "head -c 16 /dev/urandom | base64",
];

async fn metrics(controller: &RunningController) -> String {
    let answer = controller.bare(Method::GET, "/metrics").send().await.expect("metrics");
    answer.text().await.expect("a text")
}

/// Waits until a controller has a boot snapshot.
pub async fn until_there_is_one(controller: &RunningController) {
    let ready = wait::until(MADE_TIMEOUT, || async {
        metrics(controller).await.lines().any(|line| line == "hotdesk_boot_snapshots 1").then_some(())
    });
    ready.await.expect("a boot snapshot");
}

/// Asserts that this number of computers began from a boot snapshot since the start of the controller.
pub async fn expect_begun(controller: &RunningController, count: usize) {
    let metrics = metrics(controller).await;
    let line = format!("hotdesk_computers_begun_total{{from=\"boot_snapshot\"}} {count}");
    assert!(metrics.lines().any(|it| it == line), "{metrics}");
}

/// Creates computers before and after their boot snapshot is made; all are usable and none is like another.
async fn check_real(mut controller: RunningController) {
    let workspace = controller.workspace("w").await;
    let began = Instant::now();
    let first = id_of(&controller.computer(&workspace, "booted").await);
    println!("figure: a create that boots took {:?}", began.elapsed());
    // A controller that is killed while it makes the snapshot makes it after its next start.
    controller.kill();
    controller.start_again().await;
    let another = id_of(&controller.computer(&workspace, "booted too").await);
    until_there_is_one(&controller).await;
    let began = Instant::now();
    let third = id_of(&controller.computer(&workspace, "begun").await);
    println!("figure: a create from a boot snapshot took {:?}", began.elapsed());
    let fourth = id_of(&controller.computer(&workspace, "begun too").await);
    expect_begun(&controller, 2).await;

    let all = [first, another, third, fourth];
    for command in IDENTITY {
        let mut answers = BTreeSet::new();
        for id in &all {
            answers.insert(controller.bash(id, command).await);
        }
        assert_eq!(answers.len(), all.len(), "{command}: {answers:?}");
    }
    for id in &all {
        let path = format!("/computers/{id}/screenshot?response_format=binary");
        let shot = controller.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
    }
    // The agent alone may set the host name, and its root gains nothing by it.
    for id in [&all[0], &all[2]] {
        let sets = controller.bash(id, "grep -h -e CapPrm -e CapBnd /proc/self/status | cut -f2").await;
        for set in sets.lines() {
            let set = u64::from_str_radix(set, 16).expect("a set of capabilities");
            assert_eq!(set & CAP_SYS_ADMIN, 0, "{sets}");
        }
        // PTRACE_SEIZE, which does not stop the process (ptrace(2)).
        let seize = "import ctypes, sys; print(ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 0))";
        let refused = format!(
            "hostname other 2>/dev/null || echo refused; python3 -c '{seize}' $(pgrep -o -f 'hotdesk agent')"
        );
        assert_eq!(controller.bash(id, &refused).await, "refused\n-1\n");
    }
    let written = controller.bash(&all[2], "echo own >/root/file; sync; cat /root/file").await;
    assert_eq!(written, "own\n");
    assert_eq!(controller.bash(&all[3], "ls /root/file 2>&1 | grep -c 'No such'").await, "1\n");
    // It is a computer like any other: its disk boots, too.
    assert_eq!(controller.act(&all[2], "restart", json!({})).await.status, 200);
    controller.until_status(&all[2], "running").await;
    assert_eq!(controller.bash(&all[2], "cat /root/file").await, "own\n");

    // The snapshot's machine is no leftover of a computer.
    controller.kill();
    let (_, found) = run_doctor(&controller, &[]);
    let own = own_findings(&found, &[&controller.data_dir().to_string_lossy()]);
    assert_eq!((own, &found["prepared"]), (vec![], &json!({"boot_snapshots": 1, "pool": 0})), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_over_gvisor_is_booted_once() {
    let Some(configuration) = gvisor() else { return };
    check_real(RunningController::boot_with(&format!("{configuration}{ON}")).await).await;
}

/// Prints when the supervisor of a service began (`src/agent/exec/services/supervisor/status.rs`): until its service ends, it is
/// ready since then.
const SUPERVISED_SINCE: &str =
    "head -c 24 /run/hotdesk*/services/site/supervise/status | tail -c 12 | base64";

#[tokio::test(flavor = "multi_thread")]
async fn services_of_a_launch_run_under_supervisors_of_its_boot_snapshot() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&format!("{configuration}{ON}")).await;
    let content = "apps: [{name: web, services: [{name: site, user: root, \
        run: 'head -c 16 /dev/urandom | base64 >/root/random; echo up; exec sleep 1000'}]}]";
    let built = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    until_there_is_one(&controller).await;
    let workspace = controller.workspace("w").await;
    let mut begun = BTreeSet::new();
    let mut random = BTreeSet::new();
    for name in ["one", "two"] {
        let launched = launch(&controller, &workspace, name, "lab@1.0.0").await;
        assert_eq!(launched.status, 201, "{}", launched.body);
        let id = id_of(&launched.body);
        services(&controller, &id, |list| status(list, "site") == "running").await;
        let log = format!("/computers/{id}/services/site/log");
        let said = wait::until(TIMEOUT, || async {
            let log = controller.get(&log).await.body;
            (log["text"].as_str()?.lines().count() == 1).then_some(())
        });
        said.await.expect("the service wrote one line");
        begun.insert(controller.bash(&id, SUPERVISED_SINCE).await);
        random.insert(controller.bash(&id, "cat /root/random").await);
        // A supervisor that was saved and restored obeys, and sees the end of its service.
        let path = format!("/computers/{id}/services/site");
        for (action, expected) in [("restart", "running"), ("stop", "stopped"), ("start", "running")] {
            let done = controller.post(&path, json!({ "action": action })).await;
            assert_eq!((done.status, status(&done.body, "site")), (200, expected), "{action}: {}", done.body);
        }
    }
    expect_begun(&controller, 2).await;
    assert_eq!(
        (begun.len(), random.len()),
        (1, 2),
        "one supervisor for both, started once: {begun:?} {random:?}"
    );
}
