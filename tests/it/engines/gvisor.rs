//! Container engine over gVisor: conformance, and memory across suspend and resume.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::{Endpoint, EngineError, NetworkConfig, Observation, Shortage};

use super::conformance::{EngineFixture, GRACE, boot, conformance_tests, expect_running, machine_spec};
use super::guest::Guest;
use super::host::{ContainerFixture, container, open_engine};
use crate::harness::controller::runsc;
use crate::harness::host;
use crate::harness::small_disk::SmallDisk;

conformance_tests!(ContainerFixture::gvisor(NetworkConfig::disabled()).map(ContainerFixture::beside_others));
conformance_tests!(ContainerFixture::gvisor(NetworkConfig::disabled()).map(ContainerFixture::beside_others);
    a_machine_whose_processes_are_stopped_can_be_ended,
    a_machine_whose_groups_are_frozen_can_be_ended,
    layers_have_what_a_machine_wrote_and_nobody_changes_them,
    a_machine_keeps_its_layers_wherever_its_state_goes,
    a_machine_has_all_its_layers_up_to_the_most,
);

/// Starts a process that counts in its memory and writes the count to files, one of which is deleted but
/// open.
const START_COUNTER: &str = "echo 0 >/root/count; \
                     setsid bash -c 'exec 3>/root/open 4>/tmp/gone 9<> <(:); rm /tmp/gone; i=0; \
                     while :; do i=$((i+1)); echo $i >/root/count; echo $i >&3; echo $i >&4; \
                     read -t 0.05 -u 9; done' \
                     >/dev/null 2>&1 </dev/null & echo $! >/root/counter";

async fn read_count(guest: &Guest) -> u64 {
    // The file is empty for a moment during each write.
    for _ in 0..100 {
        if let Ok(read_count) = guest.run("cat /root/count").await.parse() {
            return read_count;
        }
    }
    panic!("the counter must have a value");
}

async fn expect_suspended(fixture: &ContainerFixture, id: hotdesk::base::ids::ComputerId, since: u64) {
    let observed = fixture.engine.observe(id).await.expect("an observation");
    assert_eq!(observed, Observation::Suspended { generation: since });
}

/// Asserts that the kernel may wake all threads of the guest's kernel late (docs/engines/gvisor.md).
fn expect_coalesced_timers(id: &str) {
    let kernels = host::gvisor_kernels(id);
    assert_eq!(kernels.len(), 1, "{kernels:?}");
    for thread in host::names_in(Path::new(&format!("/proc/{}/task", kernels[0]))) {
        // A thread may have ended.
        if let Ok(slack) = fs::read_to_string(format!("/proc/{thread}/timerslack_ns")) {
            assert_eq!(slack.trim(), "5000000", "thread {thread}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_guest_goes_on_where_it_was_again_and_again() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::default()) else { return };
    assert!(fixture.engine.offers().default().capabilities.suspend);
    let (spec, id, mut guest) = fixture.start_machine(machine_spec()).await;
    guest.run(START_COUNTER).await;
    let process = guest.run("cat /root/counter; cut -d' ' -f22 /proc/1/stat").await;
    for round in 2..5 {
        let before = read_count(&guest).await;
        fixture.engine.suspend(id).await.expect("suspended");
        expect_suspended(&fixture, id, round - 1).await;
        assert_eq!(host::find_leftover(&id.to_string()), None, "no process of the machine may run");
        fixture.engine.suspend(id).await.expect("a repeated suspend succeeds");
        fixture.engine.start(&spec, &boot(round)).await.expect_err("a start would lose the memory");
        expect_suspended(&fixture, id, round - 1).await;

        let endpoint = fixture.engine.resume(&spec, &boot(round)).await.expect("resumed");
        guest = expect_running(&*fixture.engine, id, round).await;
        assert_eq!(guest.endpoint(), &endpoint);
        guest.wait_until_ready().await;
        expect_coalesced_timers(&id.to_string());
        assert_eq!(guest.run("cat /root/counter; cut -d' ' -f22 /proc/1/stat").await, process);
        let first_count = read_count(&guest).await;
        assert!(first_count >= before && first_count < before + 400, "{before} then {first_count}");
        let advanced = wait::until(Duration::from_secs(30), || async {
            (read_count(&guest).await > first_count).then_some(())
        });
        assert!(advanced.await.is_some(), "the counter must advance");
        assert!(
            !fixture.folder(id).join("memory").exists() && !fixture.folder(id).join("memory.used").exists()
        );
        fixture.engine.resume(&spec, &boot(round)).await.expect("a repeated resume succeeds");
        guest.store("note", &format!("round {round}")).await;
    }
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(9)).await.expect("a boot from the same disk"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("round 4"));
    fixture.engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

/// Fills the file system of a folder to the last block.
fn fill(folder: &std::path::Path) {
    let file = fs::File::create_new(folder.join("filler")).expect("a filler");
    let mut length = 0;
    for step in [64 << 20, 1 << 20, 64 << 10, 4096_u64] {
        while rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), length, step).is_ok() {
            length += step;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_works_on_a_full_disk() {
    let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let disk = SmallDisk::mount(folder.path(), &folder.path().join("small"), 1536);
    let at = folder.path().join("small");
    let Some(fixture) = ContainerFixture::gvisor_in(at.join("state"), folder) else { return };
    for engine in [fixture.engine.clone(), fixture.reopen()] {
        let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
        assert_eq!(guest.count().await, 1);
        engine.suspend(id).await.expect("suspended");
        fill(&at);
        Guest::new(&engine.resume(&spec, &boot(2)).await.expect("resumed")).wait_until_ready().await;
        let guest = expect_running(&*engine, id, 2).await;
        assert_eq!(guest.count().await, 2, "memory must be preserved");
        let reserve =
            fs::metadata(fixture.engine_root().join("wake.reserve")).expect("the reserve for resumes").len();
        assert_eq!(reserve, 4 << 20, "the next resume needs the reserve, too");
        let refused = engine.check_capacity(id, None).await.expect_err("a boot needs space");
        assert!(matches!(refused, EngineError::NoCapacity(Shortage::DiskSpace, _)), "{refused:#}");
        engine.destroy(id).await.expect("destroyed");
        fs::remove_file(at.join("filler")).expect("the filler");
    }
    drop(fixture);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_memory_is_refused_and_kept_until_it_is_discarded() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.store("note", "on the disk").await;
    fixture.engine.suspend(id).await.expect("suspended");
    let pages = fixture.folder(id).join("memory/pages.img");
    let whole = fs::read(&pages).expect("pages");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&pages, &damaged).expect("written");
    for _ in 0..2 {
        let refused = fixture.engine.resume(&spec, &boot(2)).await.expect_err("one bit differs");
        assert!(matches!(&refused, EngineError::Damaged(what) if what.contains("pages.img")), "{refused:#}");
        expect_suspended(&fixture, id, 1).await;
    }
    fs::write(&pages, &whole).expect("written");
    fixture.engine.resume(&spec, &boot(2)).await.expect("whole again");
    expect_running(&*fixture.engine, id, 2).await.wait_until_ready().await;

    fixture.engine.suspend(id).await.expect("suspended again");
    fixture.engine.discard_memory(id).await.expect("discarded");
    assert_eq!(fixture.engine.observe(id).await.expect("an observation"), Observation::Stopped);
    fixture.engine.discard_memory(id).await.expect("a repeated discard succeeds");
    let refused = fixture.engine.resume(&spec, &boot(3)).await.expect_err("no memory to resume");
    assert!(matches!(refused, EngineError::Failed { .. }), "{refused:#}");
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(3)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("on the disk"));
    fixture.engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

/// Writes in all available ways, never syncs, and keeps all files open.
const START_WRITER: &str = "cat >/root/writes.py <<'END'
import mmap, os, time
size = 3 << 20
only = os.open('/root/only', os.O_WRONLY | os.O_CREAT); os.write(only, os.urandom(size))
both = os.open('/root/both', os.O_RDWR | os.O_CREAT); os.write(both, os.urandom(size)); os.pread(both, size, 0)
os.pwrite(both, b'changed', 5000); os.pread(only_read := os.open('/root/only', os.O_RDONLY), size, 0); os.pwrite(only, b'again', 100)
more = os.open('/root/more', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range(500): os.write(more, b'a line of a log that is written as it goes\\n')
shared = os.open('/root/shared', os.O_RDWR | os.O_CREAT); os.ftruncate(shared, size)
pages = mmap.mmap(shared, size); pages[:] = os.urandom(size); pages[70000:70007] = b'changed'
os.rename('/root/more', '/root/moved'); os.mkdir('/root/made'); os.symlink('moved', '/root/link')
open('/root/written', 'w').write('yes')
time.sleep(1000)
END
setsid python3 /root/writes.py >/root/said 2>&1 </dev/null & for i in $(seq 300); do [ -s /root/written ] && break; sleep 0.1; done; cat /root/said; test -s /root/written";
const SUMS: &str = "cd /root && sha256sum only both moved shared link && ls -d made";

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_holds_what_its_running_source_had_written_and_not_synced() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    assert!(fixture.engine.offers().default().capabilities.copy_while_running);
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.run(START_WRITER).await;
    let copy = machine_spec();
    fixture.engine.copy_disk(id, &copy).await.expect("copied");
    super::copies::check_clean(&fixture.folder(copy.id).join("disk.img"));
    let sums = guest.run(SUMS).await;
    guest.run("echo more >>/root/moved; pgrep -f writes.py").await;

    let second = Guest::new(&fixture.engine.start(&copy, &boot(1)).await.expect("started"));
    second.wait_until_ready().await;
    assert_eq!(second.run(SUMS).await, sums);
    for id in [id, copy.id] {
        fixture.engine.destroy(id).await.expect("destroyed");
        fixture.expect_removed(id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_saved_goes_on() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    let open_deleted_file = "setsid sh -c 'exec 3>/root/gone; rm /root/gone; echo $$ >/root/holder; exec sleep 1000' >/dev/null 2>&1 </dev/null & \
                until test -s /root/holder; do sleep 0.05; done";
    guest.run(open_deleted_file).await;
    let refused = fixture.engine.suspend(id).await.expect_err("a deleted file of the disk is open");
    assert!(matches!(refused, EngineError::Failed { .. }), "{refused:#}");
    expect_running(&*fixture.engine, id, 1).await.wait_until_ready().await;
    assert!(!fixture.folder(id).join("memory.new").exists());
    // Nothing waits for the process, so it stays a zombie.
    let end = "pid=$(cat /root/holder); kill $pid; \
               while grep -qs '^State:.[^ZX]' /proc/$pid/status; do sleep 0.05; done";
    guest.run(end).await;
    fixture.engine.suspend(id).await.expect("no open deleted file is left");
    expect_suspended(&fixture, id, 1).await;
    let other = fixture.reopen();
    other.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_guest_whose_clients_a_killed_controller_held_off_is_reachable_again() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    let Endpoint::Tcp(address) = guest.endpoint() else { panic!("an address expected") };
    // Simulate a controller that died between holding the guest's clients off and releasing them.
    let element = format!("{{ {} }}", address.ip());
    let added = Command::new("nft").args(["add", "element", "inet", "hotdesk", "held", &element]).status();
    assert!(added.expect("nft").success());
    let refused = TcpStream::connect_timeout(address, Duration::from_millis(500)).expect_err("held off");
    assert_eq!(refused.kind(), ErrorKind::TimedOut, "{refused}");
    let engine = fixture.reopen();
    expect_running(&*engine, id, 1).await.wait_until_ready().await;
    // A guest that nobody holds off is let in too: the release is idempotent.
    let engine = fixture.reopen();
    expect_running(&*engine, id, 1).await.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_could_not_be_held_is_reachable_again() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    let tools = tempfile::tempdir().expect("a temporary folder");
    let runtime = tools.path().join("runsc");
    let script =
        format!("#!/bin/sh\nfor word; do [ \"$word\" != pause ] || exit 1; done\nexec {} \"$@\"\n", runsc());
    fs::write(&runtime, script).expect("written");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("a program");
    let mut config = fixture.config.clone();
    config.kinds = vec![container(runtime.display().to_string())];
    let engine = open_engine(config);
    let refused = engine.suspend(id).await.expect_err("the runtime cannot pause the guest");
    assert!(format!("{refused:#}").contains("pause the guest"), "{refused:#}");
    guest.wait_until_ready().await;
    expect_running(&*fixture.engine, id, 1).await;
    assert!(!fixture.folder(id).join("memory.new").exists());
    fixture.engine.suspend(id).await.expect("the runtime can pause the guest");
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_reach_neither_the_host_nor_each_other_s_agents_and_only_root_of_the_host_reaches_those() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::default()) else { return };
    let (_, id, first) = fixture.start_machine(machine_spec()).await;
    let (_, _, second) = fixture.start_machine(machine_spec()).await;
    let Endpoint::Tcp(address) = first.endpoint() else { panic!("an address expected") };
    let connect = |to: String| {
        format!("python3 -c 'import socket; socket.create_connection((\"{to}\", {}), 3)'", address.port())
    };
    first.run(&connect("127.0.0.1".to_owned())).await;
    second.run_failing(&connect(address.ip().to_string())).await;
    let other = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--", "sh", "-c", &connect(address.ip().to_string())])
        .output()
        .expect("setpriv");
    assert!(
        !other.status.success() && String::from_utf8_lossy(&other.stderr).contains("refused"),
        "{other:?}"
    );
    let port = std::net::TcpListener::bind("0.0.0.0:0").expect("a listener");
    let std::net::IpAddr::V4(ip) = address.ip() else { panic!("IPv4 expected") };
    let gateway = std::net::Ipv4Addr::from_bits(ip.to_bits() - 1);
    let number = port.local_addr().expect("an address").port();
    let host = format!("python3 -c 'import socket; socket.create_connection((\"{gateway}\", {number}), 3)'");
    second.run_failing(&host).await;
    // Packets for an agent that is gone do not leave the host.
    fixture.engine.destroy(id).await.expect("destroyed");
    let gone = TcpStream::connect_timeout(address, Duration::from_secs(5)).expect_err("the agent is gone");
    assert_eq!(gone.kind(), ErrorKind::ConnectionRefused, "{gone}");
}
