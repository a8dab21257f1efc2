//! Clones, forks, snapshots, launches from snapshots, and rollback.

use std::time::Duration;

use uuid::Uuid;

use crate::driver::capacity::admission;
use crate::driver::snapshot_files::{self, SnapshotFiles};
use crate::driver::{GuestDriver, lifecycle};
use crate::host::command::host_error;
use crate::host::files::private_folder;
use crate::state::disk::copy::{self, link_or_copy};
use crate::state::layout::{Folder, Record};
use crate::state::machine_lock::MachineLock;
use crate::state::memory::{self, MemoryManifest, SavedMemory};
use crate::state::{disk, evicted, raw_disk};
use crate::{EngineError, EngineResult, MachineSpec, Observation, Snapshot};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::phase::PhaseTimer;
use hotdesk_domain::computer::isolation::Isolation;

/// [`crate::Engine::copy_disk`]. The copy grows when it starts.
pub(super) async fn copy<M: GuestDriver>(engine: &M, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
    let spec = to.clone();
    from_another(engine, from, to.id, move |engine, source, target| {
        if target.is_whole()? {
            return Ok(());
        }
        check_here(source)?;
        begin(engine, source, target, &spec)?;
        let _phase = PhaseTimer::begin(target.id, "copy");
        engine.copy_disk(source, &target.fresh_disk(), &target.disk())
    })
    .await
}

/// [`crate::Engine::fork`].
pub(super) async fn fork<M: GuestDriver>(engine: &M, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
    check(engine, from, Some(to.isolation)).await?;
    let spec = to.clone();
    from_another(engine, from, to.id, move |engine, source, target| {
        if target.is_whole()? && SavedMemory::find(target)?.is_some() {
            return Ok(());
        }
        let generation = running_since(engine, from)?;
        begin(engine, source, target, &spec)?;
        let fresh = memory::create_fresh(target)?;
        link_or_copy(&source.agent(), &target.agent())?;
        let manifest = engine.save_with_disk(source, &fresh, &target.fresh_disk(), &target.disk())?;
        memory::seal(&fresh, generation, |parts| MemoryManifest { parts, ..manifest })?;
        memory::move_to(&fresh, &target.memory())
    })
    .await
}

/// [`crate::Engine::launch`]. Locks both machines, so that the snapshot stays until it is linked. Several
/// launches of one snapshot run at once: all creates of a size begin from the same.
pub(super) async fn launch<M: GuestDriver>(
    engine: &M,
    from: ComputerId,
    snapshot: Uuid,
    to: &MachineSpec,
) -> EngineResult<()> {
    check(engine, from, Some(to.isolation)).await?;
    let mut spec = to.clone();
    let lock = MachineLock::acquire_to_read(&engine.state().folder(from)).await?;
    with_source(engine, lock, (from, to.id), move |engine, source, target| {
        if target.is_whole()? && SavedMemory::find(target)?.is_some() {
            return Ok(());
        }
        // A machine keeps its layers, so its snapshots have the same.
        source.read_record()?.check_layers(&spec)?;
        let files = SnapshotFiles::of(source, snapshot);
        // The disk may be larger than the row says: a resize whose answer was lost grew it.
        spec.disk_bytes = spec.disk_bytes.max(files.disk_bytes_with_memory()?);
        disk::check_reserve(&target.path)?;
        raw_disk::inherit(source, target)?;
        admission::admit(engine, target, &Record::of(&spec))?;
        let _phase = PhaseTimer::begin(spec.id, "files");
        copy::copy_disk(&files.disk, &target.fresh_disk(), &target.disk())?;
        files.link_memory_into(target)
    })
    .await
}

/// [`crate::Engine::snapshot`].
pub(super) async fn take_snapshot<M: GuestDriver>(
    engine: &M,
    id: ComputerId,
    snapshot: Uuid,
    with_memory: bool,
) -> EngineResult<Snapshot> {
    if with_memory {
        check(engine, id, None).await?;
    }
    lifecycle::with_lock(engine, id, move |engine, folder| {
        check_here(folder)?;
        engine.host().guard.check(id)?;
        let files = SnapshotFiles::of(folder, snapshot);
        if !files.is_whole()? {
            disk::check_reserve(&folder.path)?;
            snapshot_files::prepare_folder(folder)?;
            let made = if with_memory {
                snapshot_with_memory(engine, folder, &files)
            } else {
                engine.copy_disk(folder, &files.fresh, &files.disk)
            };
            if made.is_err()
                && let Err(error) = snapshot_files::remove_unfinished(folder)
            {
                tracing::warn!(computer = %id, error = format_args!("{error:#}"), "an incomplete snapshot stays until the next one");
            }
            made?;
        }
        files.describe()
    })
    .await
}

/// Saves memory and disk of one moment.
fn snapshot_with_memory<M: GuestDriver>(
    engine: &M,
    folder: &Folder,
    files: &SnapshotFiles,
) -> EngineResult<()> {
    let generation = running_since(engine, folder.id)?;
    private_folder(&files.memory).map_err(host_error("save the memory", &files.memory))?;
    link_or_copy(&folder.agent(), &files.agent)?;
    let manifest = engine.save_with_disk(folder, &files.memory, &files.fresh, &files.unsealed)?;
    memory::seal(&files.memory, generation, |parts| MemoryManifest { parts, ..manifest })?;
    memory::move_to(&files.unsealed, &files.disk)
}

/// [`crate::Engine::rollback`]. An evicted state is forgotten last, once disk and memory are in place.
pub(super) async fn roll_back<M: GuestDriver>(
    engine: &M,
    id: ComputerId,
    snapshot: Uuid,
) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let (files, plan) = (SnapshotFiles::of(&folder, snapshot), folder.clone());
    engine.blocking(move |_| files.check(&plan)).await?;
    let Some(guard) = MachineLock::acquire(&folder).await? else { return Err(EngineError::Absent) };
    match engine.blocking(move |engine| lifecycle::observe(engine, id)).await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { generation, .. } => {
            let detail = format!("it runs (generation {generation}): stop it first");
            return Err(EngineError::failed("roll the disk back", detail));
        }
        Observation::Stopped | Observation::Suspended { .. } => engine.halt(&folder, Duration::ZERO).await?,
    }
    engine
        .blocking(move |engine| {
            let _guard = guard;
            let files = SnapshotFiles::of(&folder, snapshot);
            disk::check_reserve(&folder.path)?;
            copy::copy_disk_during(&files.disk, &folder.fresh_disk(), &folder.disk(), |copy| {
                let copied = copy(None)?;
                copied.sync_all().map_err(host_error("copy the disk", &folder.fresh_disk()))?;
                // Memory of another disk must not continue with this one. It is dropped only now, so that a
                // failed copy leaves the machine as it was.
                memory::discard(engine.state(), &folder)?;
                Ok(copied)
            })?;
            files.link_memory_into(&folder)?;
            evicted::forget(&folder)
        })
        .await
}

/// [`crate::Engine::remove_snapshot`].
pub(super) async fn remove_snapshot<M: GuestDriver>(
    engine: &M,
    id: ComputerId,
    snapshot: Uuid,
) -> EngineResult<()> {
    match lifecycle::with_lock(engine, id, move |_, folder| snapshot_files::remove(folder, snapshot)).await {
        // The snapshots went with their machine.
        Err(EngineError::Absent) => Ok(()),
        removed => removed,
    }
}

/// Refuses a machine whose isolation cannot copy memory, and a copy with memory that has another isolation.
async fn check<M: GuestDriver>(engine: &M, id: ComputerId, copy: Option<Isolation>) -> EngineResult<()> {
    let source = engine.state().folder(id);
    let offer = engine.blocking(move |engine| engine.host().offer_of(&source).copied()).await?;
    if !offer.capabilities.memory_snapshot {
        return Err(EngineError::Unsupported("copy memory"));
    }
    match copy {
        Some(copy) if copy != offer.isolation => {
            let [from, to] = [offer.isolation, copy].map(Isolation::name);
            let detail = format!("isolation {to} cannot read the memory of {from}");
            Err(EngineError::failed("copy memory", detail))
        }
        Some(_) | None => Ok(()),
    }
}

/// Makes a machine from another under both locks, the source's first. No other call locks a target that is
/// being made, so this cannot deadlock.
async fn from_another<M: GuestDriver>(
    engine: &M,
    from: ComputerId,
    to: ComputerId,
    make: impl FnOnce(&M, &Folder, &Folder) -> EngineResult<()> + Send + 'static,
) -> EngineResult<()> {
    let lock = MachineLock::acquire(&engine.state().folder(from)).await?;
    with_source(engine, lock, (from, to), make).await
}

/// Makes a machine from another one, whose lock is held if it is there.
async fn with_source<M: GuestDriver>(
    engine: &M,
    lock: Option<MachineLock>,
    (from, to): (ComputerId, ComputerId),
    make: impl FnOnce(&M, &Folder, &Folder) -> EngineResult<()> + Send + 'static,
) -> EngineResult<()> {
    let (source, target) = (engine.state().folder(from), engine.state().folder(to));
    let Some(source_guard) = lock else { return Err(EngineError::Absent) };
    let target_guard = MachineLock::acquire_new(&target).await?;
    engine
        .blocking(move |engine| {
            let _guard = (source_guard, target_guard);
            make(engine, &source, &target)
        })
        .await
}

/// Refuses a machine without a disk to copy. An evicted machine may have a partly fetched one.
fn check_here(folder: &Folder) -> EngineResult<()> {
    if evicted::generation(folder)?.is_some() {
        return Err(EngineError::failed("copy the disk", "the machine is evicted"));
    }
    if folder.is_whole()? { Ok(()) } else { Err(EngineError::Absent) }
}

/// Writes the record of a copy, and the mark of its disk, after the checks of size and free space.
fn begin<M: GuestDriver>(
    engine: &M,
    source: &Folder,
    target: &Folder,
    spec: &MachineSpec,
) -> EngineResult<()> {
    engine.host().guard.check(source.id)?;
    let record = source.read_record()?;
    record.check_layers(spec)?;
    check_size(record.disk_bytes, spec)?;
    disk::check_reserve(&target.path)?;
    raw_disk::inherit(source, target)?;
    admission::admit(engine, target, &Record::of(spec))
}

/// Refuses a copy smaller than `least` bytes.
fn check_size(least: u64, to: &MachineSpec) -> EngineResult<()> {
    if to.disk_bytes >= least {
        return Ok(());
    }
    Err(EngineError::failed("make the copy's disk", format!("{} bytes is less than {least}", to.disk_bytes)))
}

/// The generation of a running machine.
fn running_since<M: GuestDriver>(engine: &M, id: ComputerId) -> EngineResult<u64> {
    match lifecycle::observe(engine, id)? {
        Observation::Absent => Err(EngineError::Absent),
        Observation::Running { generation, .. } => Ok(generation),
        Observation::Stopped | Observation::Suspended { .. } => {
            Err(EngineError::failed("copy memory", "the machine does not run"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partly_fetched_disk_of_an_evicted_machine_is_not_copied() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        assert!(matches!(check_here(&folder), Err(EngineError::Absent)));
        std::fs::write(folder.disk(), "fetched").unwrap();
        check_here(&folder).unwrap();
        // The host lost power before the disk was synced.
        std::fs::write(folder.away(), r#"{"generation": 7, "arrived_in": "an earlier boot"}"#).unwrap();
        assert!(matches!(check_here(&folder), Err(EngineError::Failed { .. })));
    }
}
