//! Does the container engine keep the contract over gVisor, and is a guest's memory kept?

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::container::{ContainerEngine, NetworkConfig};
use hotdesk::engine::{Endpoint, Engine, EngineError, Observation};

use super::conformance::{Bench, GRACE, a_machine, boot, keeps_its_promises, runs};
use super::guest::Guest;
use super::host::Containers;
use crate::harness::controller::runsc;

keeps_its_promises!(Containers::gvisor(NetworkConfig::disabled()));

/// Starts a process that counts in its memory and tells by a file, with that file and a deleted one open.
const COUNT: &str = "setsid sh -c 'exec 3>/root/open 4>/tmp/gone; rm /tmp/gone; i=0; \
                     while :; do i=$((i+1)); echo $i >/root/count; echo $i >&3; echo $i >&4; sleep 0.05; done' \
                     >/dev/null 2>&1 </dev/null & echo $! >/root/counter";

async fn count(guest: &Guest) -> u64 {
    // The file is empty for a moment at each count.
    for _ in 0..100 {
        if let Ok(count) = guest.says("cat /root/count").await.parse() {
            return count;
        }
    }
    panic!("nothing counts");
}

async fn is_suspended(bench: &Containers, id: hotdesk::base::ids::ComputerId, since: u64) {
    let seen = bench.engine.observe(id).await.expect("an observation");
    assert_eq!(seen, Observation::Suspended { generation: since });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_guest_goes_on_where_it_was_again_and_again() {
    let Some(bench) = Containers::gvisor(NetworkConfig::default()) else { return };
    assert!(bench.engine.capabilities().suspend);
    let (spec, id, mut guest) = bench.running(a_machine()).await;
    guest.says(COUNT).await;
    let process = guest.says("cat /root/counter; cut -d' ' -f22 /proc/1/stat").await;
    for round in 2..5 {
        let before = count(&guest).await;
        bench.engine.suspend(id).await.expect("suspended");
        is_suspended(&bench, id, round - 1).await;
        assert_eq!(crate::harness::host::left_of(&id.to_string()), None, "nothing of it runs");
        bench.engine.suspend(id).await.expect("it is so already");
        bench.engine.start(&spec, &boot(round)).await.expect_err("a start would lose the memory");
        is_suspended(&bench, id, round - 1).await;

        let endpoint = bench.engine.resume(&spec, &boot(round)).await.expect("resumed");
        guest = runs(&bench.engine, id, round).await;
        assert_eq!(guest.endpoint(), &endpoint);
        guest.answers().await;
        assert_eq!(guest.says("cat /root/counter; cut -d' ' -f22 /proc/1/stat").await, process);
        let at_once = count(&guest).await;
        assert!(at_once >= before && at_once < before + 400, "{before} then {at_once}");
        let on =
            wait::until(Duration::from_secs(30), || async { (count(&guest).await > at_once).then_some(()) });
        assert!(on.await.is_some(), "it counts on");
        assert!(!bench.folder(id).join("memory").exists() && !bench.folder(id).join("memory.used").exists());
        bench.engine.resume(&spec, &boot(round)).await.expect("it runs since that already");
        guest.keep("note", &format!("round {round}")).await;
    }
    bench.engine.stop(id, GRACE).await.expect("stopped");
    let guest = Guest::at(&bench.engine.start(&spec, &boot(9)).await.expect("a boot from the same disk"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("round 4"));
    bench.engine.destroy(id).await.expect("destroyed");
    bench.nothing_is_left_of(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_memory_is_refused_and_kept_until_it_is_discarded() {
    let Some(bench) = Containers::gvisor(NetworkConfig::disabled()) else { return };
    let (spec, id, guest) = bench.running(a_machine()).await;
    guest.keep("note", "on the disk").await;
    bench.engine.suspend(id).await.expect("suspended");
    let pages = bench.folder(id).join("memory/pages.img");
    let whole = fs::read(&pages).expect("pages");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&pages, &damaged).expect("written");
    for _ in 0..2 {
        let refused = bench.engine.resume(&spec, &boot(2)).await.expect_err("one bit differs");
        assert!(matches!(&refused, EngineError::Damaged(what) if what.contains("pages.img")), "{refused}");
        is_suspended(&bench, id, 1).await;
    }
    fs::write(&pages, &whole).expect("written");
    bench.engine.resume(&spec, &boot(2)).await.expect("whole again");
    runs(&bench.engine, id, 2).await.answers().await;

    bench.engine.suspend(id).await.expect("suspended again");
    bench.engine.discard_memory(id).await.expect("discarded");
    assert_eq!(bench.engine.observe(id).await.expect("seen"), Observation::Stopped);
    bench.engine.discard_memory(id).await.expect("nothing to discard");
    let refused = bench.engine.resume(&spec, &boot(3)).await.expect_err("nothing to resume");
    assert!(matches!(refused, EngineError::Failed { .. }), "{refused}");
    let guest = Guest::at(&bench.engine.start(&spec, &boot(3)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("on the disk"));
    bench.engine.destroy(id).await.expect("destroyed");
    bench.nothing_is_left_of(id);
}

/// Writes in every way that there is, brings nothing to the disk by itself, and keeps all of it open.
const WRITES: &str = "cat >/root/writes.py <<'END'
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
    let Some(bench) = Containers::gvisor(NetworkConfig::disabled()) else { return };
    assert!(bench.engine.capabilities().copy_while_running);
    let (_, id, guest) = bench.running(a_machine()).await;
    guest.says(WRITES).await;
    let copy = a_machine();
    bench.engine.copy_disk(id, &copy).await.expect("copied");
    super::copies::is_clean(&bench.folder(copy.id).join("disk.img"));
    let sums = guest.says(SUMS).await;
    guest.says("echo more >>/root/moved; pgrep -f writes.py").await;

    let second = Guest::at(&bench.engine.start(&copy, &boot(1)).await.expect("started"));
    second.answers().await;
    assert_eq!(second.says(SUMS).await, sums);
    for id in [id, copy.id] {
        bench.engine.destroy(id).await.expect("destroyed");
        bench.nothing_is_left_of(id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_saved_goes_on() {
    let Some(bench) = Containers::gvisor(NetworkConfig::disabled()) else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    let hold = "setsid sh -c 'exec 3>/root/gone; rm /root/gone; echo $$ >/root/holder; exec sleep 1000' >/dev/null 2>&1 </dev/null & \
                until test -s /root/holder; do sleep 0.05; done";
    guest.says(hold).await;
    let refused = bench.engine.suspend(id).await.expect_err("a deleted file of the disk is open");
    assert!(matches!(refused, EngineError::Failed { .. }), "{refused}");
    runs(&bench.engine, id, 1).await.answers().await;
    assert!(!bench.folder(id).join("memory.new").exists());
    // Nobody waits for it: it stays a zombie.
    let end = "pid=$(cat /root/holder); kill $pid; \
               while grep -qs '^State:.[^ZX]' /proc/$pid/status; do sleep 0.05; done";
    guest.says(end).await;
    bench.engine.suspend(id).await.expect("nothing hinders it now");
    is_suspended(&bench, id, 1).await;
    let other = bench.reopened();
    other.destroy(id).await.expect("destroyed");
    bench.nothing_is_left_of(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_guest_whose_clients_a_killed_controller_held_off_is_reachable_again() {
    let Some(bench) = Containers::gvisor(NetworkConfig::disabled()) else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    let Endpoint::Tcp(address) = guest.endpoint() else { panic!("an address expected") };
    // It runs: its controller died before it stood, or after it had gone on.
    let element = format!("{{ {} }}", address.ip());
    let held = Command::new("nft").args(["add", "element", "inet", "hotdesk", "held", &element]).status();
    assert!(held.expect("nft").success());
    let nobody = TcpStream::connect_timeout(address, Duration::from_millis(500)).expect_err("held off");
    assert_eq!(nobody.kind(), ErrorKind::TimedOut, "{nobody}");
    let engine = bench.reopened();
    runs(&*engine, id, 1).await.answers().await;
    // Whom nobody holds off is let in as well.
    let engine = bench.reopened();
    runs(&*engine, id, 1).await.answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_could_not_be_held_is_reachable_again() {
    let Some(bench) = Containers::gvisor(NetworkConfig::disabled()) else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    let tools = tempfile::tempdir().expect("a temporary folder");
    let runtime = tools.path().join("runsc");
    let script =
        format!("#!/bin/sh\nfor word; do [ \"$word\" != pause ] || exit 1; done\nexec {} \"$@\"\n", runsc());
    fs::write(&runtime, script).expect("written");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("a program");
    let mut config = bench.config.clone();
    config.runtime = runtime.display().to_string();
    let engine = ContainerEngine::open(config).expect("an engine");
    let refused = engine.suspend(id).await.expect_err("it does not stand still");
    assert!(refused.to_string().contains("hold the guest"), "{refused}");
    guest.answers().await;
    runs(&bench.engine, id, 1).await;
    assert!(!bench.folder(id).join("memory.new").exists());
    bench.engine.suspend(id).await.expect("nothing hinders it now");
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_reach_neither_the_host_nor_each_other_s_agents_and_only_root_of_the_host_reaches_those() {
    let Some(bench) = Containers::gvisor(NetworkConfig::default()) else { return };
    let (_, id, first) = bench.running(a_machine()).await;
    let (_, _, second) = bench.running(a_machine()).await;
    let Endpoint::Tcp(address) = first.endpoint() else { panic!("an address expected") };
    let connect = |to: String| {
        format!("python3 -c 'import socket; socket.create_connection((\"{to}\", {}), 3)'", address.port())
    };
    first.says(&connect("127.0.0.1".to_owned())).await;
    second.refuses(&connect(address.ip().to_string())).await;
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
    second.refuses(&host).await;
    // What is said to an agent that is gone does not leave the host.
    bench.engine.destroy(id).await.expect("destroyed");
    let gone = TcpStream::connect_timeout(address, Duration::from_secs(5)).expect_err("nobody");
    assert_eq!(gone.kind(), ErrorKind::ConnectionRefused, "{gone}");
}
