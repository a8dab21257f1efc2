//! Saved state that leaves its host and returns in chunks, with missing and repeated steps.

use std::sync::Arc;

use hotdesk::engine::{
    Engine, EngineError, Extents, MachineSpec, Observation, SavedFile, SavedLocation, SavedState,
};
use uuid::Uuid;

use super::conformance::{EngineFixture, boot, expect_running};
use super::guest::Guest;

/// Chunk size; small enough that a file needs several chunks.
const CHUNK_SIZE: usize = 1 << 20;

/// A saved file and the extents that were read from it.
type FileExtents = (SavedFile, Vec<Extents>);

async fn get_saved(engine: &dyn Engine, spec: &MachineSpec) -> SavedState {
    engine.saved_state(spec.id).await.expect("the engine answers").expect("the machine has saved state")
}

async fn read_all(engine: &dyn Engine, spec: &MachineSpec) -> Vec<FileExtents> {
    let mut all = Vec::new();
    for file in get_saved(engine, spec).await.files {
        let (mut chunks, mut from) = (Vec::new(), 0);
        loop {
            let chunk = engine.read_saved(spec.id, &file.name, from, CHUNK_SIZE).await.expect("read");
            assert!(chunk.bytes.len() <= CHUNK_SIZE);
            let Some(end) = chunk.end() else { break };
            from = end;
            chunks.push(chunk);
        }
        all.push((file, chunks));
    }
    all
}

async fn write_all(engine: &dyn Engine, spec: &MachineSpec, read_all: &[FileExtents], with_memory: bool) {
    for (file, chunks) in read_all.iter().filter(|(file, _)| file.disk || with_memory) {
        engine.write_saved(spec.id, file, Extents::default()).await.expect("made");
        for chunk in chunks.iter().rev() {
            engine.write_saved(spec.id, file, chunk.clone()).await.expect("written");
        }
    }
}

pub async fn a_saved_state_leaves_its_host_and_comes_back(fixture: &dyn EngineFixture) {
    let mut engine: Arc<dyn Engine> = fixture.engine();
    if !engine.offers().default().capabilities.evict {
        return;
    }
    let spec = fixture.spec();
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    guest.store("note", "remember me").await;
    assert_eq!(engine.saved_state(spec.id).await.expect("the engine answers"), None);
    assert!(engine.evict(spec.id).await.is_err(), "a running machine cannot be evicted");
    engine.suspend(spec.id).await.expect("suspended");
    let state = get_saved(&*engine, &spec).await;
    assert_eq!((state.generation, state.location), (1, SavedLocation::Local));
    assert!(state.files.iter().any(|file| file.disk) && state.files.iter().any(|file| !file.disk));
    assert!(state.allocated() > 0);
    let all = read_all(&*engine, &spec).await;

    let evicted = SavedState { generation: 1, location: SavedLocation::Evicted, files: Vec::new() };
    for _ in 0..2 {
        engine.evict(spec.id).await.expect("evicted");
        assert_eq!(get_saved(&*engine, &spec).await, evicted);
        engine = fixture.reopen();
        assert_eq!(get_saved(&*engine, &spec).await, evicted);
        let observed = engine.observe(spec.id).await.expect("an observation");
        assert_eq!(observed, Observation::Suspended { generation: 1 });
        assert!(engine.resume(&spec, &boot(2)).await.is_err(), "an evicted machine cannot resume");
        assert!(
            engine.discard_memory(spec.id).await.is_err(),
            "an evicted machine's memory cannot be discarded"
        );
        // A partial state does not count as complete.
        write_all(&*engine, &spec, &all[..1], true).await;
        let refused = engine.finish_fetch(spec.id, true).await;
        assert!(matches!(refused, Ok(()) | Err(EngineError::Damaged(_))), "{refused:?}");
    }
    engine.evict(spec.id).await.expect("evicted");
    write_all(&*engine, &spec, &all, true).await;
    for _ in 0..2 {
        engine.finish_fetch(spec.id, true).await.expect("arrived");
        assert_eq!(get_saved(&*engine, &spec).await.location, SavedLocation::Fetched);
    }
    engine.resume(&spec, &boot(2)).await.expect("resumed");
    let guest = expect_running(&*engine, spec.id, 2).await;
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("remember me"));
    for _ in 0..2 {
        engine.sync_fetched(spec.id).await.expect("converged");
    }

    // With its disk alone the machine is a stopped one.
    engine.suspend(spec.id).await.expect("suspended again");
    let all = read_all(&*engine, &spec).await;
    engine.evict(spec.id).await.expect("evicted");
    write_all(&*engine, &spec, &all, false).await;
    engine.finish_fetch(spec.id, false).await.expect("arrived");
    engine.sync_fetched(spec.id).await.expect("converged");
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
    let guest = Guest::new(&engine.start(&spec, &boot(3)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("remember me"));

    // An evicted machine can be rolled back to a local snapshot without a download, and it cannot be copied.
    let snapshot = Uuid::new_v4();
    guest.store("note", "early").await;
    engine.snapshot(spec.id, snapshot, false).await.expect("kept");
    guest.store("note", "late").await;
    engine.suspend(spec.id).await.expect("suspended");
    let all = read_all(&*engine, &spec).await;
    engine.evict(spec.id).await.expect("evicted");
    assert!(
        engine.snapshot(spec.id, Uuid::new_v4(), false).await.is_err(),
        "an evicted disk has no snapshots"
    );
    assert!(engine.rollback(spec.id, Uuid::new_v4()).await.is_err(), "an unknown snapshot");
    assert_eq!(get_saved(&*engine, &spec).await, SavedState { generation: 3, ..evicted });
    write_all(&*engine, &spec, &all[..1], true).await;
    for _ in 0..2 {
        engine.rollback(spec.id, snapshot).await.expect("rolled back");
        assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
        assert_eq!(engine.saved_state(spec.id).await.expect("the engine answers"), None);
    }
    let guest = Guest::new(&engine.start(&spec, &boot(4)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("early"));

    // An evicted machine is destroyed like any other.
    engine.suspend(spec.id).await.expect("suspended");
    engine.evict(spec.id).await.expect("evicted");
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}
