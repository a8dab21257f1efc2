//! Where among a machine's files is a snapshot, and is it whole?
//!
//! ```text
//! <machine>/snapshots/<snapshot>.img       the disk; it gets this name last
//!                               .memory/   what ran then, and .agent, what its agent is: where it holds memory
//!                               .new       the disk while it is copied, and .unsealed while its memory is not whole yet
//! ```
//! Memory is linked and not copied where it is needed again: nobody writes to it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::command::host_error;
use crate::layout::{Folder, private_folder, remove_if_there, sync_folder};
use crate::memory::{self, Saved};
use crate::{EngineError, EngineResult, Snapshot, copy, trash};

const WHOLE: &str = "img";
const FRESH: &str = "new";

/// Where a snapshot is.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    snapshot: Uuid,
    pub(super) memory: PathBuf,
    pub(super) agent: PathBuf,
    pub(super) fresh: PathBuf,
    pub(super) unsealed: PathBuf,
    pub(super) disk: PathBuf,
}

impl Kept {
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

    /// What it takes on the host.
    pub(super) fn tell(&self) -> EngineResult<Snapshot> {
        let failed = host_error("look at the snapshot", &self.disk);
        let mut bytes = File::open(&self.disk).and_then(|file| copy::spent(&file)).map_err(&failed)?;
        if self.has_memory() {
            for path in entries(&self.memory)? {
                let file = File::open(path).map_err(&failed)?;
                bytes = bytes.saturating_add(copy::spent(&file).map_err(&failed)?);
            }
        }
        Ok(Snapshot { bytes, memory: self.has_memory() })
    }

    /// Refuses, before anything is given up for it, one that is not there, whose memory is not as it was written, or for which
    /// the machine's folder has no room.
    pub(super) fn check(&self, folder: &Folder) -> EngineResult<()> {
        if !self.is_whole()? {
            return Err(EngineError::Damaged(format!("snapshot {} is not there", self.snapshot)));
        }
        copy::check(&self.disk, &folder.path)?;
        if !self.has_memory() {
            return Ok(());
        }
        Saved { path: self.memory.clone(), generation: 0, settled: true }.verify().map(drop)
    }

    /// How large its disk is.
    ///
    /// # Errors
    /// `Damaged` when it is not there, or holds no memory.
    pub(super) fn disk_bytes_with_memory(&self) -> EngineResult<u64> {
        if !self.is_whole()? || !self.has_memory() {
            return Err(EngineError::Damaged(format!("{} is not there", self.memory.display())));
        }
        let data = fs::metadata(&self.disk).map_err(host_error("look at the snapshot", &self.disk))?;
        Ok(data.len())
    }

    /// Makes its memory, where it has some, that of a machine whose disk is the snapshot's already.
    pub(super) fn give_to(&self, folder: &Folder) -> EngineResult<()> {
        if !self.has_memory() {
            return Ok(());
        }
        let fresh = memory::linked(&self.memory, folder)?;
        // The agent last: what failed before it leaves the machine the one that its own memory refers to.
        let given =
            link(&self.agent, &folder.agent()).and_then(|()| memory::becomes(&fresh, &folder.memory()));
        if given.is_err() {
            trash::remove_tree(&fresh)?;
        }
        given
    }
}

/// One more name for a file; what had that name before has it no more.
pub(super) fn link(from: &Path, to: &Path) -> EngineResult<()> {
    remove_if_there(to)
        .and_then(|()| fs::hard_link(from, to))
        .map_err(host_error("link the machine's agent", to))
}

/// The snapshots of a machine that are whole.
pub(super) fn all(folder: &Folder) -> EngineResult<Vec<Uuid>> {
    let whole = |path: &PathBuf| path.extension() == Some(OsStr::new(WHOLE));
    let named = |path: PathBuf| path.file_stem()?.to_str()?.parse().ok();
    let mut found: Vec<Uuid> =
        entries(&folder.snapshots())?.into_iter().filter(whole).filter_map(named).collect();
    found.sort();
    Ok(found)
}

/// Makes room for a snapshot. Only for who holds the machine's lock.
pub(super) fn room(folder: &Folder) -> EngineResult<()> {
    let all = folder.snapshots();
    private_folder(&all)
        .and_then(|()| sync_folder(&folder.path))
        .map_err(host_error("make the snapshots' folder", &all))?;
    remove_unfinished(folder)
}

/// Removes a snapshot; one that is not there is removed already. Only for who holds the machine's lock.
pub(super) fn remove(folder: &Folder, snapshot: Uuid) -> EngineResult<()> {
    let (all, kept) = (folder.snapshots(), Kept::of(folder, snapshot).disk);
    if !all.is_dir() {
        return Ok(());
    }
    remove_if_there(&kept)
        .and_then(|()| sync_folder(&all))
        .map_err(host_error("remove the snapshot", &kept))?;
    remove_unfinished(folder)
}

/// Removes what belongs to no snapshot that is whole: what was cut short. Only for who holds the machine's lock.
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

/// What is in a folder; nothing when it is not there.
fn entries(folder: &Path) -> EngineResult<Vec<PathBuf>> {
    let failed = host_error("list the snapshots", folder);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>().map_err(failed)
}
