//! Memory snapshots, forks and launches: consistency of memory and disk, and an undisturbed source.
//! Conformance tests first, then tests over gVisor.

use std::fs;

use futures_util::future::join_all;
use hotdesk::engine::{EngineError, NetworkConfig, Observation};
use uuid::Uuid;

use super::conformance::{EngineFixture, GRACE, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::ContainerFixture;

pub async fn a_fork_goes_on_beside_its_source(fixture: &dyn EngineFixture) {
    let (engine, source, fork) = (fixture.engine(), fixture.spec(), fixture.spec());
    engine.create(&source).await.expect("created");
    let first = Guest::new(&engine.start(&source, &boot(1)).await.expect("started"));
    first.wait_until_ready().await;
    first.store("note", "shared").await;
    assert_eq!(first.count().await, 1);
    if !engine.offers().default().capabilities.memory_snapshot {
        let refused = engine.fork(source.id, &fork).await.expect_err("the engine does not support it");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:#}");
        assert_eq!(first.count().await, 2);
        return engine.destroy(source.id).await.expect("destroyed");
    }
    for _ in 0..2 {
        engine.fork(source.id, &fork).await.expect("forked");
        let observed = engine.observe(fork.id).await.expect("an observation");
        assert!(matches!(observed, Observation::Suspended { .. }), "{observed:?}");
    }
    expect_running(&*engine, source.id, 1).await;
    first.wait_until_ready().await;
    assert_eq!(first.count().await, 2, "the source must continue");
    first.store("first", "of the source").await;
    drop(engine);

    let engine = fixture.reopen();
    for _ in 0..2 {
        Guest::new(&engine.resume(&fork, &boot(5)).await.expect("resumed")).wait_until_ready().await;
    }
    let second = expect_running(&*engine, fork.id, 5).await;
    assert_eq!(second.count().await, 2, "the fork must continue from the same memory");
    assert_eq!(second.load("note").await.as_deref(), Some("shared"));
    assert_eq!(second.load("first").await, None);
    second.store("note", "of the fork").await;
    assert_eq!(first.load("note").await.as_deref(), Some("shared"));
    assert_eq!((first.count().await, second.count().await), (3, 3));

    // The fork suspends, resumes and is destroyed independently.
    engine.suspend(fork.id).await.expect("suspended");
    engine.destroy(source.id).await.expect("destroyed");
    let second = Guest::new(&engine.resume(&fork, &boot(6)).await.expect("resumed"));
    second.wait_until_ready().await;
    assert_eq!(second.count().await, 4);
    engine.destroy(fork.id).await.expect("destroyed");
    for id in [source.id, fork.id] {
        fixture.expect_removed(id);
    }
}

pub async fn a_snapshot_of_memory_is_gone_back_to(fixture: &dyn EngineFixture) {
    let (engine, spec, snapshot) = (fixture.engine(), fixture.spec(), Uuid::new_v4());
    let id = spec.id;
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    guest.store("note", "early").await;
    assert_eq!(guest.count().await, 1);
    if !engine.offers().default().capabilities.memory_snapshot {
        let refused = engine.snapshot(id, snapshot, true).await.expect_err("the engine does not support it");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:#}");
        assert!(engine.snapshots(id).await.expect("a list").is_empty());
        return engine.destroy(id).await.expect("destroyed");
    }
    let created = engine.snapshot(id, snapshot, true).await.expect("kept");
    assert!(created.bytes > 0 && created.memory, "{created:?}");
    guest.wait_until_ready().await;
    assert_eq!(guest.count().await, 2, "the machine must continue");
    guest.store("note", "late").await;
    assert_eq!(engine.snapshot(id, snapshot, true).await.expect("left alone"), created);
    assert_eq!(engine.snapshots(id).await.expect("a list"), [snapshot]);
    engine.rollback(id, snapshot).await.expect_err("a running machine cannot be rolled back");

    // Once after a stop, and once over saved memory of a later time, which the snapshot replaces.
    for (generation, suspended) in [(2, false), (3, true)] {
        if suspended {
            engine.suspend(id).await.expect("suspended");
        } else {
            engine.stop(id, GRACE).await.expect("stopped");
        }
        for _ in 0..2 {
            engine.rollback(id, snapshot).await.expect("rolled back");
            let observed = engine.observe(id).await.expect("an observation");
            assert!(matches!(observed, Observation::Suspended { .. }), "{observed:?}");
        }
        let guest = Guest::new(&engine.resume(&spec, &boot(generation)).await.expect("resumed"));
        guest.wait_until_ready().await;
        assert_eq!(guest.count().await, 2, "memory must be that of the snapshot");
        assert_eq!(guest.load("note").await.as_deref(), Some("early"));
        guest.store("note", "late again").await;
    }
    engine.remove_snapshot(id, snapshot).await.expect("removed");
    assert!(engine.snapshots(id).await.expect("a list").is_empty());
    engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

pub async fn machines_are_launched_from_one_snapshot(fixture: &dyn EngineFixture) {
    let (engine, source, snapshot) = (fixture.engine(), fixture.spec(), Uuid::new_v4());
    let launched = [fixture.spec(), fixture.spec(), fixture.spec()];
    engine.create(&source).await.expect("created");
    let guest = Guest::new(&engine.start(&source, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    guest.store("note", "early").await;
    assert_eq!(guest.count().await, 1);
    if !engine.offers().default().capabilities.memory_snapshot {
        let refused = engine
            .launch(source.id, snapshot, &launched[0])
            .await
            .expect_err("the engine does not support it");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:#}");
        return engine.destroy(source.id).await.expect("destroyed");
    }
    engine.snapshot(source.id, snapshot, true).await.expect("kept");
    guest.wait_until_ready().await;
    guest.store("note", "late").await;
    let refused = engine.launch(source.id, Uuid::new_v4(), &launched[0]).await.expect_err("no such snapshot");
    assert!(matches!(refused, EngineError::Damaged(_)), "{refused:#}");
    engine.destroy(launched[0].id).await.expect("destroyed");
    fixture.expect_removed(launched[0].id);

    // Concurrent launches of a source that continues.
    let created = join_all(launched.iter().map(async |to| {
        for _ in 0..2 {
            engine.launch(source.id, snapshot, to).await.expect("launched");
            let observed = engine.observe(to.id).await.expect("an observation");
            assert!(matches!(observed, Observation::Suspended { .. }), "{observed:?}");
        }
    }));
    created.await;
    expect_running(&*engine, source.id, 1).await;
    assert_eq!((guest.count().await, guest.load("note").await.as_deref()), (2, Some("late")));
    // Launched machines depend neither on the source nor on the snapshot.
    engine.remove_snapshot(source.id, snapshot).await.expect("removed");
    engine.destroy(source.id).await.expect("destroyed");
    drop(engine);

    let engine = fixture.reopen();
    let resumed = launched.iter().map(async |to| {
        let guest = Guest::new(&engine.resume(to, &boot(5)).await.expect("resumed"));
        guest.wait_until_ready().await;
        assert_eq!(guest.count().await, 2, "the launched machine must continue from the same memory");
        assert_eq!(guest.load("note").await.as_deref(), Some("early"));
        guest.store("note", &to.id.to_string()).await;
    });
    join_all(resumed).await;
    for to in &launched {
        let guest = expect_running(&*engine, to.id, 5).await;
        assert_eq!(guest.load("note").await, Some(to.id.to_string()), "each machine must have its own disk");
        assert_eq!(guest.count().await, 3);
    }
    for id in launched.iter().map(|to| to.id).chain([source.id]) {
        engine.destroy(id).await.expect("destroyed");
        fixture.expect_removed(id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_of_memory_is_refused_and_half_of_one_is_removed() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.store("note", "early").await;
    let snapshot = Uuid::new_v4();
    fixture.engine.snapshot(id, snapshot, true).await.expect("kept");
    let folder = fixture.folder(id).join("snapshots");
    let names = || {
        let mut names = crate::harness::host::names_in(&folder);
        names.sort();
        names
    };
    let intact = ["agent", "img", "memory"].map(|suffix| format!("{snapshot}.{suffix}"));
    assert_eq!(names(), intact);
    guest.store("note", "late").await;
    fixture.engine.stop(id, GRACE).await.expect("stopped");

    let pages = folder.join(format!("{snapshot}.memory/pages.img"));
    let before = fs::read(&pages).expect("pages");
    let mut damaged = before.clone();
    damaged[before.len() / 2] ^= 1;
    fs::write(&pages, &damaged).expect("written");
    let refused = fixture.engine.rollback(id, snapshot).await.expect_err("one bit differs");
    assert!(matches!(&refused, EngineError::Damaged(what) if what.contains("pages.img")), "{refused:#}");
    assert_eq!(fixture.engine.observe(id).await.expect("an observation"), Observation::Stopped);
    // A launch copies the memory as it is and resumes nothing.
    let fork = machine_spec();
    fixture.engine.launch(id, snapshot, &fork).await.expect("launched");
    let refused = fixture.engine.resume(&fork, &boot(1)).await.expect_err("one bit differs");
    assert!(matches!(&refused, EngineError::Damaged(what) if what.contains("pages.img")), "{refused:#}");
    fixture.engine.destroy(fork.id).await.expect("destroyed");
    fixture.expect_removed(fork.id);
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(
        guest.load("note").await.as_deref(),
        Some("late"),
        "a refused rollback must not change the disk"
    );

    // The incomplete snapshot of a killed controller is not a snapshot, and the next removal deletes it.
    let incomplete = Uuid::new_v4();
    fs::create_dir(folder.join(format!("{incomplete}.memory"))).expect("a folder");
    for suffix in ["new", "unsealed", "agent"] {
        fs::write(folder.join(format!("{incomplete}.{suffix}")), "half").expect("a leftover");
    }
    assert_eq!(fixture.engine.snapshots(id).await.expect("a list"), [snapshot]);
    fixture.engine.remove_snapshot(id, incomplete).await.expect("removed");
    assert_eq!(names(), intact);
    fs::write(&pages, &before).expect("written");
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    fixture.engine.rollback(id, snapshot).await.expect("the repaired snapshot is valid");
    fixture.engine.remove_snapshot(id, snapshot).await.expect("removed");
    assert!(names().is_empty());
    // The machine's saved memory stays after the snapshot that it came from is removed.
    let guest = Guest::new(&fixture.engine.resume(&spec, &boot(3)).await.expect("resumed"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("early"));
}
