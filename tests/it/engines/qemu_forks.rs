//! Virtual machines that continue from one memory snapshot: separate identities, and correct clocks.

use std::time::SystemTime;

use futures_util::future::join_all;
use hotdesk::base::ids::ComputerId;
use hotdesk::engine::{EngineError, NetworkConfig};
use uuid::Uuid;

use super::conformance::{EngineFixture, GRACE, boot, machine_spec};
use super::guest::Guest;
use super::qemu::{QemuFixture, flip_one_bit};

/// Prints what identifies a guest by data of its host, one line each.
const IDENTITY: &str = "cat /sys/class/net/eth0/address /etc/machine-id /run/hotdesk/machine-id";

/// Expected MAC address of a machine.
fn mac(id: ComputerId) -> String {
    let bytes: Vec<String> = id.0.as_bytes()[..5].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("52:{}", bytes.join(":"))
}

/// Difference of a guest's clock to this machine's clock in seconds, reduced by the time of the measurement.
async fn clock_offset(guest: &Guest) -> f64 {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let guest_time: f64 = guest.run("date +%s.%N").await.parse().expect("seconds");
    (before - guest_time).max(guest_time - now()).max(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn several_go_on_from_one_memory_each_as_another() {
    let Some(fixture) = QemuFixture::with_config(|config| config.host.network = NetworkConfig::default())
    else {
        return;
    };
    let (engine, spec) = (fixture.engine(), machine_spec());
    let (_, source, guest) = fixture.start_machine(spec).await;
    assert_eq!(guest.count().await, 1);
    guest.store("note", "shared").await;
    let before = guest.run(IDENTITY).await;
    let snapshot = Uuid::new_v4();
    engine.snapshot(source, snapshot, true).await.expect("kept");
    let forks = [machine_spec(), machine_spec(), machine_spec()];
    engine.fork(source, &forks[0]).await.expect("forked");
    assert!(clock_offset(&guest).await < 0.5, "the source's clock must be correct");
    for fork in &forks[1..] {
        engine.launch(source, snapshot, fork).await.expect("launched");
    }
    let began = std::time::Instant::now();
    let boots = [boot(5), boot(5), boot(5)];
    let resumed = join_all(forks.iter().zip(&boots).map(|(fork, second)| engine.resume(fork, second))).await;
    let mut observed = vec![before.clone()];
    for ((fork, second), endpoint) in forks.iter().zip(&boots).zip(resumed) {
        let fresh = Guest::new(&endpoint.expect("resumed"));
        fresh.wait_until_ready().await;
        assert_eq!(fresh.count().await, 2, "the machine must continue from the same memory");
        assert_eq!(fresh.load("note").await.as_deref(), Some("shared"));
        assert_eq!(fresh.run("cat /run/hotdesk/token").await, second.token.reveal());
        let guest_time = fresh.run(IDENTITY).await;
        assert_eq!(guest_time.lines().next(), Some(&*mac(fork.id)), "{guest_time}");
        // QEMU learns the address from the guest and accepts frames for that address alone.
        assert_eq!(fixture.qmp(fork.id, "query-rx-filter")[0]["main-mac"], mac(fork.id));
        assert!(observed.iter().all(|other| {
            other.lines().zip(guest_time.lines()).all(|(addresses, own)| addresses != own)
                && guest_time.lines().count() == 3
        }));
        assert!(
            fresh.run("ip route").await.starts_with("default via 192.0.0.1"),
            "its default route must remain"
        );
        observed.push(guest_time);
    }
    println!("{} virtual machines from one memory in {:?}", forks.len(), began.elapsed());
    assert_eq!(
        (guest.count().await, guest.run(IDENTITY).await),
        (2, before),
        "the source's identity must be unchanged"
    );

    // The new identity is permanent, also in further copies.
    let [one, two, _] = &forks;
    engine.suspend(one.id).await.expect("suspended");
    let third = boot(6);
    let fresh = Guest::new(&engine.resume(one, &third).await.expect("resumed"));
    fresh.wait_until_ready().await;
    assert_eq!(fresh.run(IDENTITY).await, observed[1]);
    assert_eq!(fresh.run("cat /run/hotdesk/token").await, third.token.reveal());
    engine.stop(two.id, GRACE).await.expect("stopped");
    let fresh = Guest::new(&engine.start(two, &boot(6)).await.expect("started"));
    fresh.wait_until_ready().await;
    assert_eq!(fresh.run(IDENTITY).await, observed[2], "the identity must be that of a normal boot");
    for id in forks.iter().map(|fork| fork.id).chain([source]) {
        engine.destroy(id).await.expect("destroyed");
        fixture.expect_removed(id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_of_memory_is_refused_and_nothing_is_given_up_for_it() {
    let Some(fixture) = QemuFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.store("note", "early").await;
    let snapshot = Uuid::new_v4();
    let snapshot_info = fixture.engine.snapshot(id, snapshot, true).await.expect("kept");
    assert!(snapshot_info.memory && snapshot_info.bytes > 0, "{snapshot_info:?}");
    assert!(clock_offset(&guest).await < 0.5, "its clock must include the pause");
    guest.store("note", "late").await;
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    flip_one_bit(&fixture.folder(id).join("snapshots").join(format!("{snapshot}.memory")));
    let refused = fixture.engine.rollback(id, snapshot).await.expect_err("one bit differs");
    assert!(matches!(refused, EngineError::Damaged(_)), "{refused:#}");
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(
        guest.load("note").await.as_deref(),
        Some("late"),
        "a refused rollback must not change the disk"
    );
}
