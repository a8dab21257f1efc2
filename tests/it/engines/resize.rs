//! Live changes of a machine's hardware.
//!
//! Conformance tests first, then effects on a container's kernel settings and guest.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::{Change, Effect, EngineError, NetworkConfig};

use super::conformance::{EngineFixture, GRACE, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::ContainerFixture;
use super::limits::cgroup_value;
use crate::harness::network::TestNetwork;

pub async fn hardware_changes_when_the_engine_says(fixture: &dyn EngineFixture) {
    let (engine, mut spec) = (fixture.engine(), fixture.spec());
    let id = spec.id;
    let refused = engine.resize(id, Change::Cpu(2.0)).await.expect_err("a missing machine cannot change");
    assert!(matches!(refused, EngineError::Absent), "{refused:#}");
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    guest.store("note", "before").await;

    let able = engine.offers().default().capabilities;
    for (change, live) in [
        (Change::Cpu(2.0), able.live_cpu),
        (Change::Memory(768 << 20), able.live_ram),
        (Change::Disk(512 << 20), able.live_disk),
    ] {
        let expected = if live { Effect::Live } else { Effect::AtNextStart };
        for _ in 0..2 {
            assert_eq!(engine.resize(id, change).await.expect("changed"), expected, "{change:?}");
        }
    }
    engine.resize(id, Change::Bandwidth(100)).await.expect("changed");
    engine.resize(id, Change::Disk(128 << 20)).await.expect_err("a disk never shrinks");
    expect_running(&*engine, id, 1).await;
    assert_eq!(guest.load("note").await.as_deref(), Some("before"));

    engine.stop(id, GRACE).await.expect("stopped");
    for change in [Change::Cpu(1.0), Change::Memory(512 << 20), Change::Disk(600 << 20), Change::Bandwidth(0)]
    {
        assert_eq!(engine.resize(id, change).await.expect("changed"), Effect::AtNextStart, "{change:?}");
    }
    spec.disk_bytes = 600 << 20;
    let guest = Guest::new(&engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("before"));
    engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_told_at_once_and_the_guest_gets_it() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    let name = id.to_string();
    let quota = || cgroup_value(&name, ["cpu.max", "cpu.cfs_quota_us"]);
    let memory = || cgroup_value(&name, ["memory.max", "memory.limit_in_bytes"]);
    // CPU time that a busy second gets, in hundredths.
    let busy = "python3 -c 'import time
end, begun = time.monotonic() + 1, time.process_time()
while time.monotonic() < end: pass
print(round(100 * (time.process_time() - begun)))'";
    fixture.engine.resize(id, Change::Cpu(0.2)).await.expect("changed");
    assert_eq!(quota().split(' ').next(), Some("20000"));
    let cpu_percent: u32 = guest.run(busy).await.parse().expect("hundredths");
    assert!(cpu_percent <= 30, "{cpu_percent} of 100 with a fifth of a core");
    fixture.engine.resize(id, Change::Cpu(2.0)).await.expect("changed");
    assert_eq!(quota().split(' ').next(), Some("200000"));

    fixture.engine.resize(id, Change::Memory(1 << 30)).await.expect("raised");
    assert_eq!(memory(), (1 << 30).to_string());
    let allocate_memory = "setsid python3 -c 'import time; held = bytearray(b\"x\") * (300 << 20)
open(\"/root/held\", \"w\").close()
time.sleep(100)' >/dev/null 2>&1 & until test -e /root/held; do sleep 0.05; done; echo $!";
    let holder = guest.run(allocate_memory).await;
    let refused = fixture.engine.resize(id, Change::Memory(200 << 20)).await.expect_err("in use");
    let EngineError::MemoryInUse { used, limit } = refused else { panic!("{refused:#}") };
    assert!(limit == 200 << 20 && (limit..1 << 30).contains(&used), "{used} of {limit}");
    assert_eq!(memory(), (1 << 30).to_string(), "the limit must be unchanged");
    // An ending process releases its memory after `status` stops to show it, and before it becomes a zombie.
    guest
        .run(&format!(
            "kill {holder}; while grep -qs '^State:.[^ZX]' /proc/{holder}/status; do sleep 0.05; done; echo gone"
        ))
        .await;
    fixture.engine.resize(id, Change::Memory(200 << 20)).await.expect("lowered");
    assert_eq!(memory(), (200 << 20).to_string());
    let both = cgroup_value(&name, ["memory.swap.max", "memory.memsw.limit_in_bytes"]);
    assert!(both == "0" || both == memory(), "{both}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_grows_live_where_the_kernel_lets_us_and_else_at_the_next_start() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (mut spec, id, guest) = fixture.start_machine(machine_spec()).await;
    let df = "df --output=size / | tail -1 | tr -d ' '";
    let size = |text: String| text.parse::<u64>().expect("KiB");
    let before = size(guest.run(df).await);
    let effect = fixture.engine.resize(id, Change::Disk(1 << 30)).await.expect("changed");
    let now = size(guest.run(df).await);
    match effect {
        Effect::Live => assert!(now > 3 * before, "{before} KiB became {now}"),
        Effect::AtNextStart => {
            eprintln!("this host cannot grow a mounted file system (CAP_SYS_RESOURCE)");
            assert_eq!(now, before);
        }
    }
    guest.store("note", "still here").await;
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    spec.disk_bytes = 1 << 30;
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    assert!(size(guest.run(df).await) > 3 * before);
    assert_eq!(guest.load("note").await.as_deref(), Some("still here"));
}

const PORT: u16 = 8080;
/// Size of each transfer in bytes: two seconds at 8 Mbit/s.
const TRANSFER_BYTES: usize = 2_000_000;
/// Longest wait for an undisturbed measurement. On a busy machine a transfer is slower than its limit, but
/// never faster.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Durations in seconds of sending and receiving [`TRANSFER_BYTES`] between a guest and the public network.
async fn transfer_seconds(guest: &Guest, test_network: &TestNetwork, listener: &TcpListener) -> (f64, f64) {
    let script = format!(
        "python3 -c 'import socket, time
def spent(act):
    begun = time.monotonic()
    with socket.create_connection((\"{}\", {PORT}), 30) as link:
        act(link); return time.monotonic() - begun
def send(link):
    link.sendall(bytes({TRANSFER_BYTES})); link.shutdown(socket.SHUT_WR); link.recv(1)
def receive(link):
    while link.recv(65536): pass
print(spent(send), spent(receive))'",
        test_network.public
    );
    let peer = listener.try_clone().expect("the listener");
    let served = tokio::task::spawn_blocking(move || {
        let (mut sender, _) = peer.accept().expect("a sender");
        let mut received = Vec::new();
        sender.read_to_end(&mut received).expect("read");
        sender.write_all(b"k").expect("an answer");
        let (mut receiver, _) = peer.accept().expect("a receiver");
        receiver.write_all(&vec![0; TRANSFER_BYTES]).expect("sent");
        received.len()
    });
    let output = guest.run(&script).await;
    assert_eq!(served.await.expect("served"), TRANSFER_BYTES);
    let (sent, received) = output.split_once(' ').expect("two numbers");
    (sent.parse().expect("seconds"), received.parse().expect("seconds"))
}

#[tokio::test(flavor = "multi_thread")]
async fn bandwidth_is_bounded_both_ways_at_a_start_and_live() {
    let Some(fixture) = ContainerFixture::with_network_config(NetworkConfig::default()) else { return };
    let test_network = TestNetwork::new();
    let listener = test_network.listens(test_network.public, PORT);
    let mut spec = machine_spec();
    spec.bandwidth_mbps = 8;
    let (_, id, guest) = fixture.start_machine(spec).await;
    fixture.remember_interface(id).await;
    let megabits = |transfer_seconds: f64| 16.0 / transfer_seconds;
    for round in ["at the start", "changed"] {
        let full_speed = wait::until(MEASUREMENT_TIMEOUT, || async {
            let (sent, received) = transfer_seconds(&guest, &test_network, &listener).await;
            let (sent, received) = (megabits(sent), megabits(received));
            eprintln!("8 Mbit/s {round}: sent {sent:.2}, received {received:.2} Mbit/s");
            assert!(sent < 9.6 && received < 9.6, "{sent} and {received} Mbit/s {round}");
            (sent >= 6.4 && received >= 6.4).then_some(())
        });
        assert!(full_speed.await.is_some(), "6.4 Mbit/s must be reached {round}");
        let change = |mbps| fixture.engine.resize(id, Change::Bandwidth(mbps));
        assert_eq!(change(0).await.expect("changed"), Effect::Live);
        let unbounded = wait::until(MEASUREMENT_TIMEOUT, || async {
            let (sent, received) = transfer_seconds(&guest, &test_network, &listener).await;
            eprintln!("no bound: sent {:.0}, received {:.0} Mbit/s", megabits(sent), megabits(received));
            (sent < 1.0 && received < 1.0).then_some(())
        });
        assert!(unbounded.await.is_some(), "the limit must be removed {round}");
        assert_eq!(change(8).await.expect("changed"), Effect::Live);
    }
    fixture.engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}
