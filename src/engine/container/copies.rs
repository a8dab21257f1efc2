//! How does a machine get another's disk, and keep its own of an earlier moment? Clones, snapshots, rollback.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use uuid::Uuid;

use super::command::host_error;
use super::layout::{Folder, Record, private_folder, remove_if_there, sync_folder};
use super::{ContainerEngine, copy, disk, lock};
use crate::base::ids::ComputerId;
use crate::engine::{EngineError, EngineResult, MachineSpec, Observation, Snapshot};

/// What a snapshot's file is called behind its id, and what while it is being made.
const WHOLE: &str = "img";
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
            let least = source.read_record()?.disk_bytes;
            if spec.disk_bytes < least {
                return Err(EngineError::failed(
                    STEP,
                    format!("{} bytes is less than {least}", spec.disk_bytes),
                ));
            }
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
                private_folder(&folder.snapshots())
                    .and_then(|()| sync_folder(&folder.path))
                    .map_err(&failed)?;
                remove_unfinished(&folder)?;
                copy::disk(&folder.disk(), &folder.snapshot(snapshot, FRESH), &kept)?;
            }
            let bytes = File::open(&kept).and_then(|file| copy::spent(&file)).map_err(&failed)?;
            Ok(Snapshot { bytes, memory: false })
        })
        .await
    }

    /// [`crate::engine::Engine::rollback`].
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
        let kept = folder.snapshot(snapshot, WHOLE);
        if !kept.try_exists().map_err(host_error("look for the snapshot", &kept))? {
            return Err(EngineError::Damaged(format!("snapshot {snapshot} is not there")));
        }
        // Only now: saved memory goes with it.
        self.sweep(&folder).await?;
        self.blocking(move |_| {
            let _held = held;
            disk::check_reserve(&folder.path)?;
            copy::disk(&kept, &folder.fresh_disk(), &folder.disk())
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
            let mut found: Vec<Uuid> = files(&folder, WHOLE)?.iter().filter_map(|path| named(path)).collect();
            found.sort();
            Ok(found)
        })
        .await
    }
}

impl Folder {
    fn snapshot(&self, snapshot: Uuid, suffix: &str) -> PathBuf {
        self.snapshots().join(format!("{snapshot}.{suffix}"))
    }
}

/// Removes what snapshots that a crash cut short have left. Only for who holds the machine's lock.
fn remove_unfinished(folder: &Folder) -> EngineResult<()> {
    for path in files(folder, FRESH)? {
        remove_if_there(&path).map_err(host_error("remove an unfinished snapshot", &path))?;
    }
    Ok(())
}

/// The files among a machine's snapshots with a suffix.
fn files(folder: &Folder, suffix: &str) -> EngineResult<Vec<PathBuf>> {
    let path = folder.snapshots();
    let failed = host_error("list the snapshots", &path);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(&failed)?.path();
        if path.extension() == Some(OsStr::new(suffix)) {
            found.push(path);
        }
    }
    Ok(found)
}

fn named(path: &std::path::Path) -> Option<Uuid> {
    path.file_stem()?.to_str()?.parse().ok()
}
