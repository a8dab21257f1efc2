//! How does a machine get another's disk and memory, and keep its own of an earlier moment? Clones, forks, snapshots, rollback.

use std::time::Duration;

use uuid::Uuid;

use super::kept::{self, Kept, link};
use super::{Machinery, life};
use crate::command::host_error;
use crate::layout::{Folder, Record, private_folder};
use crate::memory::{self, Manifest, Saved};
use crate::{EngineError, EngineResult, MachineSpec, Observation, Snapshot, away, copy, disk, lock};
use hotdesk_base::ids::ComputerId;

/// [`crate::Engine::copy_disk`]. The copy grows when it starts.
pub(super) async fn copy<M: Machinery>(engine: &M, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
    let spec = to.clone();
    from_another(engine, from, to.id, move |engine, source, target| {
        if target.is_whole()? {
            return Ok(());
        }
        check_here(source)?;
        begin(source, target, &spec)?;
        engine.copy_disk(source, &target.fresh_disk(), &target.disk())
    })
    .await
}

/// [`crate::Engine::fork`].
pub(super) async fn fork<M: Machinery>(engine: &M, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
    check(engine)?;
    let spec = to.clone();
    from_another(engine, from, to.id, move |engine, source, target| {
        if target.is_whole()? && Saved::find(target)?.is_some() {
            return Ok(());
        }
        let generation = running_since(engine, from)?;
        begin(source, target, &spec)?;
        let fresh = memory::fresh(target)?;
        link(&source.agent(), &target.agent())?;
        let manifest = engine.moment(source, &fresh, &target.fresh_disk(), &target.disk())?;
        memory::seal(&fresh, generation, |parts| Manifest { parts, ..manifest })?;
        memory::becomes(&fresh, &target.memory())
    })
    .await
}

/// [`crate::Engine::launch`]. Holds both machines, so that the snapshot stays until it is linked.
pub(super) async fn launch<M: Machinery>(
    engine: &M,
    from: ComputerId,
    snapshot: Uuid,
    to: &MachineSpec,
) -> EngineResult<()> {
    check(engine)?;
    let mut spec = to.clone();
    from_another(engine, from, to.id, move |_, source, target| {
        if target.is_whole()? && Saved::find(target)?.is_some() {
            return Ok(());
        }
        let kept = Kept::of(source, snapshot);
        // A disk that grew without an answer is longer than its computer's row says.
        spec.disk_bytes = spec.disk_bytes.max(kept.disk_bytes_with_memory()?);
        disk::check_reserve(&target.path)?;
        target.write_record(&Record::of(&spec))?;
        copy::disk(&kept.disk, &target.fresh_disk(), &target.disk())?;
        kept.give_to(target)
    })
    .await
}

/// [`crate::Engine::snapshot`].
pub(super) async fn keep<M: Machinery>(
    engine: &M,
    id: ComputerId,
    snapshot: Uuid,
    with_memory: bool,
) -> EngineResult<Snapshot> {
    if with_memory {
        check(engine)?;
    }
    life::held(engine, id, move |engine, folder| {
        check_here(folder)?;
        let kept = Kept::of(folder, snapshot);
        if !kept.is_whole()? {
            disk::check_reserve(&folder.path)?;
            kept::room(folder)?;
            let made = if with_memory {
                keep_moment(engine, folder, &kept)
            } else {
                engine.copy_disk(folder, &kept.fresh, &kept.disk)
            };
            if made.is_err()
                && let Err(error) = kept::remove_unfinished(folder)
            {
                tracing::warn!(computer = %id, %error, "half a snapshot stays until the next one");
            }
            made?;
        }
        kept.tell()
    })
    .await
}

/// Keeps memory and disk of one moment.
fn keep_moment<M: Machinery>(engine: &M, folder: &Folder, kept: &Kept) -> EngineResult<()> {
    let generation = running_since(engine, folder.id)?;
    private_folder(&kept.memory).map_err(host_error("keep the memory", &kept.memory))?;
    link(&folder.agent(), &kept.agent)?;
    let manifest = engine.moment(folder, &kept.memory, &kept.fresh, &kept.unsealed)?;
    memory::seal(&kept.memory, generation, |parts| Manifest { parts, ..manifest })?;
    memory::becomes(&kept.unsealed, &kept.disk)
}

/// [`crate::Engine::rollback`]. Until all of it is in place, what is in storage is there still.
pub(super) async fn roll_back<M: Machinery>(engine: &M, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
    let folder = engine.state().folder(id);
    let (kept, plan) = (Kept::of(&folder, snapshot), folder.clone());
    engine.blocking(move |_| kept.check(&plan)).await?;
    let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
    match engine.blocking(move |engine| life::look(engine, id)).await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { generation, .. } => {
            let detail = format!("it runs since boot {generation}");
            return Err(EngineError::failed("roll the disk back", detail));
        }
        Observation::Stopped | Observation::Suspended { .. } => engine.halt(&folder, Duration::ZERO).await?,
    }
    engine
        .blocking(move |engine| {
            let _held = held;
            let kept = Kept::of(&folder, snapshot);
            disk::check_reserve(&folder.path)?;
            copy::disk_during(&kept.disk, &folder.fresh_disk(), &folder.disk(), |copy| {
                let copied = copy(None)?;
                copied.sync_all().map_err(host_error("copy the disk", &folder.fresh_disk()))?;
                // Memory of another disk must not go on with this one. Until now it is what the machine has.
                memory::discard(engine.state(), &folder)?;
                Ok(copied)
            })?;
            kept.give_to(&folder)?;
            away::forget(&folder)
        })
        .await
}

/// [`crate::Engine::remove_snapshot`].
pub(super) async fn forget<M: Machinery>(engine: &M, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
    match life::held(engine, id, move |_, folder| kept::remove(folder, snapshot)).await {
        // With its machine it went too.
        Err(EngineError::Absent) => Ok(()),
        removed => removed,
    }
}

/// Refuses what only engines do that copy memory.
fn check<M: Machinery>(engine: &M) -> EngineResult<()> {
    if engine.abilities().memory_snapshot { Ok(()) } else { Err(EngineError::Unsupported("copy memory")) }
}

/// Makes a machine out of another. Holds both, the source first; nobody else asks for a target that is being made, so that no
/// two calls wait for each other.
async fn from_another<M: Machinery>(
    engine: &M,
    from: ComputerId,
    to: ComputerId,
    make: impl FnOnce(&M, &Folder, &Folder) -> EngineResult<()> + Send + 'static,
) -> EngineResult<()> {
    let (source, target) = (engine.state().folder(from), engine.state().folder(to));
    let Some(source_held) = lock::machine(&source).await? else { return Err(EngineError::Absent) };
    let target_held = lock::new_machine(&target).await?;
    engine
        .blocking(move |engine| {
            let _held = (source_held, target_held);
            make(engine, &source, &target)
        })
        .await
}

/// Refuses a machine whose disk is not there to be copied. One that is in storage may have left half of one behind.
fn check_here(folder: &Folder) -> EngineResult<()> {
    if away::generation(folder)?.is_some() {
        return Err(EngineError::failed("copy the disk", "it is in storage"));
    }
    if folder.is_whole()? { Ok(()) } else { Err(EngineError::Absent) }
}

/// What comes first of a copy of a machine: its record.
fn begin(source: &Folder, target: &Folder, spec: &MachineSpec) -> EngineResult<()> {
    check_size(source.read_record()?.disk_bytes, spec)?;
    disk::check_reserve(&target.path)?;
    target.write_record(&Record::of(spec))
}

/// Refuses a copy that is smaller than so many bytes.
fn check_size(least: u64, to: &MachineSpec) -> EngineResult<()> {
    if to.disk_bytes >= least {
        return Ok(());
    }
    Err(EngineError::failed("make the copy's disk", format!("{} bytes is less than {least}", to.disk_bytes)))
}

/// Since which boot a machine runs whose memory is copied.
fn running_since<M: Machinery>(engine: &M, id: ComputerId) -> EngineResult<u64> {
    match life::look(engine, id)? {
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
    fn half_a_disk_of_a_machine_that_is_in_storage_is_not_copied() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        assert!(matches!(check_here(&folder), Err(EngineError::Absent)));
        std::fs::write(folder.disk(), "fetched").unwrap();
        check_here(&folder).unwrap();
        // Its host lost its power before the disk was whole there.
        std::fs::write(folder.away(), r#"{"generation": 7, "arrived_in": "an earlier boot"}"#).unwrap();
        assert!(matches!(check_here(&folder), Err(EngineError::Failed { .. })));
    }
}
