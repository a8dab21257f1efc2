//! Disk copies: consistency at one moment, independence, and clean-up after failures.
//!
//! Conformance tests first, then tests of the container engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::engine::{EngineError, NetworkConfig, Observation};

use super::conformance::{END_TIMEOUT, EngineFixture, GRACE, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::{ContainerFixture, container_settings, open_engine};
use crate::harness::host::{loop_devices, names_in};
use crate::harness::small_disk::SmallDisk;

/// Longest time for a guest to write a line to an unfrozen disk. It is shorter than the 30 s after which a
/// freeze ends by itself.
const WRITE_TIMEOUT: Duration = Duration::from_secs(25);

pub async fn a_copy_goes_its_own_way(fixture: &dyn EngineFixture) {
    let (engine, source, copy) = (fixture.engine(), fixture.spec(), fixture.spec());
    engine.create(&source).await.expect("created");
    let first = Guest::new(&engine.start(&source, &boot(1)).await.expect("started"));
    first.wait_until_ready().await;
    first.store("shared", "before the copy").await;
    if !engine.offers().default().capabilities.copy_while_running {
        engine.stop(source.id, GRACE).await.expect("stopped");
    }
    for _ in 0..2 {
        engine.copy_disk(source.id, &copy).await.expect("copied");
    }
    assert_eq!(engine.observe(copy.id).await.expect("an observation"), Observation::Stopped);
    engine.start(&source, &boot(1)).await.expect("still runs, or starts again");
    first.wait_until_ready().await;
    first.store("first", "after the copy").await;

    let second = Guest::new(&engine.start(&copy, &boot(1)).await.expect("started"));
    second.wait_until_ready().await;
    assert_eq!(second.load("shared").await.as_deref(), Some("before the copy"));
    assert_eq!(second.load("first").await, None);
    second.store("second", "of the copy").await;
    second.store("shared", "changed in the copy").await;
    assert_eq!(first.load("second").await, None);
    assert_eq!(first.load("shared").await.as_deref(), Some("before the copy"));

    engine.destroy(source.id).await.expect("destroyed");
    assert_eq!(second.load("second").await.as_deref(), Some("of the copy"));
    engine.destroy(copy.id).await.expect("destroyed");
    for id in [source.id, copy.id] {
        fixture.expect_removed(id);
    }
}

pub async fn what_is_not_there_is_not_copied(fixture: &dyn EngineFixture) {
    let (engine, source, copy) = (fixture.engine(), fixture.spec(), fixture.spec());
    let refused = engine.copy_disk(source.id, &copy).await.expect_err("a missing source cannot be copied");
    assert!(matches!(refused, EngineError::Absent), "{refused:#}");
    engine.destroy(copy.id).await.expect("destroyed");
    fixture.expect_removed(copy.id);
}

/// Asserts that a disk has a consistent file system that needs no journal replay.
pub fn check_clean(disk: &Path) {
    let output = Command::new("e2fsck").args(["-f", "-n"]).arg(disk).output().expect("e2fsck");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let field = Command::new("dumpe2fs").arg("-h").arg(disk).output().expect("dumpe2fs");
    let field = String::from_utf8_lossy(&field.stdout).into_owned();
    assert!(field.contains("has_journal") && !field.contains("needs_recovery"), "{field}");
}

/// Asserts that a guest's writes reach its disk.
async fn check_writes(guest: &Guest) {
    let written = tokio::time::timeout(WRITE_TIMEOUT, guest.run("echo line >> /root/log && sync /root/log"));
    written.await.expect("the disk must not be frozen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_busy_disk_is_whole_and_the_source_goes_on() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let mut spec = machine_spec();
    spec.disk_bytes = 1 << 30;
    let (spec, id, guest) = fixture.start_machine(spec).await;
    let sum = guest.run("head -c 100000000 /dev/urandom > /root/data; sha256sum < /root/data").await;
    let busy = "setsid sh -c 'while :; do echo more >> /root/busy; cp /root/busy /root/busier; done' >/dev/null 2>&1 &";
    guest.run(busy).await;
    let mut copy = machine_spec();
    copy.disk_bytes = 2 << 30;
    let started = Instant::now();
    fixture.engine.copy_disk(id, &copy).await.expect("copied");
    eprintln!("copy of a disk with 100 MB in use: {} ms", started.elapsed().as_millis());
    check_clean(&fixture.folder(copy.id).join("disk.img"));
    check_writes(&guest).await;
    expect_running(&*fixture.engine, id, 1).await;

    let second = Guest::new(&fixture.engine.start(&copy, &boot(1)).await.expect("started"));
    second.wait_until_ready().await;
    assert_eq!(second.run("sha256sum < /root/data").await, sum);
    let size = |text: String| text.parse::<u64>().expect("KiB");
    let df = "df --output=size / | tail -1 | tr -d ' '";
    assert!(size(second.run(df).await) > 3 * size(guest.run(df).await) / 2, "the copy's disk must be larger");
    copy.disk_bytes = spec.disk_bytes / 2;
    copy.id = ComputerId::random();
    fixture.engine.copy_disk(id, &copy).await.expect_err("a disk never shrinks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_nobody_waits_for_leaves_nothing_once_destroyed() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.run("head -c 50000000 /dev/urandom > /root/data").await;
    for timeout_ms in [0, 1, 5, 20, 50] {
        let copy = machine_spec();
        let cut =
            tokio::time::timeout(Duration::from_millis(timeout_ms), fixture.engine.copy_disk(id, &copy));
        if cut.await.is_ok() {
            eprintln!("copied within {timeout_ms} ms");
        }
        fixture.engine.destroy(copy.id).await.expect("destroyed");
        fixture.expect_removed(copy.id);
        check_writes(&guest).await;
    }
    // The incomplete copy of a killed controller is replaced by a complete one.
    let copy = machine_spec();
    fs::create_dir_all(fixture.folder(copy.id)).expect("a folder");
    fs::write(fixture.folder(copy.id).join("disk.new"), "half").expect("a leftover");
    fixture.engine.copy_disk(id, &copy).await.expect("copied");
    assert!(!fixture.folder(copy.id).join("disk.new").exists());
    check_clean(&fixture.folder(copy.id).join("disk.img"));
    fixture.engine.destroy(copy.id).await.expect("destroyed");
    fixture.expect_removed(copy.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_room_refuses_a_copy_and_nothing_stays() {
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    let _small = SmallDisk::mount(own.path(), &state, 800);
    let Some(fixture) = ContainerFixture::in_folder(state, own, NetworkConfig::disabled()) else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.run("head -c 150000000 /dev/urandom > /root/data; sync").await;
    let copy = machine_spec();
    let refused = fixture.engine.copy_disk(id, &copy).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    for name in ["disk.new", "disk.img"] {
        assert!(!fixture.folder(copy.id).join(name).exists(), "{name}");
    }
    let snapshot = uuid::Uuid::new_v4();
    let refused = fixture.engine.snapshot(id, snapshot, false).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    assert_eq!(fs::read_dir(fixture.folder(id).join("snapshots")).expect("the folder").count(), 0);
    check_writes(&guest).await;
    fixture.engine.destroy(copy.id).await.expect("destroyed");
    fixture.engine.destroy(id).await.expect("destroyed");
}

/// Freezes a machine's disk, like a kill of the controller together with the guard of its freeze would leave
/// it.
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
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    freeze(id);
    guest.run("setsid sh -c 'echo stuck > /root/stuck' >/dev/null 2>&1 &").await;
    let reopen = fixture.reopen();
    check_writes(&guest).await;
    expect_running(&*reopen, id, 1).await;
    // Its writer may come later than that of the check.
    let stuck = guest.run("until [ -s /root/stuck ]; do sleep 0.05; done; cat /root/stuck");
    let stuck = tokio::time::timeout(WRITE_TIMEOUT, stuck).await.expect("the disk must not be frozen");
    assert_eq!(stuck, "stuck");

    freeze(id);
    guest.run("setsid sh -c 'echo stuck > /root/stuck' >/dev/null 2>&1 &").await;
    let started = Instant::now();
    fixture.engine.stop(id, END_TIMEOUT).await.expect("stopped");
    assert!(started.elapsed() < END_TIMEOUT, "{:?}", started.elapsed());
    assert_eq!(loop_devices(&id.to_string()), Vec::<String>::new());
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    check_writes(&guest).await;
}

const STATE: &str = "HOTDESK_COPIER_STATE";
const IMAGE: &str = "HOTDESK_COPIER_IMAGE";
const SOURCE: &str = "HOTDESK_COPIER_SOURCE";
const COPY: &str = "HOTDESK_COPIER_COPY";

/// Runs as a separate process: the controller that the next test kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of another test"]
async fn copier() {
    let (Some(state), Some(image)) = (std::env::var_os(STATE), std::env::var_os(IMAGE)) else { return };
    let config = container_settings(PathBuf::from(state), PathBuf::from(image), "/bin/true");
    let engine = open_engine(config);
    let id = |name: &str| std::env::var(name).expect("an id").parse::<ComputerId>().expect("an id");
    let mut copy = machine_spec();
    copy.id = id(COPY);
    loop {
        engine.copy_disk(id(SOURCE), &copy).await.expect("copied");
        engine.destroy(copy.id).await.expect("destroyed");
    }
}

/// Whether a controller has a child that will unfreeze the file system.
fn has_thaw_guard(controller: u32) -> bool {
    let parent = format!(") S {controller} ");
    names_in(Path::new("/proc")).iter().any(|pid| {
        let field = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
        field("stat").contains(&parent) && field("cmdline").contains("fsfreeze --unfreeze")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_while_it_copies_leaves_a_guest_that_writes() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.run("head -c 60000000 /dev/urandom > /root/data; sync").await;
    for round in 0..16_u64 {
        let copy = ComputerId::random();
        let mut victim = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "engines::copies::copier"])
            .env(STATE, &fixture.config.host.state_dir)
            .env(IMAGE, &fixture.config.host.image)
            .env(SOURCE, id.to_string())
            .env(COPY, copy.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("a controller");
        // Kill at various moments from the freeze to the end of the copy.
        let started = Instant::now();
        while !has_thaw_guard(victim.id()) {
            assert!(started.elapsed() < END_TIMEOUT, "the disk must be frozen");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 9));
        assert!(victim.try_wait().expect("a status").is_none(), "the controller must not end by itself");
        victim.kill().expect("killed");
        victim.wait().expect("reaped");
        check_writes(&guest).await;
        fixture.engine.destroy(copy).await.expect("destroyed");
        fixture.expect_removed(copy);
    }
}
