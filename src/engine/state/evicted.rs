//! What of a suspended machine is in storage and not on this host, and how does it come back?
//!
//! ```text
//!   disk.img, memory/ -- evict: away.json, then both go --> Away
//!        ^                                                   | write: arriving/
//!        |-- converge: synced, away.json goes -- Arrived <-- arrived: renamed, away.json names this boot of the host
//!        |-- rollback: another disk and memory in their places, away.json goes -- Away or Arrived
//! ```
//! A host that lost its power before what was fetched was on its disk takes it for away still: its copy in storage is kept
//! until then. The record, snapshots and the agent's executable, which saved memory refers to, stay here.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::command::host_error;
use super::layout::{Folder, private_folder, remove_if_there, sync_folder, write_durably};
use super::memory::Saved;
use super::saved::saved_file;
use super::{disk, process, trash};
use crate::{EngineError, EngineResult, Extents, Observation, Place, SavedFile, SavedState};

/// The engine's name for the disk.
const DISK: &str = "disk.img";
/// What its names for the files of memory begin with.
const MEMORY: &str = "memory/";

/// `away.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Away {
    /// The boot that the saved memory ran since.
    generation: u64,
    /// The host's boot in which it came back, once it has.
    arrived_in: Option<String>,
}

impl Away {
    fn find(folder: &Folder) -> EngineResult<Option<Self>> {
        let path = folder.away();
        let failed = host_error("look whether the machine is in storage", &path);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn keep(&self, folder: &Folder) -> EngineResult<()> {
        const STEP: &str = "note whether the machine is in storage";
        let text = serde_json::to_vec(self).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&folder.away(), &text).map_err(host_error(STEP, &folder.away()))
    }

    fn place(&self) -> EngineResult<Place> {
        let Some(boot) = &self.arrived_in else { return Ok(Place::Away) };
        let now =
            process::boot_id().map_err(|error| EngineError::failed("read the host's boot id", error))?;
        Ok(if *boot == now { Place::Arrived } else { Place::Away })
    }
}

/// Since which boot the memory of a machine ran that is in storage; `None` for one that is here.
pub(super) fn generation(folder: &Folder) -> EngineResult<Option<u64>> {
    let Some(away) = Away::find(folder)? else { return Ok(None) };
    Ok((away.place()? == Place::Away).then_some(away.generation))
}

/// See [`Engine::saved`](crate::Engine::saved).
pub(super) fn saved(folder: &Folder) -> EngineResult<Option<SavedState>> {
    let place = match Away::find(folder)? {
        None => Place::Here,
        Some(away) => match away.place()? {
            Place::Away => {
                let (generation, place) = (away.generation, Place::Away);
                return Ok(Some(SavedState { generation, place, files: Vec::new() }));
            }
            place @ (Place::Here | Place::Arrived) => place,
        },
    };
    let Some(saved) = Saved::find(folder)?.filter(|saved| saved.settled) else { return Ok(None) };
    let files = files(folder).map_err(host_error("list the saved files", &folder.path))?;
    Ok(Some(SavedState { generation: saved.generation, place, files }))
}

/// The files of memory by their names, and the disk last: it is the largest.
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

/// Where a file of this name is below a folder with a disk and memory in it.
fn path_in(root: &Path, name: &str) -> EngineResult<PathBuf> {
    if name == DISK {
        return Ok(root.join(DISK));
    }
    let plain = |file: &str| !file.is_empty() && !file.starts_with('.') && !file.contains('/');
    match name.strip_prefix(MEMORY) {
        Some(file) if plain(file) => Ok(root.join("memory").join(file)),
        Some(_) | None => Err(EngineError::failed("name a saved file", format!("{name:?} is none"))),
    }
}

/// See [`Engine::read_saved`](crate::Engine::read_saved).
pub(super) fn read(folder: &Folder, name: &str, from: u64, most: usize) -> EngineResult<Extents> {
    let path = path_in(&folder.path, name)?;
    let read = File::open(&path).and_then(|file| Extents::read(&file, from, most));
    read.map_err(host_error("read a saved file", &path))
}

/// See [`Engine::write_saved`](crate::Engine::write_saved).
pub(super) fn write(folder: &Folder, file: &SavedFile, data: &Extents) -> EngineResult<()> {
    const STEP: &str = "put a saved file back";
    if generation(folder)?.is_none() {
        return Err(EngineError::failed(STEP, "the machine is not in storage"));
    }
    disk::check_reserve(&folder.path)?;
    let path = path_in(&folder.arriving(), &file.name)?;
    let parent = path.parent().unwrap_or(&path);
    private_folder(parent).and_then(|()| data.write(&path, file.bytes)).map_err(host_error(STEP, &path))
}

/// See [`Engine::evict`](crate::Engine::evict). Only for who holds the machine's lock, as all that follows; `look` tells what
/// is seen of the machine.
pub(super) fn evict(folder: &Folder, look: impl FnOnce() -> EngineResult<Observation>) -> EngineResult<()> {
    if generation(folder)?.is_none() {
        let (Observation::Suspended { generation }, Some(_)) = (look()?, saved(folder)?) else {
            return Err(EngineError::failed("evict the machine", "it is not suspended"));
        };
        Away { generation, arrived_in: None }.keep(folder)?;
    }
    clear(folder)
}

/// Removes what an eviction leaves: disk, memory, and what was fetched before.
fn clear(folder: &Folder) -> EngineResult<()> {
    remove_if_there(&folder.disk()).map_err(host_error("evict the disk", &folder.disk()))?;
    for path in [folder.memory(), folder.fresh_memory(), folder.used_memory(), folder.arriving()] {
        trash::remove_tree(&path)?;
    }
    sync_folder(&folder.path).map_err(host_error("evict the machine", &folder.path))
}

/// Parts with what is in storage: a machine has a disk from elsewhere, which is on the host's own already.
pub(super) fn forget(folder: &Folder) -> EngineResult<()> {
    remove_if_there(&folder.away())
        .and_then(|()| sync_folder(&folder.path))
        .map_err(host_error("part with what is in storage", &folder.away()))?;
    trash::remove_tree(&folder.arriving())
}

/// See [`Engine::arrived`](crate::Engine::arrived). Gives what was fetched its place, in this boot of the host.
pub(super) fn take(folder: &Folder, with_memory: bool) -> EngineResult<()> {
    let Some(away) = Away::find(folder)? else { return Ok(()) };
    if away.place()? == Place::Arrived {
        return Ok(());
    }
    let arriving = folder.arriving();
    let failed = host_error("take back what was fetched", &arriving);
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
    Away { generation: away.generation, arrived_in: Some(boot) }.keep(folder)
}

/// See [`Engine::converge`](crate::Engine::converge). Brings what was fetched to the disk; only then the host's next boot
/// trusts it.
pub(super) fn settle(folder: &Folder) -> EngineResult<()> {
    let Some(away) = Away::find(folder)? else { return Ok(()) };
    if away.place()? != Place::Arrived {
        return Err(EngineError::failed("settle what was fetched", "it did not arrive"));
    }
    let failed = host_error("settle what was fetched", &folder.path);
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
        SavedFile { name: name.to_owned(), bytes, spent: 0, disk: name == DISK }
    }

    #[test]
    fn what_was_evicted_comes_back_and_counts_once_it_is_whole() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        fs::write(folder.disk(), "disk").unwrap();
        assert!(take(&folder, true).is_ok() && settle(&folder).is_ok(), "one that is here is let alone");
        Away { generation: 7, arrived_in: None }.keep(&folder).unwrap();
        for _ in 0..2 {
            clear(&folder).unwrap();
            assert!(!folder.disk().exists());
            assert_eq!(generation(&folder).unwrap(), Some(7));
            let data = |bytes: &[u8]| Extents { places: vec![(0, 4)], bytes: bytes.to_vec() };
            write(&folder, &a_file("memory/pages.img", 4), &data(b"page")).unwrap();
            let error = take(&folder, true).unwrap_err();
            assert!(matches!(&error, EngineError::Damaged(what) if what.contains(DISK)), "{error}");
            write(&folder, &a_file(DISK, 4), &data(b"disk")).unwrap();
        }
        assert!(settle(&folder).is_err(), "nothing arrived yet");
        take(&folder, true).unwrap();
        take(&folder, true).unwrap();
        assert_eq!(generation(&folder).unwrap(), None);
        assert_eq!(fs::read(folder.memory().join("pages.img")).unwrap(), b"page");
        assert!(write(&folder, &a_file(DISK, 4), &Extents::default()).is_err());
        // The host went down before it was on its disk: the copy in storage is what counts.
        Away { generation: 7, arrived_in: Some("an earlier boot".to_owned()) }.keep(&folder).unwrap();
        assert_eq!(generation(&folder).unwrap(), Some(7));
        assert!(settle(&folder).is_err());
        Away { generation: 7, arrived_in: Some(process::boot_id().unwrap()) }.keep(&folder).unwrap();
        settle(&folder).unwrap();
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
