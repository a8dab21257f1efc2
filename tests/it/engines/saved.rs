//! Does what is saved of a machine leave its host and come back, piece by piece, whatever is left out or done twice?

use std::sync::Arc;

use hotdesk::engine::{Engine, EngineError, Extents, MachineSpec, Observation, Place, SavedFile, SavedState};
use uuid::Uuid;

use super::conformance::{Bench, GRACE, a_machine, boot, runs};
use super::guest::Guest;

/// Small enough that several are needed.
const PIECE: usize = 1 << 20;

/// What was read of one file.
type Carried = (SavedFile, Vec<Extents>);

async fn saved(engine: &dyn Engine, spec: &MachineSpec) -> SavedState {
    engine.saved(spec.id).await.expect("looked at").expect("something is saved")
}

async fn carried(engine: &dyn Engine, spec: &MachineSpec) -> Vec<Carried> {
    let mut all = Vec::new();
    for file in saved(engine, spec).await.files {
        let (mut pieces, mut from) = (Vec::new(), 0);
        loop {
            let piece = engine.read_saved(spec.id, &file.name, from, PIECE).await.expect("read");
            assert!(piece.bytes.len() <= PIECE);
            let Some(end) = piece.end() else { break };
            from = end;
            pieces.push(piece);
        }
        all.push((file, pieces));
    }
    all
}

async fn put_back(engine: &dyn Engine, spec: &MachineSpec, carried: &[Carried], with_memory: bool) {
    for (file, pieces) in carried.iter().filter(|(file, _)| file.disk || with_memory) {
        engine.write_saved(spec.id, file, Extents::default()).await.expect("made");
        for piece in pieces.iter().rev() {
            engine.write_saved(spec.id, file, piece.clone()).await.expect("written");
        }
    }
}

pub async fn a_saved_state_leaves_its_host_and_comes_back(bench: &dyn Bench) {
    let engine: Arc<dyn Engine> = bench.engine();
    if !engine.capabilities().evict {
        return;
    }
    let (engine, spec) = (&*engine, a_machine());
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    guest.keep("note", "remember me").await;
    assert_eq!(engine.saved(spec.id).await.expect("looked at"), None);
    assert!(engine.evict(spec.id).await.is_err(), "it runs");
    engine.suspend(spec.id).await.expect("suspended");
    let state = saved(engine, &spec).await;
    assert_eq!((state.generation, state.place), (1, Place::Here));
    assert!(state.files.iter().any(|file| file.disk) && state.files.iter().any(|file| !file.disk));
    assert!(state.spent() > 0);
    let all = carried(engine, &spec).await;

    let away = SavedState { generation: 1, place: Place::Away, files: Vec::new() };
    for _ in 0..2 {
        engine.evict(spec.id).await.expect("evicted");
        assert_eq!(saved(engine, &spec).await, away);
        assert_eq!(saved(&*bench.reopened(), &spec).await, away);
        let seen = engine.observe(spec.id).await.expect("an observation");
        assert_eq!(seen, Observation::Suspended { generation: 1 });
        assert!(engine.resume(&spec, &boot(2)).await.is_err(), "it is not here");
        assert!(engine.discard_memory(spec.id).await.is_err(), "nor is its disk");
        // Half of it is none of it.
        put_back(engine, &spec, &all[..1], true).await;
        let refused = engine.arrived(spec.id, true).await;
        assert!(matches!(refused, Ok(()) | Err(EngineError::Damaged(_))), "{refused:?}");
    }
    engine.evict(spec.id).await.expect("evicted");
    put_back(engine, &spec, &all, true).await;
    for _ in 0..2 {
        engine.arrived(spec.id, true).await.expect("arrived");
        assert_eq!(saved(engine, &spec).await.place, Place::Arrived);
    }
    engine.resume(&spec, &boot(2)).await.expect("resumed");
    let guest = runs(engine, spec.id, 2).await;
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("remember me"));
    for _ in 0..2 {
        engine.converge(spec.id).await.expect("converged");
    }

    // With its disk alone it is a machine that was stopped.
    engine.suspend(spec.id).await.expect("suspended again");
    let all = carried(engine, &spec).await;
    engine.evict(spec.id).await.expect("evicted");
    put_back(engine, &spec, &all, false).await;
    engine.arrived(spec.id, false).await.expect("arrived");
    engine.converge(spec.id).await.expect("converged");
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
    let guest = Guest::at(&engine.start(&spec, &boot(3)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("remember me"));
    engine.stop(spec.id, GRACE).await.expect("stopped");
    engine.destroy(spec.id).await.expect("destroyed");
    bench.nothing_is_left_of(spec.id);

    // One that is away goes back to a snapshot that is here, with nothing fetched, and is copied nowhere.
    let (spec, kept) = (a_machine(), Uuid::new_v4());
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    guest.keep("note", "early").await;
    engine.snapshot(spec.id, kept, false).await.expect("kept");
    guest.keep("note", "late").await;
    engine.suspend(spec.id).await.expect("suspended");
    let all = carried(engine, &spec).await;
    engine.evict(spec.id).await.expect("evicted");
    assert!(engine.snapshot(spec.id, Uuid::new_v4(), false).await.is_err(), "its disk is not here");
    assert!(engine.rollback(spec.id, Uuid::new_v4()).await.is_err(), "there is none such");
    assert_eq!(saved(engine, &spec).await, away);
    put_back(engine, &spec, &all[..1], true).await;
    for _ in 0..2 {
        engine.rollback(spec.id, kept).await.expect("rolled back");
        assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
        assert_eq!(engine.saved(spec.id).await.expect("looked at"), None);
    }
    let guest = Guest::at(&engine.start(&spec, &boot(2)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("early"));

    // One that is away is destroyed as any other.
    engine.suspend(spec.id).await.expect("suspended");
    engine.evict(spec.id).await.expect("evicted");
    engine.destroy(spec.id).await.expect("destroyed");
    bench.nothing_is_left_of(spec.id);
}
