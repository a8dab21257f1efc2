//! Does `hotdesk doctor --repair` find everything that nobody owns, explain it, take it away only when told, and leave alone
//! what a computer owns?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::secret::Secret;
use hotdesk::engine::container::{ContainerConfig, ContainerEngine};
use hotdesk::engine::qemu::QemuEngine;
use hotdesk::engine::{Boot, Engine, MachineSpec};
use serde_json::{Value, json};

use super::remains::Remains;
use crate::engines::{qemu, qemu_desktop};
use crate::harness::controller::{RunningController, image};
use crate::harness::host;

/// Groups of the OCI runtime that the host's folder of groups shows, whichever version.
const GROUPS: &str = "/sys/fs/cgroup";

fn doctor(house: &RunningController, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(["doctor", "--repair"]).args(options).arg("--data-dir").arg(house.data_dir());
    for own in ["HOTDESK_PYTHON", "HOTDESK_PROOF", "HOTDESK_SEED", "HOTDESK_ROUNDS"] {
        command.env_remove(own);
    }
    command.output().expect("it runs")
}

/// What it tells as JSON, with its exit code.
fn told(house: &RunningController, options: &[&str]) -> (i32, Value) {
    let output = doctor(house, &[options, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().expect("a code"), told)
}

/// The leftovers of this test: kind and place, without those of other tests that run on this host.
fn ours(told: &Value, marks: &[&str]) -> Vec<(String, String)> {
    let all = told["leftovers"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let all = all.map(|it| (text(&it["what"]), text(&it["place"])));
    all.filter(|(_, place)| marks.iter().any(|mark| place.contains(mark))).collect()
}

fn host_does(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("a tool");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A machine that no row knows and that runs, and another one whose create was cut short.
async fn orphans(house: &RunningController) -> (ComputerId, ComputerId) {
    let mut config = ContainerConfig::new(house.data_dir(), image(), env!("CARGO_BIN_EXE_hotdesk"));
    config.init_args = Some(["/bin/sleep", "1000"].map(str::to_owned).to_vec());
    let engine = ContainerEngine::open(config).expect("an engine");
    let spec =
        |id| MachineSpec { id, cpu: 1.0, memory_bytes: 1 << 29, disk_bytes: 1 << 28, bandwidth_mbps: 0 };
    let (runs, half) = (ComputerId::random(), ComputerId::random());
    engine.create(&spec(runs)).await.expect("created");
    let boot = Boot { generation: 1, token: Secret::random(43), resolution: Default::default() };
    engine.start(&spec(runs), &boot).await.expect("started");
    engine.create(&spec(half)).await.expect("created");
    fs::rename(
        house.machine(&half.to_string()).join("disk.img"),
        house.machine(&half.to_string()).join("disk.new"),
    )
    .expect("a disk that is not whole");
    (runs, half)
}

/// A slot that nobody has, claimed for a machine of this house of which there is only a control group, and known to the
/// packet rules.
fn slot(house: &RunningController, id: ComputerId) -> (PathBuf, u16) {
    let data = fs::canonicalize(house.data_dir()).expect("a folder");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let text = format!("{} {}", boot.trim(), data.join("machines").join(id.to_string()).display());
    // The last ones are the last to be claimed by others.
    let claim = (16000..16384_u16).rev().find_map(|slot| {
        let claim = Path::new("/run/hotdesk-engine/slots").join(format!("{slot:05}"));
        std::os::unix::fs::symlink(&text, &claim).is_ok().then_some((claim, slot))
    });
    let (claim, slot) = claim.expect("a free slot");
    let first = 4 * u32::from(slot);
    let address = format!("10.213.{}.{}", first >> 8, (first & 255) + 2);
    host_does("nft", &["add", "element", "inet", "hotdesk", "guests", &format!("{{ {address} }}")]);
    (claim, slot)
}

/// Something in every hierarchy, as a start that was cut short leaves it.
fn group(id: ComputerId) -> Vec<PathBuf> {
    let roots = host::control_group_roots();
    let groups: Vec<PathBuf> = roots.iter().map(|root| root.join("hotdesk").join(id.to_string())).collect();
    groups.iter().for_each(|group| fs::create_dir_all(group).expect("a group"));
    assert!(!groups.is_empty(), "control groups under {GROUPS}");
    groups
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_takes_away_what_nobody_owns_and_nothing_else() {
    let Some((mut house, _, id)) = RunningController::with_a_computer().await else { return };
    house.bash(&id, "echo kept >/root/kept; echo $$ >/dev/shm/kept").await;
    let memory = house.bash(&id, "cat /dev/shm/kept").await;
    let refused = doctor(&house, &["--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&house.pid().to_string()), "{said}");

    house.kill();
    let data = fs::canonicalize(house.data_dir()).expect("a folder");
    let mark = data.to_string_lossy().into_owned();
    let clean = told(&house, &[]);
    assert!(ours(&clean.1, &[&mark, &id]).is_empty(), "a running computer is not left over: {}", clean.1);
    assert_eq!(clean.1["computers"], json!([]));

    let (runs, half) = orphans(&house).await;
    let remains = Remains::of(&house);
    let lost = ComputerId::random();
    let groups = group(lost);
    let (claim, slot) = slot(&house, lost);
    // A disk on a loop device of the host's, mounted; its machine is gone.
    let gone = data.join("trash").join(format!("{}.0123", ComputerId::random()));
    fs::create_dir(&gone).expect("a folder");
    let disk = gone.join("disk.img");
    fs::File::create_new(&disk).and_then(|file| file.set_len(64 << 20)).expect("a disk");
    host_does("mkfs.ext4", &["-q", "-F", &disk.to_string_lossy()]);
    let device = host_does("losetup", &["--find", "--show", &disk.to_string_lossy()]);
    let point = tempfile::tempdir().expect("a folder");
    let point_text = point.path().to_string_lossy().into_owned();
    host_does("mount", &[&device, &point_text]);
    // A copy that a kill cut short, in the folder of a computer.
    let snapshots = house.machine(&id).join("snapshots");
    fs::create_dir_all(&snapshots).expect("a folder");
    fs::write(snapshots.join("0.new"), "half").expect("a file");

    let marks = [&*mark, &point_text, &device, &lost.to_string(), &format!("{slot} for ")];
    let expected: Vec<(String, String)> = {
        let machine = |id: ComputerId| ("machine".to_owned(), data.join("machines").join(id.to_string()));
        let mut machines = [machine(runs), machine(half)];
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
            (
                "unfinished file".to_owned(),
                data.join("machines").join(&id).join("snapshots/0.new").display().to_string(),
            ),
            ("control group".to_owned(), format!("/hotdesk/{lost}")),
            ("slot".to_owned(), format!("{slot} for {claimed}")),
        ]
    };
    for round in 0..2 {
        let (code, told) = told(&house, &[]);
        assert_eq!((code, ours(&told, &marks)), (1, expected.clone()), "a dry run, round {round}");
        let all = told["leftovers"].as_array().expect("a list");
        let explained = |it: &Value| it["why"].is_string() && it["remedy"].is_string() && it["done"] == false;
        assert!(all.iter().all(explained), "{told}");
    }
    let shown = String::from_utf8_lossy(&doctor(&house, &[]).stdout).into_owned();
    assert!(shown.contains("nothing was changed") && shown.contains("no computer has this id"), "{shown}");
    assert!(!host::processes(&runs.to_string()).is_empty() && claim.is_symlink(), "nothing was changed");

    let (_, done) = told(&house, &["--yes"]);
    let own = |it: &&Value| marks.iter().any(|mark| it["place"].as_str().expect("a place").contains(mark));
    let all: Vec<&Value> = done["leftovers"].as_array().expect("a list").iter().filter(own).collect();
    assert!(all.len() == expected.len() && all.iter().all(|it| it["done"] == true), "{all:?}");
    let (_, again) = told(&house, &[]);
    assert!(ours(&again, &marks).is_empty(), "{again}");
    assert!(groups.iter().all(|group| !group.exists()) && !claim.is_symlink() && !gone.exists());
    for left in [runs, half, lost] {
        assert_eq!(host::left_of(&left.to_string()), None);
    }
    // The computer never noticed.
    house.start_again().await;
    assert_eq!(house.bash(&id, "cat /root/kept /dev/shm/kept").await, format!("kept\n{memory}"));
    remains.are(&[(id, "running".to_owned())], Duration::from_secs(45)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_knows_virtual_machines_too() {
    let Some(mut house) = qemu_desktop::house("").await else { return };
    house.kill();
    let data = fs::canonicalize(house.data_dir()).expect("a folder");
    let engine = QemuEngine::open(qemu::settings(data.clone())).expect("an engine");
    let spec =
        |id| MachineSpec { id, cpu: 1.0, memory_bytes: 1 << 29, disk_bytes: 1 << 28, bandwidth_mbps: 0 };
    let (runs, rests) = (ComputerId::random(), ComputerId::random());
    for id in [runs, rests] {
        engine.create(&spec(id)).await.expect("created");
    }
    let boot = Boot { generation: 1, token: Secret::random(43), resolution: Default::default() };
    engine.start(&spec(runs), &boot).await.expect("started");
    // An agent's disk that was being made.
    fs::write(data.join("agent/new"), "half").expect("a file");
    let mark = data.to_string_lossy().into_owned();
    let mut expected = [runs, rests]
        .map(|id| ("machine".to_owned(), data.join("machines").join(id.to_string()).display().to_string()));
    expected.sort();
    let expected = [&expected[..], &[("unfinished file".to_owned(), format!("{mark}/agent/new"))]].concat();
    let qemu = ["--engine", "qemu"];
    let (code, looked) = told(&house, &qemu);
    assert_eq!((code, ours(&looked, &[&mark])), (1, expected));
    assert!(!host::processes(&runs.to_string()).is_empty(), "nothing was changed");
    let (_, done) = told(&house, &[&qemu[..], &["--yes"]].concat());
    let all = done["leftovers"].as_array().expect("a list").iter();
    let mut own = all.filter(|it| it["place"].as_str().expect("a place").contains(&mark));
    assert!(own.all(|it| it["done"] == true), "{done}");
    assert_eq!(ours(&told(&house, &qemu).1, &[&mark]), []);
    for left in [runs, rests] {
        assert_eq!(host::left_of(&left.to_string()), None);
        assert!(!house.machine(&left.to_string()).exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_without_a_store_touches_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("machines")).expect("a folder");
    for options in [&["--repair"][..], &["--repair", "--yes"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_hotdesk"))
            .arg("doctor")
            .args(options)
            .arg("--data-dir")
            .arg(folder.path())
            .env_clear()
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("hotdesk purge"), "{said}");
        assert_eq!(host::names_in(folder.path()), ["machines"]);
    }
}
