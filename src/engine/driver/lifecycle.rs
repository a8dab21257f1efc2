//! How does a machine come, start, stop and go?

use std::sync::Arc;
use std::time::Duration;

use super::Machinery;
use crate::layout::{Folder, Record};
use crate::{
    Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation, away, disk, lock, memory, trash,
};
use hotdesk_base::ids::ComputerId;

/// [`crate::Engine::observe`]. Blocks.
pub(super) fn look<M: Machinery>(engine: &M, id: ComputerId) -> EngineResult<Observation> {
    let folder = engine.state().folder(id);
    if let Some(generation) = away::generation(&folder)? {
        return Ok(Observation::Suspended { generation });
    }
    if !folder.is_whole()? {
        return Ok(Observation::Absent);
    }
    if let Some(saved) = memory::Saved::find(&folder)? {
        return Ok(Observation::Suspended { generation: saved.generation });
    }
    engine.seen(&folder)
}

/// Runs a step that blocks on a machine that has a folder, while nobody else works on it.
pub(super) async fn held<M: Machinery, T: Send + 'static>(
    engine: &M,
    id: ComputerId,
    step: impl FnOnce(&M, &Folder) -> EngineResult<T> + Send + 'static,
) -> EngineResult<T> {
    let folder = engine.state().folder(id);
    let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
    engine
        .blocking(move |engine| {
            let _held = held;
            step(engine, &folder)
        })
        .await
}

/// [`crate::Engine::create`].
pub(super) async fn create<M: Machinery>(engine: &M, spec: &MachineSpec) -> EngineResult<()> {
    let folder = engine.state().folder(spec.id);
    let held = lock::new_machine(&folder).await?;
    let spec = spec.clone();
    engine
        .blocking(move |_| {
            let _held = held;
            if folder.is_whole()? {
                return Ok(());
            }
            disk::check_reserve(&folder.path)?;
            folder.write_record(&Record::of(&spec))?;
            disk::make(&folder, spec.disk_bytes)
        })
        .await
}

/// [`crate::Engine::start`].
pub(super) async fn start<M: Machinery>(
    engine: &M,
    spec: &MachineSpec,
    boot: &Boot,
) -> EngineResult<Endpoint> {
    const STEP: &str = "start the machine";
    let (id, folder) = (spec.id, engine.state().folder(spec.id));
    let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
    let held = Arc::new(held);
    match engine.blocking(move |engine| look(engine, id)).await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { generation, endpoint, .. } if generation == boot.generation => {
            return Ok(endpoint);
        }
        Observation::Running { generation, .. } => {
            let detail = format!("it runs since boot {generation}, not {}", boot.generation);
            return Err(EngineError::failed(STEP, detail));
        }
        Observation::Suspended { .. } => {
            return Err(EngineError::failed(STEP, "its memory is saved: resume it, or discard that first"));
        }
        Observation::Stopped => engine.sweep(&folder).await?,
    }
    let (plan, of, boot, locked) = (folder.clone(), spec.clone(), boot.clone(), Arc::clone(&held));
    let started = engine.blocking(move |engine| {
        plan.keep_record(&of)?;
        engine.boot(&plan, &of, &boot, &locked)
    });
    let started = started.await;
    if started.is_err()
        && let Err(left) = engine.sweep(&folder).await
    {
        tracing::warn!(computer = %id, error = %left, "a failed start left something behind");
    }
    started
}

/// [`crate::Engine::stop`].
pub(super) async fn stop<M: Machinery>(engine: &M, id: ComputerId, grace: Duration) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
    engine.halt(&folder, grace).await
}

/// [`crate::Engine::destroy`].
pub(super) async fn destroy<M: Machinery>(engine: &M, id: ComputerId) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    if let Some(_held) = lock::machine(&folder).await? {
        engine.halt(&folder, Duration::ZERO).await?;
        engine.blocking(move |engine| trash::folder(engine.state(), &folder)).await?;
    }
    engine.blocking(move |engine| trash::of(engine.state(), id)).await
}
