//! How does a machine sleep and wake? What is saved counts once it is whole; the guest ends after that, and memory is used once.

use std::sync::Arc;
use std::time::Duration;

use super::{Machinery, life};
use crate::layout::Folder;
use crate::memory::{self, Saved};
use crate::{Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation, away, lock};
use hotdesk_base::ids::ComputerId;

/// Refuses what only engines do that keep memory.
fn check<M: Machinery>(engine: &M) -> EngineResult<()> {
    if engine.abilities().suspend { Ok(()) } else { Err(EngineError::Unsupported("save memory")) }
}

/// [`crate::Engine::suspend`].
pub(super) async fn suspend<M: Machinery>(engine: &M, id: ComputerId) -> EngineResult<()> {
    check(engine)?;
    let folder = engine.state().folder(id);
    let Some(_held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
    match engine.blocking(move |engine| life::look(engine, id)).await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Stopped => {
            return Err(EngineError::failed("save memory", "the machine does not run"));
        }
        Observation::Suspended { .. } => {}
        Observation::Running { generation, .. } => {
            let plan = folder.clone();
            engine.blocking(move |engine| engine.save(&plan, generation)).await?;
        }
    }
    settle(engine, &folder).await
}

/// Ends a guest whose memory is whole on the disk, and brings its disk to rest.
async fn settle<M: Machinery>(engine: &M, folder: &Folder) -> EngineResult<()> {
    engine.halt(folder, Duration::ZERO).await?;
    let folder = folder.clone();
    let settled = engine.blocking(move |_| match Saved::find(&folder)? {
        Some(saved) if !saved.settled => memory::becomes(&saved.path, &folder.memory()),
        Some(_) | None => Ok(()),
    });
    settled.await
}

/// [`crate::Engine::resume`].
pub(super) async fn resume<M: Machinery>(
    engine: &M,
    spec: &MachineSpec,
    boot: &Boot,
) -> EngineResult<Endpoint> {
    check(engine)?;
    let (id, folder) = (spec.id, engine.state().folder(spec.id));
    let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
    let held = Arc::new(held);
    let plan = folder.clone();
    let seen = engine.blocking(move |engine| {
        engine.take_up(&plan)?;
        life::look(engine, id)
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
    let (plan, of, boot, locked) = (folder.clone(), spec.clone(), boot.clone(), Arc::clone(&held));
    let continued = engine.blocking(move |engine| {
        plan.keep_record(&of)?;
        engine.restore(&plan, &of, &boot, &locked)
    });
    let continued = continued.await;
    if continued.is_err()
        && let Err(left) = engine.undo_restore(&folder).await
    {
        tracing::warn!(computer = %id, error = %left, "a failed resume left something behind");
    }
    continued
}

/// [`crate::Engine::discard_memory`].
pub(super) async fn discard<M: Machinery>(engine: &M, id: ComputerId) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
    let seen = engine.blocking(move |engine| life::look(engine, id)).await?;
    if !matches!(seen, Observation::Suspended { .. }) {
        return Ok(());
    }
    if away::generation(&folder)?.is_some() {
        return Err(EngineError::failed("drop the memory", "its disk is in storage: fetch that first"));
    }
    settle(engine, &folder).await?;
    engine.blocking(move |engine| memory::discard(engine.state(), &folder)).await
}
