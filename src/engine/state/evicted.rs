//! Eviction of a suspended machine's disk and memory to storage, and their return.
//!
//! ```text
//!   Local -- evict: write away.json, remove disk.img and memory/ --> Evicted
//!     ^                                                                 | write: pieces go to arriving/
//!     |                                                                 | finish_fetch: rename, note this boot
//!     |-- sync_fetched: sync the files, remove away.json -- Fetched <---|
//!     |-- rollback: install disk and memory of the snapshot, remove away.json -- Evicted or Fetched
//! ```
//! After a power loss before the sync, the state counts as evicted again: its copy in storage exists until
//! then. The record, snapshots, and the agent's executable, which saved memory refers to, stay on the host.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::command::host_error;
use crate::host::files::{private_folder, remove_if_there, sync_folder, write_durably};
use crate::host::process;
use crate::state::layout::Folder;
use crate::state::memory::SavedMemory;
use crate::state::saved::saved_file;
use crate::state::{disk, trash};
use crate::{EngineError, EngineResult, Extents, Observation, SavedFile, SavedLocation, SavedState};

/// The disk's name among the saved files.
const DISK: &str = "disk.img";
/// Prefix of the names of memory files.
const MEMORY: &str = "memory/";

/// `away.json`: marks an evicted or fetched machine.
#[derive(Debug, Serialize, Deserialize)]
struct EvictionRecord {
    /// The generation of the boot that was suspended.
    generation: u64,
    /// The host's boot id in which it was fetched; `None` while it is evicted.
    arrived_in: Option<String>,
}

impl EvictionRecord {
    fn find(folder: &Folder) -> EngineResult<Option<Self>> {
        let path = folder.away();
        let failed = host_error("read the eviction record", &path);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn write(&self, folder: &Folder) -> EngineResult<()> {
        const STEP: &str = "write the eviction record";
        let text = serde_json::to_vec(self).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&folder.away(), &text).map_err(host_error(STEP, &folder.away()))
    }

    fn location(&self) -> EngineResult<SavedLocation> {
        let Some(boot) = &self.arrived_in else { return Ok(SavedLocation::Evicted) };
        let now =
            process::boot_id().map_err(|error| EngineError::failed("read the host's boot id", error))?;
        Ok(if *boot == now { SavedLocation::Fetched } else { SavedLocation::Evicted })
    }
}

/// The generation of an evicted machine; `None` for any other.
pub(crate) fn generation(folder: &Folder) -> EngineResult<Option<u64>> {
    let Some(away) = EvictionRecord::find(folder)? else { return Ok(None) };
    Ok((away.location()? == SavedLocation::Evicted).then_some(away.generation))
}

/// See [`Engine::saved_state`](crate::Engine::saved_state).
pub(crate) fn saved(folder: &Folder) -> EngineResult<Option<SavedState>> {
    let location = match EvictionRecord::find(folder)? {
        None => SavedLocation::Local,
        Some(away) => match away.location()? {
            SavedLocation::Evicted => {
                let (generation, location) = (away.generation, SavedLocation::Evicted);
                return Ok(Some(SavedState { generation, location, files: Vec::new() }));
            }
            location @ (SavedLocation::Local | SavedLocation::Fetched) => location,
        },
    };
    let Some(saved) = SavedMemory::find(folder)?.filter(|saved| saved.settled) else { return Ok(None) };
    let files = files(folder).map_err(host_error("list the saved files", &folder.path))?;
    Ok(Some(SavedState { generation: saved.generation, location, files }))
}

/// The memory files by name, and the disk last, because it is the largest.
fn files(folder: &Folder) -> io::Result<Vec<SavedFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.memory())? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| io::ErrorKind::InvalidData)?;
        found.push(saved_file(&entry.path(), format!("{MEMORY}{name}"), false)?);
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.push(saved_file(&folder.disk(), DISK.to_owned(), true)?);
    Ok(found)
}

/// The path of a saved file below a folder. Rejects names that lead out of it.
fn path_in(root: &Path, name: &str) -> EngineResult<PathBuf> {
    if name == DISK {
        return Ok(root.join(DISK));
    }
    let plain = |file: &str| !file.is_empty() && !file.starts_with('.') && !file.contains('/');
    match name.strip_prefix(MEMORY) {
        Some(file) if plain(file) => Ok(root.join("memory").join(file)),
        Some(_) | None => {
            Err(EngineError::failed("find a saved file", format!("{name:?} is not a name of a saved file")))
        }
    }
}

/// See [`Engine::read_saved`](crate::Engine::read_saved).
pub(crate) fn read(folder: &Folder, name: &str, from: u64, most: usize) -> EngineResult<Extents> {
    let path = path_in(&folder.path, name)?;
    let read = File::open(&path).and_then(|file| Extents::read(&file, from, most));
    read.map_err(host_error("read a saved file", &path))
}

/// See [`Engine::write_saved`](crate::Engine::write_saved).
pub(crate) fn write(folder: &Folder, file: &SavedFile, data: &Extents) -> EngineResult<()> {
    const STEP: &str = "write a fetched file";
    if generation(folder)?.is_none() {
        return Err(EngineError::failed(STEP, "the machine is not evicted"));
    }
    disk::check_reserve(&folder.path)?;
    let path = path_in(&folder.arriving(), &file.name)?;
    let parent = path.parent().unwrap_or(&path);
    private_folder(parent).and_then(|()| data.write(&path, file.bytes)).map_err(host_error(STEP, &path))
}

/// See [`Engine::evict`](crate::Engine::evict). This and the following functions need the machine's lock.
/// `look` observes the machine.
pub(crate) fn evict(folder: &Folder, look: impl FnOnce() -> EngineResult<Observation>) -> EngineResult<()> {
    if generation(folder)?.is_none() {
        let (Observation::Suspended { generation }, Some(_)) = (look()?, saved(folder)?) else {
            return Err(EngineError::failed("evict the machine", "it is not suspended"));
        };
        EvictionRecord { generation, arrived_in: None }.write(folder)?;
    }
    clear(folder)
}

/// Removes disk, memory, and files of an unfinished fetch.
fn clear(folder: &Folder) -> EngineResult<()> {
    remove_if_there(&folder.disk()).map_err(host_error("evict the disk", &folder.disk()))?;
    for path in [folder.memory(), folder.fresh_memory(), folder.used_memory(), folder.arriving()] {
        trash::remove_tree(&path)?;
    }
    sync_folder(&folder.path).map_err(host_error("evict the machine", &folder.path))
}

/// Forgets the evicted state of a machine that got another disk, which is synced.
pub(crate) fn forget(folder: &Folder) -> EngineResult<()> {
    remove_if_there(&folder.away())
        .and_then(|()| sync_folder(&folder.path))
        .map_err(host_error("forget the evicted state", &folder.away()))?;
    trash::remove_tree(&folder.arriving())
}

/// See [`Engine::finish_fetch`](crate::Engine::finish_fetch). Moves the fetched files into place, for this
/// boot of the host.
pub(crate) fn finish_fetch(folder: &Folder, with_memory: bool) -> EngineResult<()> {
    let Some(away) = EvictionRecord::find(folder)? else { return Ok(()) };
    if away.location()? == SavedLocation::Fetched {
        return Ok(());
    }
    let arriving = folder.arriving();
    let failed = host_error("install the fetched files", &arriving);
    let mut moves = vec![(arriving.join(DISK), folder.disk())];
    if with_memory {
        moves.push((arriving.join("memory"), folder.memory()));
    }
    for (from, _) in &moves {
        if !from.try_exists().map_err(&failed)? {
            return Err(EngineError::Damaged(format!("{} was not fetched", from.display())));
        }
    }
    for (from, to) in moves {
        fs::rename(from, to).map_err(&failed)?;
    }
    trash::remove_tree(&arriving)?;
    let boot = process::boot_id().map_err(&failed)?;
    EvictionRecord { generation: away.generation, arrived_in: Some(boot) }.write(folder)
}

/// See [`Engine::sync_fetched`](crate::Engine::sync_fetched). Syncs the fetched files. Only then does the
/// next boot of the host trust them.
pub(crate) fn sync_fetched(folder: &Folder) -> EngineResult<()> {
    let Some(away) = EvictionRecord::find(folder)? else { return Ok(()) };
    if away.location()? != SavedLocation::Fetched {
        return Err(EngineError::failed("sync the fetched files", "the fetch is not finished"));
    }
    let failed = host_error("sync the fetched files", &folder.path);
    File::open(folder.disk()).and_then(|disk| disk.sync_all()).map_err(&failed)?;
    match fs::read_dir(folder.memory()) {
        Ok(files) => {
            for file in files {
                file.and_then(|file| File::open(file.path()))
                    .and_then(|file| file.sync_all())
                    .map_err(&failed)?;
            }
            sync_folder(&folder.memory()).map_err(&failed)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    sync_folder(&folder.path).map_err(&failed)?;
    remove_if_there(&folder.away()).map_err(&failed)?;
    sync_folder(&folder.path).map_err(&failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;

    fn a_file(name: &str, bytes: u64) -> SavedFile {
        SavedFile { name: name.to_owned(), bytes, allocated: 0, disk: name == DISK }
    }

    #[test]
    fn an_evicted_state_is_installed_once_it_is_complete() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        fs::write(folder.disk(), "disk").unwrap();
        assert!(
            finish_fetch(&folder, true).is_ok() && sync_fetched(&folder).is_ok(),
            "a machine that was not evicted is left alone"
        );
        EvictionRecord { generation: 7, arrived_in: None }.write(&folder).unwrap();
        for _ in 0..2 {
            clear(&folder).unwrap();
            assert!(!folder.disk().exists());
            assert_eq!(generation(&folder).unwrap(), Some(7));
            let data = |bytes: &[u8]| Extents { places: vec![(0, 4)], bytes: bytes.to_vec() };
            write(&folder, &a_file("memory/pages.img", 4), &data(b"page")).unwrap();
            let error = finish_fetch(&folder, true).unwrap_err();
            assert!(matches!(&error, EngineError::Damaged(what) if what.contains(DISK)), "{error:#}");
            write(&folder, &a_file(DISK, 4), &data(b"disk")).unwrap();
        }
        assert!(sync_fetched(&folder).is_err(), "nothing is installed yet");
        finish_fetch(&folder, true).unwrap();
        finish_fetch(&folder, true).unwrap();
        assert_eq!(generation(&folder).unwrap(), None);
        assert_eq!(fs::read(folder.memory().join("pages.img")).unwrap(), b"page");
        assert!(write(&folder, &a_file(DISK, 4), &Extents::default()).is_err());
        // The host lost power before the sync: the copy in storage counts.
        EvictionRecord { generation: 7, arrived_in: Some("an earlier boot".to_owned()) }
            .write(&folder)
            .unwrap();
        assert_eq!(generation(&folder).unwrap(), Some(7));
        assert!(sync_fetched(&folder).is_err());
        EvictionRecord { generation: 7, arrived_in: Some(process::boot_id().unwrap()) }
            .write(&folder)
            .unwrap();
        sync_fetched(&folder).unwrap();
        assert!(!folder.away().exists() && folder.disk().exists());
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let root = Path::new("/machine");
        assert_eq!(path_in(root, "disk.img").unwrap(), Path::new("/machine/disk.img"));
        assert_eq!(path_in(root, "memory/7.json").unwrap(), Path::new("/machine/memory/7.json"));
        for bad in ["", "memory", "memory/", "memory/..", "memory/../x", "../disk.img", "/etc/passwd", "lock"]
        {
            assert!(path_in(root, bad).is_err(), "{bad}");
        }
    }
}
