//! Does a machine's hardware change when the engine says that it has? What every engine promises first, then what the
//! kernel and the guest of a container see.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::container::NetworkConfig;
use hotdesk::engine::{Change, Effect, Engine, EngineError};

use super::conformance::{Bench, GRACE, a_machine, boot, runs};
use super::guest::Guest;
use super::host::Containers;
use super::limits::setting;
use crate::harness::world::World;

pub async fn hardware_changes_when_the_engine_says(bench: &dyn Bench) {
    let (engine, mut spec) = (bench.engine(), a_machine());
    let id = spec.id;
    let refused = engine.resize(id, Change::Cpu(2.0)).await.expect_err("nothing to change");
    assert!(matches!(refused, EngineError::Absent), "{refused}");
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    guest.keep("note", "before").await;

    let able = engine.capabilities();
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
    runs(&*engine, id, 1).await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("before"));

    engine.stop(id, GRACE).await.expect("stopped");
    for change in [Change::Cpu(1.0), Change::Memory(512 << 20), Change::Disk(600 << 20), Change::Bandwidth(0)]
    {
        assert_eq!(engine.resize(id, change).await.expect("changed"), Effect::AtNextStart, "{change:?}");
    }
    spec.disk_bytes = 600 << 20;
    let guest = Guest::at(&engine.start(&spec, &boot(2)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("before"));
    engine.destroy(id).await.expect("destroyed");
    bench.nothing_is_left_of(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_told_at_once_and_the_guest_gets_it() {
    let Some(bench) = Containers::lonely() else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    let name = id.to_string();
    let quota = || setting(&name, ["cpu.max", "cpu.cfs_quota_us"]);
    let memory = || setting(&name, ["memory.max", "memory.limit_in_bytes"]);
    // CPU time that a busy second gets, in hundredths.
    let busy = "python3 -c 'import time
end, begun = time.monotonic() + 1, time.process_time()
while time.monotonic() < end: pass
print(round(100 * (time.process_time() - begun)))'";
    bench.engine.resize(id, Change::Cpu(0.2)).await.expect("changed");
    assert_eq!(quota().split(' ').next(), Some("20000"));
    let got: u32 = guest.says(busy).await.parse().expect("hundredths");
    assert!(got <= 30, "{got} of 100 with a fifth of a core");
    bench.engine.resize(id, Change::Cpu(2.0)).await.expect("changed");
    assert_eq!(quota().split(' ').next(), Some("200000"));

    bench.engine.resize(id, Change::Memory(1 << 30)).await.expect("raised");
    assert_eq!(memory(), (1 << 30).to_string());
    let hold = "setsid python3 -c 'import time; held = bytearray(b\"x\") * (300 << 20)
open(\"/root/held\", \"w\").close()
time.sleep(100)' >/dev/null 2>&1 & until test -e /root/held; do sleep 0.05; done; echo $!";
    let holder = guest.says(hold).await;
    let refused = bench.engine.resize(id, Change::Memory(200 << 20)).await.expect_err("in use");
    assert!(refused.to_string().contains("uses more than 200 MiB"), "{refused}");
    assert_eq!(memory(), (1 << 30).to_string(), "as before");
    // A process that ends lets go of its memory after `status` stopped to tell of it, and before it reads as a zombie.
    guest
        .says(&format!(
            "kill {holder}; while grep -qs '^State:.[^ZX]' /proc/{holder}/status; do sleep 0.05; done; echo gone"
        ))
        .await;
    bench.engine.resize(id, Change::Memory(200 << 20)).await.expect("lowered");
    assert_eq!(memory(), (200 << 20).to_string());
    let both = setting(&name, ["memory.swap.max", "memory.memsw.limit_in_bytes"]);
    assert!(both == "0" || both == memory(), "{both}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_grows_live_where_the_kernel_lets_us_and_else_at_the_next_start() {
    let Some(bench) = Containers::lonely() else { return };
    let (mut spec, id, guest) = bench.running(a_machine()).await;
    let df = "df --output=size / | tail -1 | tr -d ' '";
    let size = |text: String| text.parse::<u64>().expect("KiB");
    let before = size(guest.says(df).await);
    let effect = bench.engine.resize(id, Change::Disk(1 << 30)).await.expect("changed");
    let now = size(guest.says(df).await);
    match effect {
        Effect::Live => assert!(now > 3 * before, "{before} KiB became {now}"),
        Effect::AtNextStart => {
            eprintln!("this host lets nobody grow a mounted file system (CAP_SYS_RESOURCE)");
            assert_eq!(now, before);
        }
    }
    guest.keep("note", "still here").await;
    bench.engine.stop(id, GRACE).await.expect("stopped");
    spec.disk_bytes = 1 << 30;
    let guest = Guest::at(&bench.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.answers().await;
    assert!(size(guest.says(df).await) > 3 * before);
    assert_eq!(guest.kept("note").await.as_deref(), Some("still here"));
}

const PORT: u16 = 8080;
/// Bytes of each measurement: two seconds at 8 Mbit/s.
const SENT: usize = 2_000_000;
/// Until a measurement that nothing held up: what stalls on a busy machine is slower, and never faster, than its bound.
const UNDISTURBED: Duration = Duration::from_secs(60);

/// Seconds that a guest needs to send [`SENT`] bytes into the world and to receive as many from it.
async fn seconds(guest: &Guest, world: &World, listener: &TcpListener) -> (f64, f64) {
    let script = format!(
        "python3 -c 'import socket, time
def spent(act):
    begun = time.monotonic()
    with socket.create_connection((\"{}\", {PORT}), 30) as link:
        act(link); return time.monotonic() - begun
def send(link):
    link.sendall(bytes({SENT})); link.shutdown(socket.SHUT_WR); link.recv(1)
def receive(link):
    while link.recv(65536): pass
print(spent(send), spent(receive))'",
        world.public
    );
    let peer = listener.try_clone().expect("the listener");
    let served = tokio::task::spawn_blocking(move || {
        let (mut sender, _) = peer.accept().expect("a sender");
        let mut received = Vec::new();
        sender.read_to_end(&mut received).expect("read");
        sender.write_all(b"k").expect("an answer");
        let (mut receiver, _) = peer.accept().expect("a receiver");
        receiver.write_all(&vec![0; SENT]).expect("sent");
        received.len()
    });
    let told = guest.says(&script).await;
    assert_eq!(served.await.expect("served"), SENT);
    let (sent, received) = told.split_once(' ').expect("two numbers");
    (sent.parse().expect("seconds"), received.parse().expect("seconds"))
}

#[tokio::test(flavor = "multi_thread")]
async fn bandwidth_is_bounded_both_ways_at_a_start_and_live() {
    let Some(bench) = Containers::with(NetworkConfig::default()) else { return };
    let world = World::new();
    let listener = world.listens(world.public, PORT);
    let mut spec = a_machine();
    spec.bandwidth_mbps = 8;
    let (_, id, guest) = bench.running(spec).await;
    bench.remember_interface(id).await;
    let megabits = |seconds: f64| 16.0 / seconds;
    for round in ["at the start", "changed"] {
        let all_of_it = wait::until(UNDISTURBED, || async {
            let (sent, received) = seconds(&guest, &world, &listener).await;
            let (sent, received) = (megabits(sent), megabits(received));
            eprintln!("8 Mbit/s {round}: sent {sent:.2}, received {received:.2} Mbit/s");
            assert!(sent < 9.6 && received < 9.6, "{sent} and {received} Mbit/s {round}");
            (sent >= 6.4 && received >= 6.4).then_some(())
        });
        assert!(all_of_it.await.is_some(), "never 6.4 Mbit/s {round}");
        let change = |mbps| bench.engine.resize(id, Change::Bandwidth(mbps));
        assert_eq!(change(0).await.expect("changed"), Effect::Live);
        let unbounded = wait::until(UNDISTURBED, || async {
            let (sent, received) = seconds(&guest, &world, &listener).await;
            eprintln!("no bound: sent {:.0}, received {:.0} Mbit/s", megabits(sent), megabits(received));
            (sent < 1.0 && received < 1.0).then_some(())
        });
        assert!(unbounded.await.is_some(), "bounded still after {round}");
        assert_eq!(change(8).await.expect("changed"), Effect::Live);
    }
    bench.engine.destroy(id).await.expect("destroyed");
    bench.nothing_is_left_of(id);
}
