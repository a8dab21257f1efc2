//! Suspend, resume, and removal of saved memory. The guest ends only after its saved memory is complete;
//! memory is used once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::driver::{GuestDriver, MachineBoot, lifecycle};
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use crate::state::memory::{self, MemoryManifest, SavedMemory};
use crate::state::{disk, evicted, wake_reserve};
use crate::{Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::phase::PhaseTimer;
use hotdesk_domain::computer::isolation::Isolation;

/// Refuses a machine whose isolation cannot save memory.
async fn check<M: GuestDriver>(engine: &M, id: ComputerId) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let offer = engine.blocking(move |engine| engine.host().offer_of(&folder).copied()).await?;
    if offer.capabilities.suspend { Ok(()) } else { Err(EngineError::Unsupported("save memory")) }
}

/// Refuses to resume a machine as another isolation: only that which saved the memory can read it.
fn check_isolation<M: GuestDriver>(engine: &M, folder: &Folder, spec: &MachineSpec) -> EngineResult<()> {
    let saved = engine.host().offer_of(folder)?.isolation;
    if saved == spec.isolation {
        return Ok(());
    }
    let [saved, wanted] = [saved, spec.isolation].map(Isolation::name);
    let detail = format!("isolation {saved} saved it, and {wanted} cannot read it: discard the memory first");
    Err(EngineError::failed("continue from saved memory", detail))
}

/// [`crate::Engine::suspend`].
pub(super) async fn suspend<M: GuestDriver>(engine: &M, id: ComputerId) -> EngineResult<()> {
    check(engine, id).await?;
    engine.host().guard.check(id)?;
    let folder = engine.state().folder(id);
    let Some(_guard) = MachineLock::acquire(&folder).await? else { return Err(EngineError::Absent) };
    let begun = Instant::now();
    match engine.blocking(move |engine| lifecycle::observe(engine, id)).await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Stopped => {
            return Err(EngineError::failed("save memory", "the machine does not run"));
        }
        Observation::Suspended { .. } => {}
        Observation::Running { generation, .. } => {
            let plan = folder.clone();
            let saved = engine.blocking(move |engine| {
                disk::check_reserve(&plan.path)?;
                engine.save(&plan, generation)
            });
            saved.await?;
        }
    }
    settle(engine, &folder).await?;
    tracing::info!(computer = %id, ms = begun.elapsed().as_secs_f64() * 1e3, "suspended a machine");
    Ok(())
}

/// Ends a guest whose saved memory is complete, and syncs its disk.
async fn settle<M: GuestDriver>(engine: &M, folder: &Folder) -> EngineResult<()> {
    let _phase = PhaseTimer::begin(folder.id, "end");
    engine.halt(folder, Duration::ZERO).await?;
    let folder = folder.clone();
    let settled = engine.blocking(move |_| match SavedMemory::find(&folder)? {
        Some(saved) if !saved.settled => memory::move_to(&saved.path, &folder.memory()),
        Some(_) | None => Ok(()),
    });
    settled.await
}

/// [`crate::Engine::resume`].
pub(super) async fn resume<M: GuestDriver>(
    engine: &M,
    spec: &MachineSpec,
    boot: &Boot,
) -> EngineResult<Endpoint> {
    check(engine, spec.id).await?;
    let (id, folder) = (spec.id, engine.state().folder(spec.id));
    let Some(guard) = MachineLock::acquire(&folder).await? else { return Err(EngineError::Absent) };
    let guard = Arc::new(guard);
    let plan = folder.clone();
    let seen = engine.blocking(move |engine| {
        engine.recover_resume(&plan)?;
        lifecycle::observe(engine, id)
    });
    match seen.await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { generation, endpoint, .. } if generation == boot.generation => {
            return Ok(endpoint);
        }
        Observation::Running { .. } | Observation::Stopped => {
            return Err(EngineError::failed("continue the machine", "it has no saved memory"));
        }
        Observation::Suspended { .. } => settle(engine, &folder).await?,
    }
    let (plan, of, boot, locked) = (folder.clone(), spec.clone(), boot.clone(), Arc::clone(&guard));
    let continued = engine.blocking(move |engine| {
        // A resume gives the space of its saved memory back, so it needs no free space beyond this.
        let _lent = wake_reserve::lend(engine.state());
        check_isolation(engine, &plan, &of)?;
        plan.update_record(&of)?;
        let (saved, manifest) = find_memory(engine, &plan)?;
        let machine = MachineBoot { folder: &plan, spec: &of, boot: &boot, lock: &locked };
        engine.restore(&machine, &saved, manifest)
    });
    let continued = continued.await;
    if continued.is_err()
        && let Err(left) = engine.undo_restore(&folder).await
    {
        tracing::warn!(computer = %id, error = format_args!("{left:#}"), "a failed resume left parts of the boot");
    }
    continued
}

/// The saved memory of a machine, for the version of the engine's program that saved it. It is not verified
/// yet.
fn find_memory<M: GuestDriver>(engine: &M, folder: &Folder) -> EngineResult<(SavedMemory, MemoryManifest)> {
    const STEP: &str = "continue from saved memory";
    let Some(saved) = SavedMemory::find(folder)? else {
        return Err(EngineError::failed(STEP, "there is none"));
    };
    let manifest = saved.manifest()?;
    let version = engine.version(folder)?;
    if version != manifest.runtime {
        let detail = format!("it was saved by {}, and this host has {version}", manifest.runtime);
        return Err(EngineError::failed(STEP, detail));
    }
    Ok((saved, manifest))
}

/// [`crate::Engine::discard_memory`].
pub(super) async fn discard<M: GuestDriver>(engine: &M, id: ComputerId) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let Some(_guard) = MachineLock::acquire(&folder).await? else { return Ok(()) };
    let seen = engine.blocking(move |engine| lifecycle::observe(engine, id)).await?;
    if !matches!(seen, Observation::Suspended { .. }) {
        return Ok(());
    }
    if evicted::generation(&folder)?.is_some() {
        return Err(EngineError::failed("drop the memory", "the machine is evicted: fetch its disk first"));
    }
    settle(engine, &folder).await?;
    engine.blocking(move |engine| memory::discard(engine.state(), &folder)).await
}
