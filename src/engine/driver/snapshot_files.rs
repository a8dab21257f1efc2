//! Files of a snapshot.
//!
//! ```text
//! <machine>/snapshots/<snapshot>.img       the disk; renamed to this last, so the snapshot is complete
//!                               .memory/   the memory, if it holds memory
//!                               .agent     the agent's executable of that memory
//!                               .new       the disk while it is copied
//!                               .unsealed  the copied disk while its memory is not sealed
//! ```
//! Saved memory is hard-linked, not copied, because nothing writes to it. A machine with another key gets a copy.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::host::command::host_error;
use crate::host::files::{private_folder, remove_if_there, sync_folder};
use crate::state::disk::copy::{self, link_or_copy};
use crate::state::layout::Folder;
use crate::state::memory::{self, SavedMemory};
use crate::state::trash;
use crate::{EngineError, EngineResult, Snapshot};

const WHOLE: &str = "img";
const FRESH: &str = "new";

/// The paths of one snapshot.
#[derive(Clone, Debug)]
pub(super) struct SnapshotFiles {
    snapshot: Uuid,
    pub(super) memory: PathBuf,
    pub(super) agent: PathBuf,
    pub(super) fresh: PathBuf,
    pub(super) unsealed: PathBuf,
    pub(super) disk: PathBuf,
}

impl SnapshotFiles {
    pub(super) fn of(folder: &Folder, snapshot: Uuid) -> Self {
        let at = |suffix: &str| folder.snapshots().join(format!("{snapshot}.{suffix}"));
        Self {
            snapshot,
            memory: at("memory"),
            agent: at("agent"),
            fresh: at(FRESH),
            unsealed: at("unsealed"),
            disk: at(WHOLE),
        }
    }

    pub(super) fn is_whole(&self) -> EngineResult<bool> {
        self.disk.try_exists().map_err(host_error("look for the snapshot", &self.disk))
    }

    fn has_memory(&self) -> bool {
        self.memory.is_dir()
    }

    /// Its size on the host's disk, and whether it holds memory.
    pub(super) fn describe(&self) -> EngineResult<Snapshot> {
        let failed = host_error("look at the snapshot", &self.disk);
        let mut bytes = File::open(&self.disk).and_then(|file| copy::allocated(&file)).map_err(&failed)?;
        if self.has_memory() {
            for path in entries(&self.memory)? {
                let file = File::open(path).map_err(&failed)?;
                bytes = bytes.saturating_add(copy::allocated(&file).map_err(&failed)?);
            }
        }
        Ok(Snapshot { bytes, memory: self.has_memory() })
    }

    /// Checks before a rollback that the snapshot is complete, and that the host has space for a copy of its
    /// disk.
    pub(super) fn check_copy(&self, folder: &Folder) -> EngineResult<()> {
        if !self.is_whole()? {
            return Err(EngineError::Damaged(format!("snapshot {} is not there", self.snapshot)));
        }
        copy::check_space(&self.disk, &folder.path)
    }

    /// [`Self::check_copy`], and that its memory is undamaged.
    pub(super) fn check(&self, folder: &Folder) -> EngineResult<()> {
        self.check_copy(folder)?;
        if !self.has_memory() {
            return Ok(());
        }
        let saved = SavedMemory { path: self.memory.clone(), generation: 0, settled: true };
        saved.verify(&saved.manifest()?).map(drop)
    }

    /// The length of its disk in bytes.
    ///
    /// # Errors
    /// `Damaged` when the snapshot is missing or holds no memory.
    pub(super) fn disk_bytes_with_memory(&self) -> EngineResult<u64> {
        if !self.is_whole()? || !self.has_memory() {
            return Err(EngineError::Damaged(format!("{} is not there", self.memory.display())));
        }
        let data = fs::metadata(&self.disk).map_err(host_error("look at the snapshot", &self.disk))?;
        Ok(data.len())
    }

    /// Links its memory, if it has any, into a machine that has the snapshot's disk.
    pub(super) fn link_memory_into(&self, folder: &Folder) -> EngineResult<()> {
        if !self.has_memory() {
            return Ok(());
        }
        let fresh = memory::link_from(&self.memory, folder)?;
        // Nothing before this step changes the agent that the machine's own memory refers to.
        let linked = link_or_copy(&self.agent, &folder.agent())
            .and_then(|()| memory::move_to(&fresh, &folder.memory()));
        if linked.is_err() {
            trash::remove_tree(&fresh)?;
        }
        linked
    }
}

/// The complete snapshots of a machine, ascending.
pub(super) fn all(folder: &Folder) -> EngineResult<Vec<Uuid>> {
    let whole = |path: &PathBuf| path.extension() == Some(OsStr::new(WHOLE));
    let named = |path: PathBuf| path.file_stem()?.to_str()?.parse().ok();
    let mut found: Vec<Uuid> =
        entries(&folder.snapshots())?.into_iter().filter(whole).filter_map(named).collect();
    found.sort();
    Ok(found)
}

/// Makes the snapshots' folder and removes incomplete snapshots. Needs the machine's lock.
pub(super) fn prepare_folder(folder: &Folder) -> EngineResult<()> {
    let all = folder.snapshots();
    private_folder(&all)
        .and_then(|()| sync_folder(&folder.path))
        .map_err(host_error("make the snapshots' folder", &all))?;
    remove_unfinished(folder)
}

/// Removes a snapshot; a missing one counts as removed. Needs the machine's lock.
pub(super) fn remove(folder: &Folder, snapshot: Uuid) -> EngineResult<()> {
    let (all, disk) = (folder.snapshots(), SnapshotFiles::of(folder, snapshot).disk);
    if !all.is_dir() {
        return Ok(());
    }
    remove_if_there(&disk)
        .and_then(|()| sync_folder(&all))
        .map_err(host_error("remove the snapshot", &disk))?;
    remove_unfinished(folder)
}

/// Removes the files of incomplete snapshots. Needs the machine's lock.
pub(super) fn remove_unfinished(folder: &Folder) -> EngineResult<()> {
    for path in entries(&folder.snapshots())? {
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

/// The entries of a folder; none when it is missing.
fn entries(folder: &Path) -> EngineResult<Vec<PathBuf>> {
    let failed = host_error("list the snapshots", folder);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>().map_err(failed)
}
