//! `hotdesk doctor --repair`: list, explanation and removal of leftovers.
//!
//! It removes them only on request and never touches what a computer uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{Boot, MachineSpec};
use serde_json::{Value, json};

use super::remains::Leftovers;
use crate::engines::host::{container_settings, open_engine};
use crate::engines::{qemu, qemu_desktop};
use crate::harness::controller::{RunningController, image, remove_test_variables};
use crate::harness::host;
use crate::harness::program::program;

/// Control groups of the OCI runtime, at a path that both versions of control groups have.
const GROUPS: &str = "/sys/fs/cgroup";
/// Longest life of another test's mount namespace.
const DETACHED_TIMEOUT: Duration = Duration::from_secs(60);

fn doctor(controller: &RunningController, options: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(["doctor", "--repair"]).args(options).arg("--data-dir").arg(controller.data_dir());
    remove_test_variables(&mut command);
    command.output().expect("the program starts")
}

/// Runs `hotdesk doctor`; returns its exit code and its JSON.
pub fn run_doctor(controller: &RunningController, options: &[&str]) -> (i32, Value) {
    let output = doctor(controller, &[options, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let run_doctor = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().expect("a code"), run_doctor)
}

/// Findings of this test as kind and place, without those of other tests on this host.
pub fn own_findings(run_doctor: &Value, marks: &[&str]) -> Vec<(String, String)> {
    let all = run_doctor["leftovers"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let all = all.map(|it| (text(&it["what"]), text(&it["place"])));
    all.filter(|(_, place)| marks.iter().any(|mark| place.contains(mark))).collect()
}

fn run_on_host(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("a tool");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A small machine. An engine that is alone runs it, whatever its isolation.
fn spec(id: ComputerId) -> MachineSpec {
    MachineSpec {
        id,
        isolation: Isolation::Shared,
        cpu: 1.0,
        memory_bytes: 1 << 29,
        disk_bytes: 1 << 28,
        bandwidth_mbps: 0,
        layers: Vec::new(),
        egress: None,
    }
}

/// Creates a running machine without a row, and another one with an incomplete disk.
async fn create_orphans(controller: &RunningController) -> (ComputerId, ComputerId) {
    let mut config = container_settings(controller.data_dir(), image(), program());
    config.host.init_args = Some(["/bin/sleep", "1000"].map(str::to_owned).to_vec());
    let engine = open_engine(config);
    let (running, partial) = (ComputerId::random(), ComputerId::random());
    engine.create(&spec(running)).await.expect("created");
    let boot = Boot { generation: 1, token: Secret::random(43), resolution: Default::default() };
    engine.start(&spec(running), &boot).await.expect("started");
    engine.create(&spec(partial)).await.expect("created");
    fs::rename(
        controller.machine(&partial.to_string()).join("disk.img"),
        controller.machine(&partial.to_string()).join("disk.new"),
    )
    .expect("the disk is renamed to an unfinished one");
    (running, partial)
}

/// Claims a free slot for a machine of this controller that has only a control group, and adds its address to
/// the packet rules.
fn claim_slot(controller: &RunningController, id: ComputerId) -> (PathBuf, u16) {
    let data = fs::canonicalize(controller.data_dir()).expect("a folder");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let text = format!("{} {}", boot.trim(), data.join("machines").join(id.to_string()).display());
    // Other controllers claim the highest slots last.
    let claim = (16000..16384_u16).rev().find_map(|slot| {
        let claim = Path::new("/run/hotdesk-engine/slots").join(format!("{slot:05}"));
        std::os::unix::fs::symlink(&text, &claim).is_ok().then_some((claim, slot))
    });
    let (claim, slot) = claim.expect("a free slot");
    let first = 4 * u32::from(slot);
    let address = format!("10.213.{}.{}", first >> 8, (first & 255) + 2);
    run_on_host("nft", &["add", "element", "inet", "hotdesk", "guests", &format!("{{ {address} }}")]);
    (claim, slot)
}

/// Creates a group in every hierarchy, as an interrupted start would leave it.
fn create_groups(id: ComputerId) -> Vec<PathBuf> {
    let roots = host::control_group_roots();
    let groups: Vec<PathBuf> = roots.iter().map(|root| root.join("hotdesk").join(id.to_string())).collect();
    groups.iter().for_each(|group| fs::create_dir_all(group).expect("a group"));
    assert!(!groups.is_empty(), "control groups under {GROUPS}");
    groups
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_takes_away_what_nobody_owns_and_nothing_else() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    controller.bash(&id, "echo kept >/root/kept; echo $$ >/dev/shm/kept").await;
    let memory = controller.bash(&id, "cat /dev/shm/kept").await;
    let refused = doctor(&controller, &["--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&controller.pid().to_string()), "{said}");

    controller.kill();
    let data = fs::canonicalize(controller.data_dir()).expect("a folder");
    let mark = data.to_string_lossy().into_owned();
    let clean = run_doctor(&controller, &[]);
    assert!(
        own_findings(&clean.1, &[&mark, &id]).is_empty(),
        "a running computer must not be listed: {}",
        clean.1
    );
    assert_eq!(clean.1["computers"], json!([]));

    let (running, partial) = create_orphans(&controller).await;
    let remains = Leftovers::new(&controller);
    let lost = ComputerId::random();
    let groups = create_groups(lost);
    let (claim, slot) = claim_slot(&controller, lost);
    // A mounted disk on a loop device of the host, whose machine is gone.
    let gone = data.join("trash").join(format!("{}.0123", ComputerId::random()));
    fs::create_dir(&gone).expect("a folder");
    let disk = gone.join("disk.img");
    fs::File::create_new(&disk).and_then(|file| file.set_len(64 << 20)).expect("a disk");
    run_on_host("mkfs.ext4", &["-q", "-F", &disk.to_string_lossy()]);
    let device = run_on_host("losetup", &["--find", "--show", &disk.to_string_lossy()]);
    let point = tempfile::tempdir().expect("a folder");
    let point_text = point.path().to_string_lossy().into_owned();
    run_on_host("mount", &[&device, &point_text]);
    // A copy in a computer's folder that a kill interrupted.
    let snapshots = controller.machine(&id).join("snapshots");
    fs::create_dir_all(&snapshots).expect("a folder");
    fs::write(snapshots.join("0.new"), "half").expect("a file");
    // A layer whose removal a kill interrupted.
    let layer = data.join("layers").join(format!("{}.0123.gone", ComputerId::random()));
    fs::create_dir_all(layer.join("rootfs/deep")).expect("a folder");

    let marks = [&*mark, &point_text, &device, &lost.to_string(), &format!("{slot} for ")];
    let expected: Vec<(String, String)> = {
        let machine = |id: ComputerId| ("machine".to_owned(), data.join("machines").join(id.to_string()));
        let mut machines = [machine(running), machine(partial)];
        machines.sort();
        let [first, second] = machines.map(|(what, path)| (what, path.display().to_string()));
        let claimed = fs::read_link(&claim).expect("a claim").to_string_lossy().into_owned();
        let claimed = claimed.split_once(' ').expect("two words").1.to_owned();
        vec![
            ("mount".to_owned(), point_text.clone()),
            ("loop device".to_owned(), device.clone()),
            first,
            second,
            ("trash".to_owned(), gone.display().to_string()),
            ("unfinished layer".to_owned(), layer.display().to_string()),
            (
                "unfinished file".to_owned(),
                data.join("machines").join(&id).join("snapshots/0.new").display().to_string(),
            ),
            ("control group".to_owned(), format!("/hotdesk/{lost}")),
            ("slot".to_owned(), format!("{slot} for {claimed}")),
        ]
    };
    for round in 0..2 {
        let (code, run_doctor) = run_doctor(&controller, &[]);
        assert_eq!(
            (code, own_findings(&run_doctor, &marks)),
            (1, expected.clone()),
            "a dry run, round {round}"
        );
        let all = run_doctor["leftovers"].as_array().expect("a list");
        let explained = |it: &Value| it["why"].is_string() && it["remedy"].is_string() && it["done"] == false;
        assert!(all.iter().all(explained), "{run_doctor}");
    }
    let shown = String::from_utf8_lossy(&doctor(&controller, &[]).stdout).into_owned();
    assert!(shown.contains("nothing was changed") && shown.contains("no computer has this id"), "{shown}");
    assert!(!host::processes(&running.to_string()).is_empty() && claim.is_symlink(), "nothing was changed");

    let (_, done) = run_doctor(&controller, &["--yes"]);
    let own = |it: &&Value| marks.iter().any(|mark| it["place"].as_str().expect("a place").contains(mark));
    let all: Vec<&Value> = done["leftovers"].as_array().expect("a list").iter().filter(own).collect();
    assert!(all.len() == expected.len() && all.iter().all(|it| it["done"] == true), "{all:?}");
    // Another test may have the loop device by now.
    let marks = [&*mark, &point_text, &lost.to_string(), &format!("{slot} for ")];
    let (_, again) = run_doctor(&controller, &[]);
    assert!(own_findings(&again, &marks).is_empty(), "{again}");
    // Containers and systems of other tests have copies of the mount for as long as their mount namespaces exist.
    let attached = || run_on_host("losetup", &["--list", "--noheadings", "--output", "BACK-FILE"]);
    let detached = wait::until(DETACHED_TIMEOUT, || async {
        (!attached().contains(&*disk.to_string_lossy())).then_some(())
    });
    assert!(detached.await.is_some(), "{}", attached());
    assert!(groups.iter().all(|group| !group.exists()) && !claim.is_symlink());
    assert!(!gone.exists() && !layer.exists());
    for left in [running, partial, lost] {
        assert_eq!(host::find_leftover(&left.to_string()), None);
    }
    // The computer is unaffected.
    controller.start_again().await;
    assert_eq!(controller.bash(&id, "cat /root/kept /dev/shm/kept").await, format!("kept\n{memory}"));
    remains.check(&[(id, "running".to_owned())], Duration::from_secs(45)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_ends_a_computer_that_stands_still() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    controller.kill();
    let data = fs::canonicalize(controller.data_dir()).expect("a folder");
    let place = data.join("machines").join(&id).display().to_string();
    let expected = [("stopped machine".to_owned(), place)];
    // A process stops some time after the signal, and may have started another one before.
    let found = wait::until(DETACHED_TIMEOUT, || async {
        host::stop_processes(&id);
        let (code, found) = run_doctor(&controller, &[]);
        let own = own_findings(&found, &[&id]);
        (!own.is_empty()).then_some((code, own))
    });
    assert_eq!(found.await, Some((1, expected.to_vec())));
    assert!(!host::processes(&id).is_empty(), "nothing was changed");
    let (_, done) = run_doctor(&controller, &["--yes"]);
    assert_eq!(own_findings(&done, &[&id]), expected);
    assert_eq!(host::find_leftover(&id), None);
    assert_eq!(own_findings(&run_doctor(&controller, &[]).1, &[&id]), []);
    controller.start_again().await;
    controller.until_status(&id, "stopped").await;
    let started = controller.post(&format!("/computers/{id}/ensure-running"), json!({})).await;
    assert_eq!(started.body["status"], "running", "{}", started.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_knows_virtual_machines_too() {
    let Some(mut controller) = qemu_desktop::boot_controller("").await else { return };
    controller.kill();
    let data = fs::canonicalize(controller.data_dir()).expect("a folder");
    let engine = open_engine(qemu::settings(data.clone()));
    let (running, stopped) = (ComputerId::random(), ComputerId::random());
    for id in [running, stopped] {
        engine.create(&spec(id)).await.expect("created");
    }
    let boot = Boot { generation: 1, token: Secret::random(43), resolution: Default::default() };
    engine.start(&spec(running), &boot).await.expect("started");
    // An incomplete disk with the agent.
    fs::write(data.join("agent/new"), "half").expect("a file");
    let mark = data.to_string_lossy().into_owned();
    let mut expected = [running, stopped]
        .map(|id| ("machine".to_owned(), data.join("machines").join(id.to_string()).display().to_string()));
    expected.sort();
    let expected = [&expected[..], &[("unfinished file".to_owned(), format!("{mark}/agent/new"))]].concat();
    let (code, findings) = run_doctor(&controller, &[]);
    assert_eq!((code, own_findings(&findings, &[&mark])), (1, expected));
    assert!(!host::processes(&running.to_string()).is_empty(), "nothing was changed");
    let (_, done) = run_doctor(&controller, &["--yes"]);
    let all = done["leftovers"].as_array().expect("a list").iter();
    let mut own = all.filter(|it| it["place"].as_str().expect("a place").contains(&mark));
    assert!(own.all(|it| it["done"] == true), "{done}");
    assert_eq!(own_findings(&run_doctor(&controller, &[]).1, &[&mark]), []);
    for left in [running, stopped] {
        assert_eq!(host::find_leftover(&left.to_string()), None);
        assert!(!controller.machine(&left.to_string()).exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_without_a_store_touches_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("machines")).expect("a folder");
    for options in [&["--repair"][..], &["--repair", "--yes"]] {
        let output = Command::new(program())
            .arg("doctor")
            .args(options)
            .arg("--data-dir")
            .arg(folder.path())
            .env_clear()
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("hotdesk purge"), "{said}");
        assert_eq!(host::names_in(folder.path()), ["machines"]);
    }
}
