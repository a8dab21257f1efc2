//! Create, observe, start, stop and destroy.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::driver::capacity::admission;
use crate::driver::snapshot_files::SnapshotFiles;
use crate::driver::{GuestDriver, MachineBoot, encryption, layers};
use crate::state::layout::{Folder, Record};
use crate::state::machine_lock::MachineLock;
use crate::state::{disk, evicted, memory, trash};
use crate::{Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::phase::PhaseTimer;

/// [`crate::Engine::observe`]. Blocks.
pub(super) fn observe<M: GuestDriver>(engine: &M, id: ComputerId) -> EngineResult<Observation> {
    let folder = engine.state().folder(id);
    if let Some(generation) = evicted::generation(&folder)? {
        return Ok(Observation::Suspended { generation });
    }
    if !folder.is_whole()? {
        return Ok(Observation::Absent);
    }
    if let Some(saved) = memory::SavedMemory::find(&folder)? {
        return Ok(Observation::Suspended { generation: saved.generation });
    }
    engine.observe_guest(&folder)
}

/// Runs a blocking step under the machine's lock.
///
/// # Errors
/// `Absent` when the machine has no folder; the step's own.
pub(super) async fn with_lock<M: GuestDriver, T: Send + 'static>(
    engine: &M,
    id: ComputerId,
    step: impl FnOnce(&M, &Folder) -> EngineResult<T> + Send + 'static,
) -> EngineResult<T> {
    let folder = engine.state().folder(id);
    let Some(guard) = MachineLock::acquire(&folder).await? else { return Err(EngineError::Absent) };
    engine
        .blocking(move |engine| {
            let _guard = guard;
            step(engine, &folder)
        })
        .await
}

/// [`crate::Engine::create`].
pub(super) async fn create<M: GuestDriver>(engine: &M, spec: &MachineSpec) -> EngineResult<()> {
    let folder = engine.state().folder(spec.id);
    let guard = MachineLock::acquire_new(&folder).await?;
    let spec = spec.clone();
    engine
        .blocking(move |engine| {
            let _guard = guard;
            if folder.is_whole()? {
                return Ok(());
            }
            disk::check_reserve(&folder.path)?;
            admission::admit(engine, &folder, &Record::of(&spec))?;
            let _phase = PhaseTimer::begin(spec.id, "files");
            disk::prepared::copy_to(&folder, spec.disk_bytes, engine.state(), &engine.host().disks)
        })
        .await
}

/// [`crate::Engine::check_capacity`]. Blocks.
pub(super) fn check_capacity<M: GuestDriver>(
    engine: &M,
    id: ComputerId,
    rollback_to: Option<Uuid>,
) -> EngineResult<()> {
    disk::check_reserve(&engine.state().machines())?;
    let folder = engine.state().folder(id);
    rollback_to.map_or(Ok(()), |snapshot| SnapshotFiles::of(&folder, snapshot).check_copy(&folder))
}

/// [`crate::Engine::start`]. The engine of the earlier isolation sweeps before the record has the new one.
pub(super) async fn start<M: GuestDriver>(
    engine: &M,
    spec: &MachineSpec,
    boot: &Boot,
) -> EngineResult<Endpoint> {
    const STEP: &str = "start the machine";
    let (id, folder) = (spec.id, engine.state().folder(spec.id));
    let Some(guard) = MachineLock::acquire(&folder).await? else { return Err(EngineError::Absent) };
    let guard = Arc::new(guard);
    match engine.blocking(move |engine| observe(engine, id)).await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { generation, endpoint, .. } if generation == boot.generation => {
            return Ok(endpoint);
        }
        Observation::Running { generation, .. } => {
            let detail = format!("it runs generation {generation}, not {}", boot.generation);
            return Err(EngineError::failed(STEP, detail));
        }
        Observation::Suspended { .. } => {
            return Err(EngineError::failed(
                STEP,
                "its memory is saved: resume the machine, or discard its memory first",
            ));
        }
        Observation::Stopped => engine.sweep(&folder).await?,
    }
    let (plan, of, boot, locked) = (folder.clone(), spec.clone(), boot.clone(), Arc::clone(&guard));
    let started = engine.blocking(move |engine| {
        plan.update_record(&of)?;
        engine.boot(&MachineBoot { folder: &plan, spec: &of, boot: &boot, lock: &locked })
    });
    let started = started.await;
    if started.is_err()
        && let Err(left) = engine.sweep(&folder).await
    {
        tracing::warn!(computer = %id, error = format_args!("{left:#}"), "a failed start left parts of the boot");
    }
    started
}

/// [`crate::Engine::stop`].
pub(super) async fn stop<M: GuestDriver>(engine: &M, id: ComputerId, grace: Duration) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let Some(_guard) = MachineLock::acquire(&folder).await? else { return Ok(()) };
    let _phase = PhaseTimer::begin(id, "stop");
    let ending = engine.host().guard.begin_end(id);
    let grace = if ending.was_frozen { Duration::ZERO } else { grace };
    engine.halt(&folder, grace).await
}

/// [`crate::Engine::wait_stopped`]. A frozen machine cannot end by itself, and a runtime cannot say what it does.
pub(super) async fn wait_stopped<M: GuestDriver>(engine: &M, id: ComputerId) -> EngineResult<()> {
    let guard = &engine.host().guard;
    loop {
        guard.until_thawed(id).await;
        let ended = engine.wait_ended(id).await;
        // It may have been frozen while the runtime was asked.
        if !guard.is_frozen(id) {
            return ended;
        }
    }
}

/// [`crate::Engine::destroy`].
pub(super) async fn destroy<M: GuestDriver>(engine: &M, id: ComputerId) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let sealed = folder.clone();
    let is_sealed = engine.blocking(move |engine| encryption::is_sealed(engine, &sealed)).await?;
    if is_sealed {
        engine.blocking(move |engine| trash::folder(engine.state(), &folder)).await?;
    } else if let Some(_guard) = MachineLock::acquire(&folder).await? {
        let _phase = PhaseTimer::begin(id, "destroy");
        let _ending = engine.host().guard.begin_end(id);
        engine.halt(&folder, Duration::ZERO).await?;
        engine
            .blocking(move |engine| {
                layers::remove_unfinished_of(engine.state(), id)?;
                trash::folder(engine.state(), &folder)
            })
            .await?;
    }
    engine.blocking(move |engine| trash::of(engine.state(), id)).await
}
