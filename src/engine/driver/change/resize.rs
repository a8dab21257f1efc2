//! Resize: live where the engine can, else at the next start, which takes every size from the spec.

use crate::driver::capacity::admission;
use crate::driver::{GuestDriver, lifecycle};
use crate::host::bandwidth;
use crate::state::disk;
use crate::state::layout::Folder;
use crate::{Change, Effect, EngineError, EngineResult, Observation};
use hotdesk_base::ids::ComputerId;

/// [`crate::Engine::resize`], under the machine's lock. Blocks.
pub(in crate::driver) fn change<M: GuestDriver>(
    engine: &M,
    folder: &Folder,
    change: Change,
) -> EngineResult<Effect> {
    let runs = match lifecycle::observe(engine, folder.id)? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { .. } => true,
        Observation::Stopped | Observation::Suspended { .. } => false,
    };
    let before = folder.read_record()?;
    let after = before.changed(change)?;
    engine.host().guard.check(folder.id)?;
    if let Change::Disk(_) = change {
        disk::check_reserve(&folder.path)?;
        admission::admit(engine, folder, &after)?;
    } else {
        folder.write_record(&after)?;
    }
    if !runs {
        return Ok(Effect::AtNextStart);
    }
    engine.apply(folder, &before, change).inspect_err(|_| {
        if let Err(error) = folder.write_record(&before) {
            tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "a machine's record has a size that the machine does not have");
        }
    })
}

/// Changes the bandwidth limit of the running guest in `slot`, whose process is `pid`, from `before` to
/// `mbps` megabits a second. On error it is as before, in at least one direction.
pub(crate) fn set_bandwidth(
    id: ComputerId,
    (slot, pid): (u16, u32),
    before: u32,
    mbps: u32,
) -> EngineResult<Effect> {
    bandwidth::limit(slot, pid, mbps).inspect_err(|_| {
        if let Err(error) = bandwidth::limit(slot, pid, before) {
            tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not restore a guest's bandwidth limit; one direction has the new one");
        }
    })?;
    Ok(Effect::Live)
}
