//! Are memory and disk of one moment copied, and does what they are copied from go on? What every engine promises first, then
//! what gVisor does on a host.

use std::fs;

use futures_util::future::join_all;
use hotdesk::engine::container::NetworkConfig;
use hotdesk::engine::{Engine, EngineError, Observation};
use uuid::Uuid;

use super::conformance::{Bench, GRACE, a_machine, boot, runs};
use super::guest::Guest;
use super::host::Containers;

pub async fn a_fork_goes_on_beside_its_source(bench: &dyn Bench) {
    let (engine, source, fork) = (bench.engine(), a_machine(), a_machine());
    engine.create(&source).await.expect("created");
    let first = Guest::at(&engine.start(&source, &boot(1)).await.expect("started"));
    first.answers().await;
    first.keep("note", "shared").await;
    assert_eq!(first.count().await, 1);
    if !engine.capabilities().memory_snapshot {
        let refused = engine.fork(source.id, &fork).await.expect_err("not what it can");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
        assert_eq!(first.count().await, 2);
        return engine.destroy(source.id).await.expect("destroyed");
    }
    for _ in 0..2 {
        engine.fork(source.id, &fork).await.expect("forked");
        let seen = engine.observe(fork.id).await.expect("seen");
        assert!(matches!(seen, Observation::Suspended { .. }), "{seen:?}");
    }
    runs(&*engine, source.id, 1).await;
    first.answers().await;
    assert_eq!(first.count().await, 2, "the source goes on");
    first.keep("first", "of the source").await;
    drop(engine);

    let engine = bench.reopened();
    for _ in 0..2 {
        Guest::at(&engine.resume(&fork, &boot(5)).await.expect("resumed")).answers().await;
    }
    let second = runs(&*engine, fork.id, 5).await;
    assert_eq!(second.count().await, 2, "it goes on from the same memory");
    assert_eq!(second.kept("note").await.as_deref(), Some("shared"));
    assert_eq!(second.kept("first").await, None);
    second.keep("note", "of the fork").await;
    assert_eq!(first.kept("note").await.as_deref(), Some("shared"));
    assert_eq!((first.count().await, second.count().await), (3, 3));

    // Each sleeps, wakes and goes by itself.
    engine.suspend(fork.id).await.expect("suspended");
    engine.destroy(source.id).await.expect("destroyed");
    let second = Guest::at(&engine.resume(&fork, &boot(6)).await.expect("resumed"));
    second.answers().await;
    assert_eq!(second.count().await, 4);
    engine.destroy(fork.id).await.expect("destroyed");
    for id in [source.id, fork.id] {
        bench.nothing_is_left_of(id);
    }
}

pub async fn a_snapshot_of_memory_is_gone_back_to(bench: &dyn Bench) {
    let (engine, spec, snapshot) = (bench.engine(), a_machine(), Uuid::new_v4());
    let id = spec.id;
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    guest.keep("note", "early").await;
    assert_eq!(guest.count().await, 1);
    if !engine.capabilities().memory_snapshot {
        let refused = engine.snapshot(id, snapshot, true).await.expect_err("not what it can");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
        assert!(engine.snapshots(id).await.expect("a list").is_empty());
        return engine.destroy(id).await.expect("destroyed");
    }
    let made = engine.snapshot(id, snapshot, true).await.expect("kept");
    assert!(made.bytes > 0 && made.memory, "{made:?}");
    guest.answers().await;
    assert_eq!(guest.count().await, 2, "it goes on");
    guest.keep("note", "late").await;
    assert_eq!(engine.snapshot(id, snapshot, true).await.expect("left alone"), made);
    assert_eq!(engine.snapshots(id).await.expect("a list"), [snapshot]);
    engine.rollback(id, snapshot).await.expect_err("it runs");

    // Stopped, and then with memory of a later time: what was kept takes its place.
    for (generation, sleeps) in [(2, false), (3, true)] {
        if sleeps {
            engine.suspend(id).await.expect("suspended");
        } else {
            engine.stop(id, GRACE).await.expect("stopped");
        }
        for _ in 0..2 {
            engine.rollback(id, snapshot).await.expect("rolled back");
            let seen = engine.observe(id).await.expect("seen");
            assert!(matches!(seen, Observation::Suspended { .. }), "{seen:?}");
        }
        let guest = Guest::at(&engine.resume(&spec, &boot(generation)).await.expect("resumed"));
        guest.answers().await;
        assert_eq!(guest.count().await, 2, "memory is that of then");
        assert_eq!(guest.kept("note").await.as_deref(), Some("early"));
        guest.keep("note", "late again").await;
    }
    engine.remove_snapshot(id, snapshot).await.expect("removed");
    assert!(engine.snapshots(id).await.expect("a list").is_empty());
    engine.destroy(id).await.expect("destroyed");
    bench.nothing_is_left_of(id);
}

pub async fn machines_are_launched_from_one_snapshot(bench: &dyn Bench) {
    let (engine, source, snapshot) = (bench.engine(), a_machine(), Uuid::new_v4());
    let launched = [a_machine(), a_machine(), a_machine()];
    engine.create(&source).await.expect("created");
    let guest = Guest::at(&engine.start(&source, &boot(1)).await.expect("started"));
    guest.answers().await;
    guest.keep("note", "early").await;
    assert_eq!(guest.count().await, 1);
    if !engine.capabilities().memory_snapshot {
        let refused = engine.launch(source.id, snapshot, &launched[0]).await.expect_err("not what it can");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
        return engine.destroy(source.id).await.expect("destroyed");
    }
    engine.snapshot(source.id, snapshot, true).await.expect("kept");
    guest.answers().await;
    guest.keep("note", "late").await;
    let nothing = engine.launch(source.id, Uuid::new_v4(), &launched[0]).await.expect_err("no such snapshot");
    assert!(matches!(nothing, EngineError::Damaged(_)), "{nothing}");
    engine.destroy(launched[0].id).await.expect("destroyed");
    bench.nothing_is_left_of(launched[0].id);

    // All at once, of a source that goes on.
    let made = join_all(launched.iter().map(async |to| {
        for _ in 0..2 {
            engine.launch(source.id, snapshot, to).await.expect("launched");
            let seen = engine.observe(to.id).await.expect("seen");
            assert!(matches!(seen, Observation::Suspended { .. }), "{seen:?}");
        }
    }));
    made.await;
    runs(&*engine, source.id, 1).await;
    assert_eq!((guest.count().await, guest.kept("note").await.as_deref()), (2, Some("late")));
    // What was launched needs neither its source nor the snapshot.
    engine.remove_snapshot(source.id, snapshot).await.expect("removed");
    engine.destroy(source.id).await.expect("destroyed");
    drop(engine);

    let engine = bench.reopened();
    let woken = launched.iter().map(async |to| {
        let guest = Guest::at(&engine.resume(to, &boot(5)).await.expect("resumed"));
        guest.answers().await;
        assert_eq!(guest.count().await, 2, "it goes on from the same memory");
        assert_eq!(guest.kept("note").await.as_deref(), Some("early"));
        guest.keep("note", &to.id.to_string()).await;
    });
    join_all(woken).await;
    for to in &launched {
        let guest = runs(&*engine, to.id, 5).await;
        assert_eq!(guest.kept("note").await, Some(to.id.to_string()), "each has a disk of its own");
        assert_eq!(guest.count().await, 3);
    }
    for id in launched.iter().map(|to| to.id).chain([source.id]) {
        engine.destroy(id).await.expect("destroyed");
        bench.nothing_is_left_of(id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_of_memory_is_refused_and_half_of_one_is_removed() {
    let Some(bench) = Containers::gvisor(NetworkConfig::disabled()) else { return };
    let (spec, id, guest) = bench.running(a_machine()).await;
    guest.keep("note", "early").await;
    let snapshot = Uuid::new_v4();
    bench.engine.snapshot(id, snapshot, true).await.expect("kept");
    let folder = bench.folder(id).join("snapshots");
    let names = || {
        let mut names = crate::harness::host::names_in(&folder);
        names.sort();
        names
    };
    let whole = ["agent", "img", "memory"].map(|suffix| format!("{snapshot}.{suffix}"));
    assert_eq!(names(), whole);
    guest.keep("note", "late").await;
    bench.engine.stop(id, GRACE).await.expect("stopped");

    let pages = folder.join(format!("{snapshot}.memory/pages.img"));
    let before = fs::read(&pages).expect("pages");
    let mut damaged = before.clone();
    damaged[before.len() / 2] ^= 1;
    fs::write(&pages, &damaged).expect("written");
    let refused = bench.engine.rollback(id, snapshot).await.expect_err("one bit differs");
    assert!(matches!(&refused, EngineError::Damaged(what) if what.contains("pages.img")), "{refused}");
    assert_eq!(bench.engine.observe(id).await.expect("seen"), Observation::Stopped);
    // A launch takes it as it is, and wakes nothing.
    let fork = a_machine();
    bench.engine.launch(id, snapshot, &fork).await.expect("launched");
    let refused = bench.engine.resume(&fork, &boot(1)).await.expect_err("one bit differs");
    assert!(matches!(&refused, EngineError::Damaged(what) if what.contains("pages.img")), "{refused}");
    bench.engine.destroy(fork.id).await.expect("destroyed");
    bench.nothing_is_left_of(fork.id);
    let guest = Guest::at(&bench.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("late"), "as before the refusal");

    // What a killed controller left of another is no snapshot, and goes with the next.
    let half = Uuid::new_v4();
    fs::create_dir(folder.join(format!("{half}.memory"))).expect("a folder");
    for suffix in ["new", "unsealed", "agent"] {
        fs::write(folder.join(format!("{half}.{suffix}")), "half").expect("a leftover");
    }
    assert_eq!(bench.engine.snapshots(id).await.expect("a list"), [snapshot]);
    bench.engine.remove_snapshot(id, half).await.expect("removed");
    assert_eq!(names(), whole);
    fs::write(&pages, &before).expect("written");
    bench.engine.stop(id, GRACE).await.expect("stopped");
    bench.engine.rollback(id, snapshot).await.expect("whole again");
    bench.engine.remove_snapshot(id, snapshot).await.expect("removed");
    assert!(names().is_empty());
    // The machine's own memory stays though the snapshot that it came from is gone.
    let guest = Guest::at(&bench.engine.resume(&spec, &boot(3)).await.expect("resumed"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("early"));
}
