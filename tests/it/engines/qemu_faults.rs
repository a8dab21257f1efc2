//! Is a virtual machine what its engine says after a step of it was cut short, came late or was refused?

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::base::wait;
use hotdesk::engine::qemu::QemuEngine;
use hotdesk::engine::{Change, DiskSpeed, Effect, Engine, EngineError, MachineSpec, Observation};
use nix::libc;
use uuid::Uuid;

use super::conformance::{Bench, GRACE, a_machine, boot, runs};
use super::guest::Guest;
use super::limits::setting;
use super::qemu::{Machines, settings};
use crate::harness::host::{names_in, processes};
use crate::harness::small_disk::SmallDisk;

/// What a machine takes of its host beside the guest's memory (`engine/qemu/hardware.rs`).
const OWN_MEMORY: u64 = 512 << 20;

/// The bound on a machine's memory on its host.
fn memory_bound(id: ComputerId) -> u64 {
    setting(&id.to_string(), ["memory.max", "memory.limit_in_bytes"]).parse().expect("bytes")
}

/// Lets the machine's record say a size, as a controller leaves it that was killed before the size came true.
fn record_says(bench: &Machines, id: ComputerId, memory_bytes: u64) {
    let path = bench.folder(id).join("machine.json");
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
        let Some(bench) = Machines::with(|config| config.disk_speed = speed) else { return };
        let (spec, id, mut guest) = bench.running(a_machine()).await;
        for script in bounded {
            let begun = Instant::now();
            guest.says(script).await;
            let took = begun.elapsed();
            println!("{mb_per_second} MB/s, {ops_per_second} ops/s: {took:?}: {script}");
            // Three seconds, less what passes at once.
            assert!(took > Duration::from_secs(2), "{took:?}: {script}");
            // The bound is there after a sleep too.
            bench.engine.suspend(id).await.expect("suspended");
            guest = Guest::at(&bench.engine.resume(&spec, &boot(2)).await.expect("resumed"));
            guest.answers().await;
        }
        // And a disk with a bound grows.
        assert_eq!(bench.engine.resize(id, Change::Disk(512 << 20)).await.expect("grown"), Effect::Live);
        let size: u64 = guest.says("df --output=size / | tail -1").await.trim().parse().expect("KiB");
        assert!(size > 400 << 10, "{size} KiB");
    }
}

/// What was written and not synced is on the disk after a stop, though the disk needs longer for it than the guest was given.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_what_the_guest_still_writes() {
    const SHORT: Duration = Duration::from_secs(2);
    let speed = DiskSpeed { mb_per_second: 4, ops_per_second: 0 };
    let Some(bench) = Machines::with(|config| config.disk_speed = speed) else { return };
    let (spec, id, guest) = bench.running(a_machine()).await;
    let sum = guest.says("head -c 50M /dev/urandom >/root/data; sha256sum </root/data").await;
    let begun = Instant::now();
    bench.engine.stop(id, SHORT).await.expect("stopped");
    let took = begun.elapsed();
    println!("the stop took {took:?}");
    assert!(took > 2 * SHORT, "it had nothing to wait for: {took:?}");
    let again = Guest::at(&bench.engine.start(&spec, &boot(2)).await.expect("started"));
    again.answers().await;
    assert_eq!(again.says("sha256sum </root/data").await, sum);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_has_the_memory_that_its_guest_has_whatever_was_cut_short() {
    let Some(bench) = Machines::lonely() else { return };
    let (mut spec, id, guest) = bench.running(a_machine()).await;
    let (small, large) = (512_u64 << 20, 768_u64 << 20);
    assert_eq!(memory_bound(id), small + OWN_MEMORY);
    // A controller was killed after it wrote down the new size: asked again, the host's bound follows.
    record_says(&bench, id, large);
    assert_eq!(bench.engine.resize(id, Change::Memory(large)).await.expect("grown"), Effect::Live);
    assert_eq!(memory_bound(id), large + OWN_MEMORY);
    let kilobytes = "sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo";
    let has: u64 = guest.says(kilobytes).await.parse().expect("kB");
    assert!(has > 600_000, "{has} kB");

    // It sleeps with all of it while it is to have less: it wakes with what it had, and gives back then.
    bench.engine.suspend(id).await.expect("suspended");
    spec.memory_bytes = small;
    let guest = Guest::at(&bench.engine.resume(&spec, &boot(2)).await.expect("resumed"));
    guest.answers().await;
    assert_eq!(memory_bound(id), large + OWN_MEMORY, "what its guest has");
    assert_eq!(bench.engine.resize(id, Change::Memory(small)).await.expect("shrunk"), Effect::Live);
    assert_eq!(memory_bound(id), small + OWN_MEMORY);
    let has: u64 = guest.says(kilobytes).await.parse().expect("kB");
    assert!(has < 600_000, "{has} kB");
    // And one that is to have more has not got it yet.
    bench.engine.suspend(id).await.expect("suspended again");
    spec.memory_bytes = large;
    Guest::at(&bench.engine.resume(&spec, &boot(3)).await.expect("resumed again")).answers().await;
    assert_eq!(memory_bound(id), small + OWN_MEMORY, "what its guest has");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_does_not_converge_keeps_what_it_had() {
    let Some(bench) = Machines::lonely() else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    bench.engine.resize(id, Change::Memory(768 << 20)).await.expect("grown");
    // A guest that stands still gives nothing back.
    bench.asks_qemu(id, "stop");
    let refused = bench.engine.resize(id, Change::Memory(512 << 20)).await.expect_err("no answer");
    assert!(refused.to_string().contains("does not give it back"), "{refused}");
    assert_eq!(memory_bound(id), (768 << 20) + OWN_MEMORY, "as before");
    bench.asks_qemu(id, "cont");
    guest.answers().await;
    assert_eq!(bench.engine.resize(id, Change::Memory(512 << 20)).await.expect("shrunk"), Effect::Live);
    assert_eq!(memory_bound(id), (512 << 20) + OWN_MEMORY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_grows_though_an_earlier_growth_was_answered_too_late() {
    let Some(bench) = Machines::lonely() else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    bench.asks_qemu(id, "stop");
    let refused = bench.engine.resize(id, Change::Disk(1 << 30)).await.expect_err("no answer");
    assert!(refused.to_string().contains("no answer"), "{refused}");
    bench.asks_qemu(id, "cont");
    guest.answers().await;
    let size = "df --output=size / | tail -1 | tr -d ' '";
    // The guest got to it after all: what it has is never cut off.
    let grown = wait::until(Duration::from_secs(120), || async {
        (guest.says(size).await.parse::<u64>().expect("KiB") > 900 << 10).then_some(())
    });
    assert!(grown.await.is_some(), "late");
    guest.keep("note", "on the disk that grew").await;
    assert_eq!(bench.engine.resize(id, Change::Disk(512 << 20)).await.expect("asked for less"), Effect::Live);
    assert_eq!(fs::metadata(bench.folder(id).join("disk.img")).expect("a disk").len(), 1 << 30);
    assert_eq!(guest.kept("note").await.as_deref(), Some("on the disk that grew"));
}

/// Holds the lock by which a QEMU says that nobody else may write to a disk, for as long as the file is open.
fn claim_for_writing(disk: &Path) -> File {
    /// "Nobody else writes", in the order of QEMU's permissions (`block/file-posix.c`, `RAW_LOCK_SHARED_BASE`).
    const NOBODY_ELSE_WRITES: i64 = 200 + 1;
    let file = File::options().read(true).write(true).open(disk).expect("the disk");
    let lock = libc::flock {
        l_type: i16::try_from(libc::F_RDLCK).expect("small"),
        l_whence: 0,
        l_start: NOBODY_ELSE_WRITES,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).expect("locked");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_whose_guest_could_not_be_let_go_on_counts_again() {
    let Some(bench) = Machines::lonely() else { return };
    let (spec, id, guest) = bench.running(a_machine()).await;
    assert_eq!(guest.count().await, 1);
    bench.engine.suspend(id).await.expect("suspended");
    // QEMU opens a disk for writing only when its guest goes on.
    let claimed = claim_for_writing(&bench.folder(id).join("disk.img"));
    let refused = bench.engine.resume(&spec, &boot(2)).await.expect_err("the disk is another's");
    assert!(refused.to_string().contains("could not cont"), "{refused}");
    assert_eq!(bench.engine.observe(id).await.expect("seen"), Observation::Suspended { generation: 1 });
    assert!(processes(&id.to_string()).is_empty(), "nothing runs");
    drop(claimed);
    Guest::at(&bench.engine.resume(&spec, &boot(2)).await.expect("resumed")).answers().await;
    assert_eq!(runs(&bench.engine, id, 2).await.count().await, 2, "memory is kept");
}

/// Fills a file system until so many MiB are free.
fn fill(folder: &Path, free_mib: u64) {
    let stat = nix::sys::statvfs::statvfs(folder).expect("its size");
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
    // What is kept back, the agent's disk twice while it is made, a guest's disk, its copy and memory.
    let agent = fs::metadata(env!("CARGO_BIN_EXE_hotdesk")).expect("the program").len() >> 20;
    let _small = SmallDisk::mount(own.path(), &state, 512 + 2 * agent + 700);
    let Some(bench) = Machines::at(state.clone(), own, |_| {}) else { return };
    let mut spec = a_machine();
    spec.disk_bytes = 512 << 20;
    let (spec, id, guest) = bench.running(spec).await;
    // Past the guest's memory, which is saved too.
    guest.says("dd if=/dev/urandom of=/root/data bs=1M count=150 oflag=direct").await;
    let early = Uuid::new_v4();
    bench.engine.snapshot(id, early, false).await.expect("kept");
    guest.keep("note", "late").await;
    assert_eq!(guest.count().await, 1);

    // Room for memory, none for the disk: the guest goes on, and nothing of the try stays.
    fill(&state, 512 + 140);
    let refused = bench.engine.snapshot(id, Uuid::new_v4(), true).await.expect_err("no room");
    assert!(matches!(refused, EngineError::NoCapacity(_)), "{refused}");
    let fork = MachineSpec { disk_bytes: spec.disk_bytes, ..a_machine() };
    let refused = bench.engine.fork(id, &fork).await.expect_err("no room");
    assert!(matches!(refused, EngineError::NoCapacity(_)), "{refused}");
    bench.engine.destroy(fork.id).await.expect("destroyed");
    bench.nothing_is_left_of(fork.id);
    assert_eq!(names_in(&bench.folder(id).join("snapshots")), [format!("{early}.img")]);
    guest.answers().await;
    assert_eq!(guest.count().await, 2, "it goes on");

    // Nor is memory given up for a rollback that finds no room.
    bench.engine.suspend(id).await.expect("suspended");
    let refused = bench.engine.rollback(id, early).await.expect_err("no room");
    assert!(matches!(refused, EngineError::NoCapacity(_)), "{refused}");
    assert_eq!(bench.engine.observe(id).await.expect("seen"), Observation::Suspended { generation: 1 });
    Guest::at(&bench.engine.resume(&spec, &boot(2)).await.expect("resumed")).answers().await;
    let guest = runs(&bench.engine, id, 2).await;
    assert_eq!(guest.count().await, 3, "memory is kept");
    assert_eq!(guest.kept("note").await.as_deref(), Some("late"));
    bench.engine.stop(id, GRACE).await.expect("stopped");
    fs::remove_file(state.join("filled")).expect("room again");
    bench.engine.rollback(id, early).await.expect("rolled back");
    let guest = Guest::at(&bench.engine.start(&spec, &boot(3)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await, None);
}

const STATE: &str = "HOTDESK_STARTER_STATE";
const MACHINE: &str = "HOTDESK_STARTER_MACHINE";

fn the_machine(id: ComputerId) -> MachineSpec {
    MachineSpec { id, ..a_machine() }
}

/// Not a test of its own: the controller that the next test kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of another test"]
async fn starter() {
    let (Some(state), Some(id)) = (std::env::var_os(STATE), std::env::var_os(MACHINE)) else { return };
    let state = PathBuf::from(state);
    let mut config = settings(state.clone());
    config.program = state.join("qemu").display().to_string();
    let engine = QemuEngine::open(config).expect("an engine");
    let id = id.to_str().expect("an id").parse().expect("an id");
    engine.start(&the_machine(id), &boot(1)).await.expect("started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_controller_was_killed_is_waited_for() {
    use std::os::unix::fs::PermissionsExt;
    let Some(bench) = Machines::lonely() else { return };
    let spec = a_machine();
    bench.engine.create(&spec).await.expect("created");
    // A QEMU that takes its time.
    let (program, go) = (bench.config.state_dir.join("qemu"), bench.config.state_dir.join("go"));
    let script = format!(
        "#!/bin/sh\nuntil [ -e {} ]; do sleep 0.05; done\nexec /usr/bin/qemu-system-x86_64 \"$@\"\n",
        go.display()
    );
    fs::write(&program, script).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "engines::qemu_faults::starter"])
        .env(STATE, &bench.config.state_dir)
        .env(MACHINE, spec.id.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("a controller");
    let begun = Instant::now();
    while processes(&spec.id.to_string()).is_empty() {
        assert!(begun.elapsed() < GRACE * 3, "nothing is started");
        assert!(victim.try_wait().expect("asked").is_none(), "the controller ended by itself");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
    // The next controller starts it too, which is the same boot, and hears of it once QEMU is up.
    let engine = bench.reopened();
    let begun = boot(1);
    let started = engine.start(&spec, &begun);
    tokio::pin!(started);
    let early = tokio::time::timeout(Duration::from_secs(1), &mut started).await;
    assert!(early.is_err(), "QEMU is not up: {early:?}");
    File::create_new(&go).expect("go");
    let guest = Guest::at(&started.await.expect("started"));
    guest.answers().await;
    assert_eq!(processes(&spec.id.to_string()).len(), 1, "one QEMU");
    engine.destroy(spec.id).await.expect("destroyed");
    bench.nothing_is_left_of(spec.id);
}
