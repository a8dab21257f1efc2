//! Do virtual machines that go on from one memory become machines of their own, side by side, and do those that stood still for it
//! know what time it is?

use std::time::SystemTime;

use futures_util::future::join_all;
use hotdesk::base::ids::ComputerId;
use hotdesk::engine::{Engine, EngineError, NetworkConfig};
use uuid::Uuid;

use super::conformance::{Bench, GRACE, a_machine, boot};
use super::guest::Guest;
use super::qemu::{Machines, damage_one_bit};

/// Who a guest is by what its host gave it, a line each.
const GIVEN: &str = "cat /sys/class/net/eth0/address /etc/machine-id /run/hotdesk/machine-id";

/// Who a machine is to be.
fn mac(id: ComputerId) -> String {
    let bytes: Vec<String> = id.0.as_bytes()[..5].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("52:{}", bytes.join(":"))
}

/// By how many seconds a guest's clock differs from this machine's, as far as asking for it tells.
async fn clock_is_off(guest: &Guest) -> f64 {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let told: f64 = guest.says("date +%s.%N").await.parse().expect("seconds");
    (before - told).max(told - now()).max(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn several_go_on_from_one_memory_each_as_another() {
    let Some(bench) = Machines::with(|config| config.network = NetworkConfig::default()) else { return };
    let (engine, spec) = (bench.engine(), a_machine());
    let (_, source, guest) = bench.running(spec).await;
    assert_eq!(guest.count().await, 1);
    guest.keep("note", "shared").await;
    let before = guest.says(GIVEN).await;
    let snapshot = Uuid::new_v4();
    engine.snapshot(source, snapshot, true).await.expect("kept");
    let forks = [a_machine(), a_machine(), a_machine()];
    engine.fork(source, &forks[0]).await.expect("forked");
    assert!(clock_is_off(&guest).await < 0.5, "the source knows what time it is");
    for fork in &forks[1..] {
        engine.launch(source, snapshot, fork).await.expect("launched");
    }
    let began = std::time::Instant::now();
    let boots = [boot(5), boot(5), boot(5)];
    let resumed = join_all(forks.iter().zip(&boots).map(|(fork, second)| engine.resume(fork, second))).await;
    let mut seen = vec![before.clone()];
    for ((fork, second), endpoint) in forks.iter().zip(&boots).zip(resumed) {
        let fresh = Guest::at(&endpoint.expect("resumed"));
        fresh.answers().await;
        assert_eq!(fresh.count().await, 2, "it goes on from the same memory");
        assert_eq!(fresh.kept("note").await.as_deref(), Some("shared"));
        assert_eq!(fresh.says("cat /run/hotdesk/token").await, second.token.reveal());
        let told = fresh.says(GIVEN).await;
        assert_eq!(told.lines().next(), Some(&*mac(fork.id)), "{told}");
        // QEMU hears of it from the guest, and takes frames for that address alone.
        assert_eq!(bench.asks_qemu(fork.id, "query-rx-filter")[0]["main-mac"], mac(fork.id));
        assert!(seen.iter().all(|other| {
            other.lines().zip(told.lines()).all(|(theirs, own)| theirs != own) && told.lines().count() == 3
        }));
        assert!(fresh.says("ip route").await.starts_with("default via 192.0.0.1"), "its way out stays");
        seen.push(told);
    }
    println!("{} virtual machines from one memory in {:?}", forks.len(), began.elapsed());
    assert_eq!((guest.count().await, guest.says(GIVEN).await), (2, before), "the source is who it was");

    // What it has become it stays, and gives on.
    let [one, two, _] = &forks;
    engine.suspend(one.id).await.expect("suspended");
    let third = boot(6);
    let fresh = Guest::at(&engine.resume(one, &third).await.expect("resumed"));
    fresh.answers().await;
    assert_eq!(fresh.says(GIVEN).await, seen[1]);
    assert_eq!(fresh.says("cat /run/hotdesk/token").await, third.token.reveal());
    engine.stop(two.id, GRACE).await.expect("stopped");
    let fresh = Guest::at(&engine.start(two, &boot(6)).await.expect("started"));
    fresh.answers().await;
    assert_eq!(fresh.says(GIVEN).await, seen[2], "as at a boot of its own");
    for id in forks.iter().map(|fork| fork.id).chain([source]) {
        engine.destroy(id).await.expect("destroyed");
        bench.nothing_is_left_of(id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_of_memory_is_refused_and_nothing_is_given_up_for_it() {
    let Some(bench) = Machines::lonely() else { return };
    let (spec, id, guest) = bench.running(a_machine()).await;
    guest.keep("note", "early").await;
    let snapshot = Uuid::new_v4();
    let kept = bench.engine.snapshot(id, snapshot, true).await.expect("kept");
    assert!(kept.memory && kept.bytes > 0, "{kept:?}");
    assert!(clock_is_off(&guest).await < 0.5, "it knows how long it stood");
    guest.keep("note", "late").await;
    bench.engine.stop(id, GRACE).await.expect("stopped");
    damage_one_bit(&bench.folder(id).join("snapshots").join(format!("{snapshot}.memory")));
    let refused = bench.engine.rollback(id, snapshot).await.expect_err("one bit differs");
    assert!(matches!(refused, EngineError::Damaged(_)), "{refused}");
    let guest = Guest::at(&bench.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("late"), "as before the refusal");
}
