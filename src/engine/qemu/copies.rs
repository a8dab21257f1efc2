//! How does a virtual machine get another's disk, and keep its own of an earlier moment? Clones, snapshots, rollback, as for
//! containers; but it is the guest that lets the file system of a disk in use hold still.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Inner, QemuEngine, line};
use crate::base::ids::ComputerId;
use crate::engine::command::host_error;
use crate::engine::layout::{Folder, Record, private_folder, remove_if_there, sync_folder};
use crate::engine::{EngineError, EngineResult, MachineSpec, Observation, Snapshot, copy, disk, lock};

/// How long a guest's writes may wait, as for containers; its first process ends it after half as long again.
const LONGEST_STILL: Duration = Duration::from_secs(30);
/// How long a guest may take to write back what it holds: a gigabyte on a slow disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to take back a freeze that was given up: who holds the machine's lock is waited for.
const SHORT_PATIENCE: Duration = Duration::from_secs(5);
/// A snapshot's file is called so behind its id, and so while it is being made.
const WHOLE: &str = "img";
const FRESH: &str = "new";

impl QemuEngine {
    /// [`crate::engine::Engine::copy_disk`]. Holds both machines, the source first; nobody else asks for a target that is being
    /// made, so that no two calls wait for each other. The copy grows when it starts.
    pub(super) async fn copy(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        const STEP: &str = "make the copy's folder";
        let (source, target) = (self.inner.state.folder(from), self.inner.state.folder(to.id));
        let Some(source_held) = lock::machine(&source).await? else { return Err(EngineError::Absent) };
        private_folder(&target.path).map_err(host_error(STEP, &target.path))?;
        let Some(target_held) = lock::machine(&target).await? else {
            return Err(EngineError::failed(STEP, "it was destroyed while being made"));
        };
        let spec = to.clone();
        self.blocking(move |inner| {
            let _held = (source_held, target_held);
            if target.is_whole()? {
                return Ok(());
            }
            if !source.is_whole()? {
                return Err(EngineError::Absent);
            }
            let least = source.read_record()?.disk_bytes;
            if spec.disk_bytes < least {
                let detail = format!("{} bytes is less than {least}", spec.disk_bytes);
                return Err(EngineError::failed(STEP, detail));
            }
            disk::check_reserve(&target.path)?;
            target.write_record(&Record::of(&spec))?;
            inner.copy_disk(&source, &target.fresh_disk(), &target.disk())
        })
        .await
    }

    /// [`crate::engine::Engine::snapshot`] of the disk alone.
    pub(super) async fn keep(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<Snapshot> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        self.blocking(move |inner| {
            let _held = held;
            if !folder.is_whole()? {
                return Err(EngineError::Absent);
            }
            let kept = file(&folder, snapshot, WHOLE);
            let failed = host_error("keep the disk", &kept);
            if !kept.try_exists().map_err(&failed)? {
                disk::check_reserve(&folder.path)?;
                private_folder(&folder.snapshots())
                    .and_then(|()| sync_folder(&folder.path))
                    .map_err(&failed)?;
                remove_unfinished(&folder)?;
                inner.copy_disk(&folder, &file(&folder, snapshot, FRESH), &kept)?;
            }
            let bytes = File::open(&kept).and_then(|file| copy::spent(&file)).map_err(&failed)?;
            Ok(Snapshot { bytes, memory: false })
        })
        .await
    }

    /// Refuses, before anything is given up for it, a snapshot that a machine has not, or for which there is no room.
    pub(super) async fn check_kept(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        self.blocking(move |_| {
            let kept = file(&folder, snapshot, WHOLE);
            if !kept.try_exists().map_err(host_error("look for the snapshot", &kept))? {
                return Err(EngineError::Damaged(format!("snapshot {snapshot} is not there")));
            }
            copy::check(&kept, &folder.path)
        })
        .await
    }

    /// [`crate::engine::Engine::rollback`], of a snapshot that is there.
    pub(super) async fn roll_back(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        match self.blocking(move |inner| inner.observe(id)).await? {
            Observation::Absent => return Err(EngineError::Absent),
            Observation::Running { generation, .. } => {
                let detail = format!("it runs since boot {generation}");
                return Err(EngineError::failed("roll the disk back", detail));
            }
            Observation::Stopped | Observation::Suspended { .. } => self.sweep(&folder).await?,
        }
        self.blocking(move |_| {
            let _held = held;
            let kept = file(&folder, snapshot, WHOLE);
            copy::disk_during(&kept, &folder.fresh_disk(), &folder.disk(), |copy| copy(None))
        })
        .await
    }

    /// [`crate::engine::Engine::remove_snapshot`].
    pub(super) async fn forget(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Ok(()) };
        self.blocking(move |_| {
            let _held = held;
            let (kept, all) = (file(&folder, snapshot, WHOLE), folder.snapshots());
            if !all.is_dir() {
                return Ok(());
            }
            let removed = remove_if_there(&kept).and_then(|()| sync_folder(&all));
            removed.map_err(host_error("remove the snapshot", &kept))?;
            remove_unfinished(&folder)
        })
        .await
    }

    /// [`crate::engine::Engine::snapshots`].
    pub(super) async fn kept(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        let folder = self.inner.state.folder(id);
        self.blocking(move |_| {
            let named = |path: &PathBuf| path.file_stem()?.to_str()?.parse().ok();
            let mut found: Vec<Uuid> = files(&folder, WHOLE)?.iter().filter_map(named).collect();
            found.sort();
            Ok(found)
        })
        .await
    }
}

impl Inner {
    /// Copies a machine's disk as it is at one moment, whether the machine runs or not.
    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        let runs = self.running(source)?.is_some();
        copy::disk_during(&source.disk(), fresh, to, |copy| {
            if !runs {
                return copy(None);
            }
            if let Err(error) = line::ask(source, "freeze", PATIENCE) {
                // What comes after it on the line undoes one that the guest still gets to.
                if let Err(late) = line::ask(source, "thaw", SHORT_PATIENCE) {
                    tracing::warn!(computer = %source.id, error = %late, "a guest that holds still goes on by itself");
                }
                return Err(error);
            }
            let copied = copy(Some(Instant::now() + LONGEST_STILL));
            // It fails when writes went on before: what was copied since is not of one moment.
            let thawed = line::ask(source, "thaw", PATIENCE);
            copied.and_then(|copied| thawed.map(|()| copied))
        })
    }
}

fn file(folder: &Folder, snapshot: Uuid, suffix: &str) -> PathBuf {
    folder.snapshots().join(format!("{snapshot}.{suffix}"))
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
    let paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(failed)?;
    Ok(paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == suffix))
        .collect())
}
