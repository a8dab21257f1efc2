//! How does a machine get another's disk, and keep its own of an earlier moment? Clones, snapshots, rollback.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use uuid::Uuid;

use super::command::host_error;
use super::gvisor::Kept;
use super::layout::{Folder, Record, private_folder, remove_if_there, sync_folder};
use super::{ContainerEngine, copy, disk, lock, trash};
use crate::base::ids::ComputerId;
use crate::engine::{EngineError, EngineResult, MachineSpec, Observation, Snapshot};

/// What a snapshot's file is called behind its id, and what while it is being made.
pub(super) const WHOLE: &str = "img";
/// What its memory's folder is called, where it has memory.
pub(super) const MEMORY: &str = "memory";
const FRESH: &str = "new";

impl ContainerEngine {
    /// [`crate::engine::Engine::copy_disk`]. Holds both machines, the source first; nobody else asks for a target that is
    /// being made, so that no two calls wait for each other. The copy grows when it starts.
    pub(super) async fn copy(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        const STEP: &str = "make the copy's folder";
        let (source, target) = (self.inner.state.folder(from), self.inner.state.folder(to.id));
        let Some(source_held) = lock::machine(&source).await? else { return Err(EngineError::Absent) };
        private_folder(&target.path).map_err(host_error(STEP, &target.path))?;
        let Some(target_held) = lock::machine(&target).await? else {
            return Err(EngineError::failed(STEP, "it was destroyed while being made"));
        };
        let spec = to.clone();
        self.blocking(move |_| {
            let _held = (source_held, target_held);
            if target.is_whole()? {
                return Ok(());
            }
            if !source.is_whole()? {
                return Err(EngineError::Absent);
            }
            check_size(&source, &spec)?;
            disk::check_reserve(&target.path)?;
            target.write_record(&Record::of(&spec))?;
            copy::disk(&source.disk(), &target.fresh_disk(), &target.disk())
        })
        .await
    }

    /// [`crate::engine::Engine::snapshot`] of the disk alone.
    pub(super) async fn keep(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<Snapshot> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        self.blocking(move |_| {
            let _held = held;
            if !folder.is_whole()? {
                return Err(EngineError::Absent);
            }
            let kept = folder.snapshot(snapshot, WHOLE);
            let failed = host_error("keep the disk", &kept);
            if !kept.try_exists().map_err(&failed)? {
                disk::check_reserve(&folder.path)?;
                room(&folder)?;
                copy::disk(&folder.disk(), &folder.snapshot(snapshot, FRESH), &kept)?;
            }
            let bytes = File::open(&kept).and_then(|file| copy::spent(&file)).map_err(&failed)?;
            Ok(Snapshot { bytes, memory: false })
        })
        .await
    }

    /// Refuses, before anything is given up for it, a snapshot that a machine has not, whose memory is not whole, or for which
    /// there is no room.
    pub(super) async fn check_kept(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        self.blocking(move |_| {
            let kept = folder.snapshot(snapshot, WHOLE);
            if !kept.try_exists().map_err(host_error("look for the snapshot", &kept))? {
                return Err(EngineError::Damaged(format!("snapshot {snapshot} is not there")));
            }
            copy::check(&kept, &folder.path)?;
            let memory = Kept::of(&folder, snapshot);
            if memory.has_memory() { memory.verify() } else { Ok(()) }
        })
        .await
    }

    /// [`crate::engine::Engine::rollback`], of a snapshot that is there, for a machine without saved memory.
    pub(super) async fn roll_back(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        match self.blocking(move |inner| inner.observe(id)).await? {
            Observation::Absent => return Err(EngineError::Absent),
            Observation::Running { generation, .. } => {
                let detail = format!("it runs since boot {generation}");
                return Err(EngineError::failed("roll the disk back", detail));
            }
            Observation::Stopped | Observation::Suspended { .. } => {}
        }
        self.sweep(&folder).await?;
        self.blocking(move |_| {
            let _held = held;
            disk::check_reserve(&folder.path)?;
            copy::disk(&folder.snapshot(snapshot, WHOLE), &folder.fresh_disk(), &folder.disk())?;
            let memory = Kept::of(&folder, snapshot);
            if memory.has_memory() { memory.give_back(&folder) } else { Ok(()) }
        })
        .await
    }

    /// [`crate::engine::Engine::remove_snapshot`].
    pub(super) async fn forget(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Ok(()) };
        self.blocking(move |_| {
            let _held = held;
            let (kept, all) = (folder.snapshot(snapshot, WHOLE), folder.snapshots());
            if !all.is_dir() {
                return Ok(());
            }
            remove_if_there(&kept)
                .and_then(|()| sync_folder(&all))
                .map_err(host_error("remove the snapshot", &kept))?;
            remove_unfinished(&folder)
        })
        .await
    }

    /// [`crate::engine::Engine::snapshots`].
    pub(super) async fn kept(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        let folder = self.inner.state.folder(id);
        self.blocking(move |_| {
            let whole = |path: &PathBuf| path.extension() == Some(OsStr::new(WHOLE));
            let mut found: Vec<Uuid> =
                entries(&folder)?.iter().filter(|path| whole(path)).filter_map(|path| named(path)).collect();
            found.sort();
            Ok(found)
        })
        .await
    }
}

impl Folder {
    pub(super) fn snapshot(&self, snapshot: Uuid, suffix: &str) -> PathBuf {
        self.snapshots().join(format!("{snapshot}.{suffix}"))
    }
}

/// Refuses a copy that is smaller than its source.
pub(super) fn check_size(source: &Folder, to: &MachineSpec) -> EngineResult<()> {
    let least = source.read_record()?.disk_bytes;
    if to.disk_bytes >= least {
        return Ok(());
    }
    Err(EngineError::failed("make the copy's disk", format!("{} bytes is less than {least}", to.disk_bytes)))
}

/// Makes room for a snapshot. Only for who holds the machine's lock.
pub(super) fn room(folder: &Folder) -> EngineResult<()> {
    let all = folder.snapshots();
    private_folder(&all)
        .and_then(|()| sync_folder(&folder.path))
        .map_err(host_error("make the snapshots' folder", &all))?;
    remove_unfinished(folder)
}

/// Removes what belongs to no snapshot that is whole: what a crash cut short has left. Only for who holds the machine's
/// lock.
fn remove_unfinished(folder: &Folder) -> EngineResult<()> {
    for path in entries(folder)? {
        if path.with_extension(WHOLE).exists() && path.extension() != Some(OsStr::new(FRESH)) {
            continue;
        }
        if path.is_dir() {
            trash::remove_tree(&path)?;
        } else {
            remove_if_there(&path).map_err(host_error("remove an unfinished snapshot", &path))?;
        }
    }
    Ok(())
}

/// What is among a machine's snapshots.
fn entries(folder: &Folder) -> EngineResult<Vec<PathBuf>> {
    let path = folder.snapshots();
    let failed = host_error("list the snapshots", &path);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.push(entry.map_err(&failed)?.path());
    }
    Ok(found)
}

fn named(path: &std::path::Path) -> Option<Uuid> {
    path.file_stem()?.to_str()?.parse().ok()
}
