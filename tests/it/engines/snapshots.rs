//! Disk snapshots and rollbacks. Conformance tests first, then files of the container engine.

use std::fs;
use std::os::unix::fs::MetadataExt;

use hotdesk::engine::{EngineError, Observation};
use uuid::Uuid;

use super::conformance::{EngineFixture, GRACE, boot, expect_running, machine_spec};
use super::copies::check_clean;
use super::guest::Guest;
use super::host::ContainerFixture;

pub async fn a_rollback_brings_back_what_a_snapshot_kept(fixture: &dyn EngineFixture) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    let (id, first_snapshot, second_snapshot) = (spec.id, Uuid::new_v4(), Uuid::new_v4());
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    guest.store("note", "early").await;
    if !engine.offers().default().capabilities.copy_while_running {
        engine.stop(id, GRACE).await.expect("stopped");
    }
    let created = engine.snapshot(id, first_snapshot, false).await.expect("kept");
    assert!(created.bytes > 0 && !created.memory, "{created:?}");
    engine.start(&spec, &boot(1)).await.expect("still runs, or starts again");
    guest.wait_until_ready().await;
    guest.store("note", "late").await;
    assert_eq!(engine.snapshot(id, first_snapshot, false).await.expect("left alone"), created);
    engine.rollback(id, first_snapshot).await.expect_err("a running machine cannot be rolled back");
    expect_running(&*engine, id, 1).await;
    engine.stop(id, GRACE).await.expect("stopped");
    engine.snapshot(id, second_snapshot, false).await.expect("kept while stopped");
    let mut both = vec![first_snapshot, second_snapshot];
    both.sort();
    assert_eq!(engine.snapshots(id).await.expect("a list"), both);

    for (generation, snapshot, note) in [(2, first_snapshot, "early"), (3, second_snapshot, "late")] {
        engine.rollback(id, snapshot).await.expect("rolled back");
        assert_eq!(engine.observe(id).await.expect("an observation"), Observation::Stopped);
        let guest = Guest::new(&engine.start(&spec, &boot(generation)).await.expect("started"));
        guest.wait_until_ready().await;
        assert_eq!(guest.load("note").await.as_deref(), Some(note));
        guest.store("note", "changed since").await;
        engine.stop(id, GRACE).await.expect("stopped");
    }

    // A snapshot serves more than once, and a refused rollback leaves the disk as it is.
    engine.rollback(id, first_snapshot).await.expect("rolled back again");
    for _ in 0..2 {
        engine.remove_snapshot(id, first_snapshot).await.expect("removed");
    }
    assert_eq!(engine.snapshots(id).await.expect("a list"), [second_snapshot]);
    engine.rollback(id, first_snapshot).await.expect_err("a removed snapshot cannot be restored");
    let guest = Guest::new(&engine.start(&spec, &boot(4)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("early"));
    engine.destroy(id).await.expect("destroyed");
    assert_eq!(engine.snapshots(id).await.expect("a list"), Vec::<Uuid>::new());
    fixture.expect_removed(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_a_sparse_whole_disk_and_leftovers_go() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.run("head -c 20000000 /dev/urandom > /root/data").await;
    let (folder, snapshot) = (fixture.folder(id).join("snapshots"), Uuid::new_v4());
    let created = fixture.engine.snapshot(id, snapshot, false).await.expect("kept");
    let file = fs::metadata(folder.join(format!("{snapshot}.img"))).expect("a file");
    assert_eq!((file.len(), file.blocks() * 512), (256 << 20, created.bytes));
    assert!((20_000_000..100 << 20).contains(&created.bytes), "{created:?}");
    assert_eq!(file.mode() & 0o777, 0o600);
    check_clean(&folder.join(format!("{snapshot}.img")));

    let refused = fixture.engine.snapshot(id, Uuid::new_v4(), true).await.expect_err("memory");
    assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:#}");
    // The leftover of a killed controller.
    let incomplete = folder.join(format!("{}.new", Uuid::new_v4()));
    fs::write(&incomplete, "half a disk").expect("a leftover");
    assert_eq!(fixture.engine.snapshots(id).await.expect("a list"), [snapshot]);
    fixture.engine.snapshot(id, Uuid::new_v4(), false).await.expect("another");
    assert!(!incomplete.exists());
}
