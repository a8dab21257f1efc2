//! Interrupted, late and refused steps of the QEMU engine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::base::wait;
use hotdesk::engine::{Change, DiskSpeed, Effect, EngineError, MachineSpec, Observation};
use nix::libc;
use uuid::Uuid;

use super::conformance::{EngineFixture, GRACE, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::open_engine;
use super::limits::cgroup_value;
use super::qemu::{QemuFixture, settings_with_program};
use crate::harness::host::{names_in, processes};
use crate::harness::program::program;
use crate::harness::small_disk::SmallDisk;

/// Host memory of a machine beyond the guest's memory (`engine/qemu/hardware.rs`).
const OWN_MEMORY: u64 = 512 << 20;

/// The memory limit of a machine's control group in bytes.
fn memory_limit(id: ComputerId) -> u64 {
    cgroup_value(&id.to_string(), ["memory.max", "memory.limit_in_bytes"]).parse().expect("bytes")
}

/// Writes a memory size to the machine's record, like a controller that is killed before the resize takes
/// effect.
fn write_recorded_memory(fixture: &QemuFixture, id: ComputerId, memory_bytes: u64) {
    let path = fixture.folder(id).join("machine.json");
    let mut record: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("a record")).expect("JSON");
    record["memory_bytes"] = memory_bytes.into();
    fs::write(&path, record.to_string()).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_no_quicker_than_it_may_be() {
    let write = "dd if=/dev/zero of=/root/data bs=1M count=12 oflag=direct conv=fsync";
    let read = "dd if=/root/data of=/dev/null bs=1M iflag=direct";
    let buffered = "dd if=/dev/zero of=/root/more bs=1M count=12 conv=fsync";
    let small = "dd if=/dev/zero of=/root/small bs=4k count=150 oflag=direct";
    let rounds = [(4, 0, vec![write, read, buffered]), (0, 50, vec![small])];
    for (mb_per_second, ops_per_second, bounded) in rounds {
        let speed = DiskSpeed { mb_per_second, ops_per_second };
        let Some(fixture) = QemuFixture::with_config(|config| config.host.disk_speed = speed) else { return };
        let (spec, id, mut guest) = fixture.start_machine(machine_spec()).await;
        for (number, script) in bounded.into_iter().enumerate() {
            let begun = Instant::now();
            guest.run(script).await;
            let took = begun.elapsed();
            println!("{mb_per_second} MB/s, {ops_per_second} ops/s: {took:?}: {script}");
            // Three seconds, minus the permitted burst.
            assert!(took > Duration::from_secs(2), "{took:?}: {script}");
            // The limit also applies after a suspend.
            if number > 0 {
                continue;
            }
            fixture.engine.suspend(id).await.expect("suspended");
            guest = Guest::new(&fixture.engine.resume(&spec, &boot(2)).await.expect("resumed"));
            guest.wait_until_ready().await;
        }
        // A disk with a speed limit can grow.
        assert_eq!(fixture.engine.resize(id, Change::Disk(512 << 20)).await.expect("grown"), Effect::Live);
        let size: u64 = guest.run("df --output=size / | tail -1").await.trim().parse().expect("KiB");
        assert!(size > 400 << 10, "{size} KiB");
    }
}

/// Unsynced writes are on the disk after a stop, although the disk needs longer than the guest's grace
/// period.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_what_the_guest_still_writes() {
    const SHORT_GRACE: Duration = Duration::from_secs(2);
    let speed = DiskSpeed { mb_per_second: 4, ops_per_second: 0 };
    let Some(fixture) = QemuFixture::with_config(|config| config.host.disk_speed = speed) else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    // Else the kernel of a slow machine writes most of it before the stop: dirty pages of a disk that was hardly written so far
    // are written at the next wake-up of the flusher, of which an interval of zero means "at once".
    let held_back = "cd /proc/sys/vm && echo 360000 >dirty_writeback_centisecs && echo 360000 >dirty_expire_centisecs && \
                     echo 90 >dirty_background_ratio && echo 95 >dirty_ratio && sync && \
                     grep -lx disk /sys/block/vd*/serial | sed 's,serial$,bdi/min_ratio,' | xargs sh -c 'echo 90 >$0'";
    guest.run(held_back).await;
    let sum = guest.run("head -c 30M /dev/urandom >/root/data; sha256sum </root/data").await;
    let unwritten: u64 =
        guest.run("awk '$1 == \"Dirty:\" { print $2 }' /proc/meminfo").await.trim().parse().expect("kB");
    assert!(unwritten > 28 << 10, "the guest wrote before the stop: {unwritten} kB are left");
    let begun = Instant::now();
    fixture.engine.stop(id, SHORT_GRACE).await.expect("stopped");
    let took = begun.elapsed();
    println!("the stop took {took:?}");
    assert!(took > 2 * SHORT_GRACE, "the stop must wait for the writes: {took:?}");
    let again = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    again.wait_until_ready().await;
    assert_eq!(again.run("sha256sum </root/data").await, sum);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_has_the_memory_that_its_guest_has_whatever_was_cut_short() {
    let Some(fixture) = QemuFixture::without_network() else { return };
    let (mut spec, id, guest) = fixture.start_machine(machine_spec()).await;
    let (small, large) = (512_u64 << 20, 768_u64 << 20);
    assert_eq!(memory_limit(id), small + OWN_MEMORY);
    // A controller was killed after it recorded the new size: a repeated resize raises the host's limit.
    write_recorded_memory(&fixture, id, large);
    assert_eq!(fixture.engine.resize(id, Change::Memory(large)).await.expect("grown"), Effect::Live);
    assert_eq!(memory_limit(id), large + OWN_MEMORY);
    let kilobytes = "sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo";
    let guest_kib: u64 = guest.run(kilobytes).await.parse().expect("kB");
    assert!(guest_kib > 600_000, "{guest_kib} kB");

    // The machine is suspended while it is to shrink: it resumes with its old size and shrinks then.
    fixture.engine.suspend(id).await.expect("suspended");
    spec.memory_bytes = small;
    let guest = Guest::new(&fixture.engine.resume(&spec, &boot(2)).await.expect("resumed"));
    guest.wait_until_ready().await;
    assert_eq!(memory_limit(id), large + OWN_MEMORY, "the guest's size");
    assert_eq!(fixture.engine.resize(id, Change::Memory(small)).await.expect("shrunk"), Effect::Live);
    assert_eq!(memory_limit(id), small + OWN_MEMORY);
    let guest_kib: u64 = guest.run(kilobytes).await.parse().expect("kB");
    assert!(guest_kib < 600_000, "{guest_kib} kB");
    // A machine that is to grow does not have the new size yet.
    fixture.engine.suspend(id).await.expect("suspended again");
    spec.memory_bytes = large;
    Guest::new(&fixture.engine.resume(&spec, &boot(3)).await.expect("resumed again"))
        .wait_until_ready()
        .await;
    assert_eq!(memory_limit(id), small + OWN_MEMORY, "the guest's size");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_does_not_converge_keeps_what_it_had() {
    let Some(fixture) = QemuFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    fixture.engine.resize(id, Change::Memory(768 << 20)).await.expect("grown");
    // A paused guest does not release memory.
    fixture.qmp(id, "stop");
    let refused = fixture.engine.resize(id, Change::Memory(512 << 20)).await.expect_err("no answer");
    assert!(format!("{refused:#}").contains("does not release the memory"), "{refused:#}");
    assert_eq!(memory_limit(id), (768 << 20) + OWN_MEMORY, "the limit must be unchanged");
    fixture.qmp(id, "cont");
    guest.wait_until_ready().await;
    assert_eq!(fixture.engine.resize(id, Change::Memory(512 << 20)).await.expect("shrunk"), Effect::Live);
    assert_eq!(memory_limit(id), (512 << 20) + OWN_MEMORY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_grows_though_an_earlier_growth_was_answered_too_late() {
    let Some(fixture) = QemuFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    fixture.qmp(id, "stop");
    let refused = fixture.engine.resize(id, Change::Disk(1 << 30)).await.expect_err("no answer");
    assert!(format!("{refused:#}").contains("no answer"), "{refused:#}");
    fixture.qmp(id, "cont");
    guest.wait_until_ready().await;
    let size = "df --output=size / | tail -1 | tr -d ' '";
    // The guest grows its file system late; the engine never shrinks the disk.
    let grown = wait::until(Duration::from_secs(120), || async {
        (guest.run(size).await.parse::<u64>().expect("KiB") > 900 << 10).then_some(())
    });
    assert!(grown.await.is_some(), "late");
    guest.store("note", "on the disk that grew").await;
    assert_eq!(
        fixture
            .engine
            .resize(id, Change::Disk(512 << 20))
            .await
            .expect("a request for a smaller disk has no effect"),
        Effect::Live
    );
    assert_eq!(fs::metadata(fixture.folder(id).join("disk.img")).expect("a disk").len(), 1 << 30);
    assert_eq!(guest.load("note").await.as_deref(), Some("on the disk that grew"));
}

/// Holds QEMU's lock against other writers of a disk until the file is closed.
fn lock_for_writing(disk: &Path) -> File {
    /// Lock byte of "nobody else writes" in QEMU's order of permissions (`block/file-posix.c`,
    /// `RAW_LOCK_SHARED_BASE`).
    const EXCLUSIVE_WRITE_BYTE: i64 = 200 + 1;
    let file = File::options().read(true).write(true).open(disk).expect("the disk");
    let lock = libc::flock {
        l_type: i16::try_from(libc::F_RDLCK).expect("small"),
        l_whence: 0,
        l_start: EXCLUSIVE_WRITE_BYTE,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).expect("locked");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_whose_guest_could_not_be_let_go_on_counts_again() {
    let Some(fixture) = QemuFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    assert_eq!(guest.count().await, 1);
    fixture.engine.suspend(id).await.expect("suspended");
    // QEMU opens a disk for writing only when the guest continues.
    let lock_file = lock_for_writing(&fixture.folder(id).join("disk.img"));
    let refused = fixture.engine.resume(&spec, &boot(2)).await.expect_err("the disk is locked");
    assert!(format!("{refused:#}").contains("could not cont"), "{refused:#}");
    assert_eq!(
        fixture.engine.observe(id).await.expect("an observation"),
        Observation::Suspended { generation: 1 }
    );
    assert!(processes(&id.to_string()).is_empty(), "no process of the machine may run");
    drop(lock_file);
    Guest::new(&fixture.engine.resume(&spec, &boot(2)).await.expect("resumed")).wait_until_ready().await;
    assert_eq!(expect_running(&*fixture.engine, id, 2).await.count().await, 2, "memory must be preserved");
}

/// Fills a file system until this many MiB are free.
fn fill(folder: &Path, free_mib: u64) {
    let stat = nix::sys::statvfs::statvfs(folder).expect("a size");
    let free = stat.blocks_available() * stat.fragment_size();
    let bytes = free.checked_sub(free_mib << 20).expect("less than is free");
    let filled =
        Command::new("fallocate").args(["-l", &bytes.to_string()]).arg(folder.join("filled")).status();
    assert!(filled.expect("util-linux").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_room_refuses_copies_and_nothing_is_given_up_for_them() {
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    // The reserve, the agent's disk twice while it is created, a guest's disk, its copy and its memory.
    let agent = fs::metadata(program()).expect("the program").len() >> 20;
    let _small = SmallDisk::mount(own.path(), &state, 512 + 2 * agent + 700);
    let Some(fixture) = QemuFixture::in_folder(state.clone(), own, |_| {}) else { return };
    let mut spec = machine_spec();
    spec.disk_bytes = 512 << 20;
    let (spec, id, guest) = fixture.start_machine(spec).await;
    // More than the guest's memory, which a suspend saves too.
    guest.run("dd if=/dev/urandom of=/root/data bs=1M count=150 oflag=direct").await;
    let first_snapshot = Uuid::new_v4();
    fixture.engine.snapshot(id, first_snapshot, false).await.expect("kept");
    guest.store("note", "late").await;
    assert_eq!(guest.count().await, 1);

    // Space for memory but not for the disk: the guest continues, and nothing of the attempt is left.
    fill(&state, 512 + 140);
    let refused = fixture.engine.snapshot(id, Uuid::new_v4(), true).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    let fork = MachineSpec { disk_bytes: spec.disk_bytes, ..machine_spec() };
    let refused = fixture.engine.fork(id, &fork).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    fixture.engine.destroy(fork.id).await.expect("destroyed");
    fixture.expect_removed(fork.id);
    assert_eq!(names_in(&fixture.folder(id).join("snapshots")), [format!("{first_snapshot}.img")]);
    guest.wait_until_ready().await;
    assert_eq!(guest.count().await, 2, "the guest must continue");

    // Saved memory is preserved when a rollback finds too little space.
    fixture.engine.suspend(id).await.expect("suspended");
    let refused = fixture.engine.rollback(id, first_snapshot).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    assert_eq!(
        fixture.engine.observe(id).await.expect("an observation"),
        Observation::Suspended { generation: 1 }
    );
    Guest::new(&fixture.engine.resume(&spec, &boot(2)).await.expect("resumed")).wait_until_ready().await;
    let guest = expect_running(&*fixture.engine, id, 2).await;
    assert_eq!(guest.count().await, 3, "memory must be preserved");
    assert_eq!(guest.load("note").await.as_deref(), Some("late"));
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    fs::remove_file(state.join("filled")).expect("space is free again");
    fixture.engine.rollback(id, first_snapshot).await.expect("rolled back");
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(3)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await, None);
}

/// T20 (docs/security.md): the disk of a machine is a file that only QEMU writes.
#[tokio::test(flavor = "multi_thread")]
async fn t20_a_machine_that_fills_the_host_is_frozen_until_there_is_space() {
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    let agent = fs::metadata(program()).expect("the program").len() >> 20;
    let _small = SmallDisk::mount(own.path(), &state, 512 + 2 * agent + 700);
    let Some(fixture) = QemuFixture::in_folder(state.clone(), own, |_| {}) else { return };
    let spec = MachineSpec { disk_bytes: 512 << 20, ..machine_spec() };
    let (_, id, guest) = fixture.start_machine(spec).await;
    // More than half of what is left afterwards, which is the share of a machine below the reserve of 512 MiB.
    fill(&state, 512 + 60);
    // The guard measures growth from its first look, at which the guest must not have written yet.
    let before = fixture.engine.watch_disk().await.expect("the disk is watched");
    assert_eq!(before.frozen, 0, "{before:?}");
    let write = "dd if=/dev/zero of=/root/big bs=1M count=240 oflag=direct; echo $? >/run/code";
    guest.run(&format!("({write}) >/dev/null 2>&1 &")).await;
    let until_frozen = async |count: usize| {
        let seen = wait::until(Duration::from_secs(90), || async {
            let watched = fixture.engine.watch_disk().await.expect("the disk is watched");
            (watched.frozen == count).then_some(())
        });
        assert!(seen.await.is_some(), "{count} machines must be frozen");
    };
    until_frozen(1).await;
    let refused = fixture.engine.suspend(id).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    fs::remove_file(state.join("filled")).expect("space is free again");
    until_frozen(0).await;
    let code = "until [ -s /run/code ]; do sleep 0.1; done; cat /run/code";
    assert_eq!(guest.run(code).await.trim(), "0", "the guest sees no error");
}

const STATE: &str = "HOTDESK_STARTER_STATE";
const MACHINE: &str = "HOTDESK_STARTER_MACHINE";

fn spec_of(id: ComputerId) -> MachineSpec {
    MachineSpec { id, ..machine_spec() }
}

/// Runs as a separate process: the controller that the next test kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of another test"]
async fn starter() {
    let (Some(state), Some(id)) = (std::env::var_os(STATE), std::env::var_os(MACHINE)) else { return };
    let state = PathBuf::from(state);
    let program = state.join("qemu").display().to_string();
    let engine = open_engine(settings_with_program(state, program));
    let id = id.to_str().expect("an id").parse().expect("an id");
    engine.start(&spec_of(id), &boot(1)).await.expect("started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_controller_was_killed_is_waited_for() {
    use std::os::unix::fs::PermissionsExt;
    let Some(fixture) = QemuFixture::without_network() else { return };
    let spec = machine_spec();
    fixture.engine.create(&spec).await.expect("created");
    // A QEMU that starts only on a signal of the test.
    let (program, go) =
        (fixture.config.host.state_dir.join("qemu"), fixture.config.host.state_dir.join("go"));
    let script = format!(
        "#!/bin/sh\nuntil [ -e {} ]; do sleep 0.05; done\nexec /usr/bin/qemu-system-x86_64 \"$@\"\n",
        go.display()
    );
    fs::write(&program, script).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "engines::qemu_faults::starter"])
        .env(STATE, &fixture.config.host.state_dir)
        .env(MACHINE, spec.id.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("a controller");
    let begun = Instant::now();
    while processes(&spec.id.to_string()).is_empty() {
        assert!(begun.elapsed() < GRACE * 3, "the start must begin");
        assert!(victim.try_wait().expect("a status").is_none(), "the controller must not end by itself");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
    // The next engine repeats the start, which is the same boot, and returns once QEMU runs.
    let engine = fixture.reopen();
    let begun = boot(1);
    let started = engine.start(&spec, &begun);
    tokio::pin!(started);
    let first_snapshot = tokio::time::timeout(Duration::from_secs(1), &mut started).await;
    assert!(first_snapshot.is_err(), "must wait for QEMU: {first_snapshot:?}");
    File::create_new(&go).expect("go");
    let guest = Guest::new(&started.await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(processes(&spec.id.to_string()).len(), 1, "one QEMU");
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}
