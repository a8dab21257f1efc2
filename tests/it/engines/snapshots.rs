//! Does a snapshot keep what the disk was, and does a rollback bring it back? What every engine promises first, then what
//! containers leave on a host.

use std::fs;
use std::os::unix::fs::MetadataExt;

use hotdesk::engine::{Engine, EngineError, Observation};
use uuid::Uuid;

use super::conformance::{Bench, GRACE, a_machine, boot, runs};
use super::copies::is_clean;
use super::guest::Guest;
use super::host::Containers;

pub async fn a_rollback_brings_back_what_a_snapshot_kept(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    let (id, early, late) = (spec.id, Uuid::new_v4(), Uuid::new_v4());
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    guest.keep("note", "early").await;
    if !engine.capabilities().copy_while_running {
        engine.stop(id, GRACE).await.expect("stopped");
    }
    let made = engine.snapshot(id, early, false).await.expect("kept");
    assert!(made.bytes > 0 && !made.memory, "{made:?}");
    engine.start(&spec, &boot(1)).await.expect("runs on, or runs again");
    guest.answers().await;
    guest.keep("note", "late").await;
    assert_eq!(engine.snapshot(id, early, false).await.expect("left alone"), made);
    engine.rollback(id, early).await.expect_err("it runs");
    runs(&*engine, id, 1).await;
    engine.stop(id, GRACE).await.expect("stopped");
    engine.snapshot(id, late, false).await.expect("kept while stopped");
    let mut both = vec![early, late];
    both.sort();
    assert_eq!(engine.snapshots(id).await.expect("a list"), both);

    for (generation, snapshot, note) in [(2, early, "early"), (3, late, "late"), (4, early, "early")] {
        engine.rollback(id, snapshot).await.expect("rolled back");
        assert_eq!(engine.observe(id).await.expect("seen"), Observation::Stopped);
        let guest = Guest::at(&engine.start(&spec, &boot(generation)).await.expect("started"));
        guest.answers().await;
        assert_eq!(guest.kept("note").await.as_deref(), Some(note));
        guest.keep("note", "changed since").await;
        engine.stop(id, GRACE).await.expect("stopped");
    }

    for _ in 0..2 {
        engine.remove_snapshot(id, early).await.expect("removed");
    }
    assert_eq!(engine.snapshots(id).await.expect("a list"), [late]);
    engine.rollback(id, early).await.expect_err("it is gone");
    let guest = Guest::at(&engine.start(&spec, &boot(5)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("changed since"), "as before the refusal");
    engine.destroy(id).await.expect("destroyed");
    assert_eq!(engine.snapshots(id).await.expect("a list"), Vec::<Uuid>::new());
    bench.nothing_is_left_of(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_a_sparse_whole_disk_and_leftovers_go() {
    let Some(bench) = Containers::lonely() else { return };
    let (_, id, guest) = bench.running(a_machine()).await;
    guest.says("head -c 20000000 /dev/urandom > /root/data").await;
    let (folder, snapshot) = (bench.folder(id).join("snapshots"), Uuid::new_v4());
    let made = bench.engine.snapshot(id, snapshot, false).await.expect("kept");
    let file = fs::metadata(folder.join(format!("{snapshot}.img"))).expect("a file");
    assert_eq!((file.len(), file.blocks() * 512), (256 << 20, made.bytes));
    assert!((20_000_000..100 << 20).contains(&made.bytes), "{made:?}");
    assert_eq!(file.mode() & 0o777, 0o600);
    is_clean(&folder.join(format!("{snapshot}.img")));

    let refused = bench.engine.snapshot(id, Uuid::new_v4(), true).await.expect_err("memory");
    assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
    // As a controller that was killed leaves it.
    let half = folder.join(format!("{}.new", Uuid::new_v4()));
    fs::write(&half, "half a disk").expect("a leftover");
    assert_eq!(bench.engine.snapshots(id).await.expect("a list"), [snapshot]);
    bench.engine.snapshot(id, Uuid::new_v4(), false).await.expect("another");
    assert!(!half.exists());
}
