//! Is a copied disk the source's of one moment, and does nothing of a copy outlive its failure? What every engine promises
//! first, then what containers do on a host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::engine::container::{ContainerConfig, ContainerEngine, NetworkConfig};
use hotdesk::engine::{Engine, EngineError, Observation};

use super::conformance::{Bench, GRACE, SOON, a_machine, boot, runs};
use super::guest::Guest;
use super::host::Containers;
use crate::harness::host::{loop_devices, names_in};
use crate::harness::small_disk::SmallDisk;

/// By when a guest whose disk is not frozen has written a line: before a freeze ends by itself, which is after 30 s.
const WRITTEN: Duration = Duration::from_secs(25);

pub async fn a_copy_goes_its_own_way(bench: &dyn Bench) {
    let (engine, source, copy) = (bench.engine(), a_machine(), a_machine());
    engine.create(&source).await.expect("created");
    let first = Guest::at(&engine.start(&source, &boot(1)).await.expect("started"));
    first.answers().await;
    first.keep("shared", "before the copy").await;
    if !engine.capabilities().copy_while_running {
        engine.stop(source.id, GRACE).await.expect("stopped");
    }
    for _ in 0..2 {
        engine.copy_disk(source.id, &copy).await.expect("copied");
    }
    assert_eq!(engine.observe(copy.id).await.expect("seen"), Observation::Stopped);
    engine.start(&source, &boot(1)).await.expect("runs on, or runs again");
    first.answers().await;
    first.keep("first", "after the copy").await;

    let second = Guest::at(&engine.start(&copy, &boot(1)).await.expect("started"));
    second.answers().await;
    assert_eq!(second.kept("shared").await.as_deref(), Some("before the copy"));
    assert_eq!(second.kept("first").await, None);
    second.keep("second", "of the copy").await;
    second.keep("shared", "changed in the copy").await;
    assert_eq!(first.kept("second").await, None);
    assert_eq!(first.kept("shared").await.as_deref(), Some("before the copy"));

    engine.destroy(source.id).await.expect("destroyed");
    assert_eq!(second.kept("second").await.as_deref(), Some("of the copy"));
    engine.destroy(copy.id).await.expect("destroyed");
    for id in [source.id, copy.id] {
        bench.nothing_is_left_of(id);
    }
}

pub async fn what_is_not_there_is_not_copied(bench: &dyn Bench) {
    let (engine, source, copy) = (bench.engine(), a_machine(), a_machine());
    let refused = engine.copy_disk(source.id, &copy).await.expect_err("nothing to copy");
    assert!(matches!(refused, EngineError::Absent), "{refused}");
    engine.destroy(copy.id).await.expect("destroyed");
    bench.nothing_is_left_of(copy.id);
}

/// Asserts that a machine's disk is a whole file system, without a journal to be replayed.
pub fn is_clean(disk: &Path) {
    let output = Command::new("e2fsck").args(["-f", "-n"]).arg(disk).output().expect("e2fsck");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let told = Command::new("dumpe2fs").arg("-h").arg(disk).output().expect("dumpe2fs");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("has_journal") && !told.contains("needs_recovery"), "{told}");
}

/// Asserts that a guest's writes reach its disk.
async fn writes(guest: &Guest) {
    let written = tokio::time::timeout(WRITTEN, guest.says("echo line >> /root/log && sync /root/log"));
    written.await.expect("the disk is frozen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_busy_disk_is_whole_and_the_source_goes_on() {
    let Some(bench) = Containers::lonely() else { return };
    let mut spec = a_machine();
    spec.disk_bytes = 1 << 30;
    let (spec, id, guest) = bench.running(spec).await;
    let sum = guest.says("head -c 100000000 /dev/urandom > /root/data; sha256sum < /root/data").await;
    let busy = "setsid sh -c 'while :; do echo more >> /root/busy; cp /root/busy /root/busier; done' >/dev/null 2>&1 &";
    guest.says(busy).await;
    let mut copy = a_machine();
    copy.disk_bytes = 2 << 30;
    let begun = Instant::now();
    bench.engine.copy_disk(id, &copy).await.expect("copied");
    eprintln!("copy of a disk with 100 MB in use: {} ms", begun.elapsed().as_millis());
    is_clean(&bench.folder(copy.id).join("disk.img"));
    writes(&guest).await;
    runs(&bench.engine, id, 1).await;

    let second = Guest::at(&bench.engine.start(&copy, &boot(1)).await.expect("started"));
    second.answers().await;
    assert_eq!(second.says("sha256sum < /root/data").await, sum);
    let size = |text: String| text.parse::<u64>().expect("KiB");
    let df = "df --output=size / | tail -1 | tr -d ' '";
    assert!(size(second.says(df).await) > 3 * size(guest.says(df).await) / 2, "the copy's disk is larger");
    copy.disk_bytes = spec.disk_bytes / 2;
    copy.id = ComputerId::random();
    bench.engine.copy_disk(id, &copy).await.expect_err("a disk never shrinks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_nobody_waits_for_leaves_nothing_once_destroyed() {
    let Some(bench) = Containers::lonely() else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    guest.says("head -c 50000000 /dev/urandom > /root/data").await;
    for patience in [0, 1, 5, 20, 50] {
        let copy = a_machine();
        let cut = tokio::time::timeout(Duration::from_millis(patience), bench.engine.copy_disk(id, &copy));
        if cut.await.is_ok() {
            eprintln!("copied within {patience} ms");
        }
        bench.engine.destroy(copy.id).await.expect("destroyed");
        bench.nothing_is_left_of(copy.id);
        writes(&guest).await;
    }
    // What a killed controller left of a copy is replaced by a whole one.
    let copy = a_machine();
    fs::create_dir_all(bench.folder(copy.id)).expect("a folder");
    fs::write(bench.folder(copy.id).join("disk.new"), "half").expect("a leftover");
    bench.engine.copy_disk(id, &copy).await.expect("copied");
    assert!(!bench.folder(copy.id).join("disk.new").exists());
    is_clean(&bench.folder(copy.id).join("disk.img"));
    bench.engine.destroy(copy.id).await.expect("destroyed");
    bench.nothing_is_left_of(copy.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_room_refuses_a_copy_and_nothing_stays() {
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    let _small = SmallDisk::mount(own.path(), &state, 800);
    let Some(bench) = Containers::at(state, own, NetworkConfig::disabled()) else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    guest.says("head -c 150000000 /dev/urandom > /root/data; sync").await;
    let copy = a_machine();
    let refused = bench.engine.copy_disk(id, &copy).await.expect_err("no room");
    assert!(matches!(refused, EngineError::NoCapacity(_)), "{refused}");
    for name in ["disk.new", "disk.img"] {
        assert!(!bench.folder(copy.id).join(name).exists(), "{name}");
    }
    let snapshot = uuid::Uuid::new_v4();
    let refused = bench.engine.snapshot(id, snapshot, false).await.expect_err("no room");
    assert!(matches!(refused, EngineError::NoCapacity(_)), "{refused}");
    assert_eq!(fs::read_dir(bench.folder(id).join("snapshots")).expect("the folder").count(), 0);
    writes(&guest).await;
    bench.engine.destroy(copy.id).await.expect("destroyed");
    bench.engine.destroy(id).await.expect("destroyed");
}

/// Freezes a machine's disk as a kill of the controller together with the guard of its freeze leaves it.
fn freeze(id: ComputerId) {
    let listed = Command::new("losetup").args(["-n", "-O", "NAME,BACK-FILE"]).output().expect("losetup");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let line = listed.lines().find(|line| line.contains(&id.to_string())).expect("the machine's device");
    let device = line.split_whitespace().next().expect("a name");
    let script = "mount \"$1\" /mnt && fsfreeze --freeze /mnt";
    let frozen = Command::new("unshare").args(["--mount", "sh", "-c", script, "sh", device]).status();
    assert!(frozen.expect("unshare").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_left_frozen_thaws_when_a_controller_starts_or_stops_it() {
    let Some(bench) = Containers::lonely() else { return };
    let (spec, id, guest) = bench.running(a_machine()).await;
    freeze(id);
    guest.says("setsid sh -c 'echo stuck > /root/stuck' >/dev/null 2>&1 &").await;
    let reopened = bench.reopened();
    writes(&guest).await;
    runs(&*reopened, id, 1).await;
    assert_eq!(guest.says("cat /root/stuck").await, "stuck");

    freeze(id);
    guest.says("setsid sh -c 'echo stuck > /root/stuck' >/dev/null 2>&1 &").await;
    let begun = Instant::now();
    bench.engine.stop(id, SOON).await.expect("stopped");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(loop_devices(&id.to_string()), Vec::<String>::new());
    let guest = Guest::at(&bench.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.answers().await;
    writes(&guest).await;
}

const STATE: &str = "HOTDESK_COPIER_STATE";
const IMAGE: &str = "HOTDESK_COPIER_IMAGE";
const SOURCE: &str = "HOTDESK_COPIER_SOURCE";
const COPY: &str = "HOTDESK_COPIER_COPY";

/// Not a test of its own: the controller that the next test kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of another test"]
async fn copier() {
    let (Some(state), Some(image)) = (std::env::var_os(STATE), std::env::var_os(IMAGE)) else { return };
    let config = ContainerConfig::new(PathBuf::from(state), PathBuf::from(image), "/bin/true");
    let engine = ContainerEngine::open(config).expect("an engine");
    let id = |name: &str| std::env::var(name).expect("an id").parse::<ComputerId>().expect("an id");
    let mut copy = a_machine();
    copy.id = id(COPY);
    loop {
        engine.copy_disk(id(SOURCE), &copy).await.expect("copied");
        engine.destroy(copy.id).await.expect("destroyed");
    }
}

/// Whether a controller has the child that thaws for it.
fn guards_a_freeze(controller: u32) -> bool {
    let parent = format!(") S {controller} ");
    names_in(Path::new("/proc")).iter().any(|pid| {
        let told = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
        told("stat").contains(&parent) && told("cmdline").contains("fsfreeze --unfreeze")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_while_it_copies_leaves_a_guest_that_writes() {
    let Some(bench) = Containers::lonely() else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    guest.says("head -c 60000000 /dev/urandom > /root/data; sync").await;
    for round in 0..16_u64 {
        let copy = ComputerId::random();
        let mut victim = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "engines::copies::copier"])
            .env(STATE, &bench.config.state_dir)
            .env(IMAGE, &bench.config.image)
            .env(SOURCE, id.to_string())
            .env(COPY, copy.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("a controller");
        // From the moment at which it freezes the disk through the end of its copy.
        let begun = Instant::now();
        while !guards_a_freeze(victim.id()) {
            assert!(begun.elapsed() < SOON, "the disk is never frozen");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 9));
        assert!(victim.try_wait().expect("asked").is_none(), "the controller ended by itself");
        victim.kill().expect("killed");
        victim.wait().expect("reaped");
        writes(&guest).await;
        bench.engine.destroy(copy).await.expect("destroyed");
        bench.nothing_is_left_of(copy);
    }
}
