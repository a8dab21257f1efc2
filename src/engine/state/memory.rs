//! Saved memory of a machine on the host's disk.
//!
//! ```text
//! <machine>/memory.new/    being saved; complete once it has the manifest, which is written last
//!          /memory/        saved: the manifest <generation>.json, and the files of gVisor or QEMU
//!          /memory.used/   being resumed: the guest may have run since and changed its disk
//!
//! memory.new -- seal, end the guest --> memory -- resume --> memory.used -- the guest runs --> removed
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::host::command::host_error;
use crate::host::files::{private_folder, sync_folder, write_durably};
use crate::host::{process, syscalls};
use crate::state::disk::copy::link_or_copy;
use crate::state::layout::{Folder, StateDir};
use crate::state::trash;
use crate::{EngineError, EngineResult};
use hotdesk_base::hex::hex;
use hotdesk_base::tasks::both;

/// Pause between two requests to write back what was saved so far: short beside the 0.4 s of an idle
/// desktop, and each costs two system calls for each of three files.
const WRITE_BACK_INTERVAL: Duration = Duration::from_millis(50);

/// What a resume needs, and the checksums of the files.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct MemoryManifest {
    /// The host's boot id when it was saved.
    pub(crate) host_boot: String,
    /// The version of the OCI runtime or of QEMU: another may not read these files.
    pub(crate) runtime: String,
    /// The image's folder or disk.
    pub(crate) image: PathBuf,
    /// The slot, because programs in the guest know the address that comes from it.
    pub(crate) slot: Option<u16>,
    /// Every saved file.
    pub(crate) parts: Vec<MemoryFile>,
}

/// One file of saved memory with its checksum.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct MemoryFile {
    name: String,
    bytes: u64,
    #[serde(flatten)]
    sum: Checksum,
}

/// A checksum in hexadecimal digits.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Checksum {
    /// Three times as fast as SHA-256 with the processor's instructions for it: a browser's 300 MB take
    /// 0.1 s.
    Blake3(String),
    /// That of memory which an earlier version saved.
    Sha256(String),
}

impl Checksum {
    fn blake3(file: &mut File) -> io::Result<Self> {
        let mut sum = blake3::Hasher::new();
        sum.update_reader(file)?;
        Ok(Self::Blake3(sum.finalize().to_hex().to_string()))
    }

    fn sha256(file: &mut File) -> io::Result<Self> {
        let mut sum = Sha256::new();
        io::copy(file, &mut HashWriter(&mut sum))?;
        Ok(Self::Sha256(hex(&sum.finalize())))
    }
}

/// A writer that only adds to a hash.
struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Proof that saved memory is as it was written. Only with it a guest may run from the memory.
#[derive(Debug)]
pub(crate) struct VerifiedMemory(());

/// Saved memory that a resume can continue from.
#[derive(Debug)]
pub(crate) struct SavedMemory {
    /// Its folder.
    pub(crate) path: PathBuf,
    /// The generation of the boot that was suspended; 0, which no boot has, if the manifest is missing.
    pub(crate) generation: u64,
    /// Whether the machine has ended and its disk is synced.
    pub(crate) settled: bool,
}

impl SavedMemory {
    /// Finds the saved memory of a machine. A suspend that was interrupted after its memory was complete
    /// counts until the host reboots, because the guest was paused since.
    pub(crate) fn find(folder: &Folder) -> EngineResult<Option<Self>> {
        let failed = host_error("look for saved memory", &folder.path);
        let path = folder.memory();
        if path.try_exists().map_err(&failed)? {
            let generation = manifest_of(&path).map_err(&failed)?.map_or(0, |(generation, _)| generation);
            return Ok(Some(Self { path, generation, settled: true }));
        }
        let path = folder.fresh_memory();
        let Some((generation, manifest)) = manifest_of(&path).map_err(&failed)? else { return Ok(None) };
        let host_boot = process::boot_id().map_err(&failed)?;
        let still_paused = read(&manifest).is_ok_and(|manifest| manifest.host_boot == host_boot);
        Ok(still_paused.then_some(Self { path, generation, settled: false }))
    }

    /// Reads the manifest, which says nothing about the files until they are verified.
    ///
    /// # Errors
    /// `Damaged` when it is missing or cannot be read.
    pub(crate) fn manifest(&self) -> EngineResult<MemoryManifest> {
        let found = manifest_of(&self.path).map_err(host_error("look for saved memory", &self.path))?;
        let (_, path) = found.ok_or_else(|| self.damaged("the manifest is missing"))?;
        read(&path).map_err(|error| self.damaged(format_args!("the manifest: {error}")))
    }

    /// Verifies the checksum of every file of the manifest.
    ///
    /// # Errors
    /// `Damaged`, naming the file that differs.
    pub(crate) fn verify(&self, manifest: &MemoryManifest) -> EngineResult<VerifiedMemory> {
        for part in &manifest.parts {
            let name = &part.name;
            let same =
                part.is_in(&self.path).map_err(|error| self.damaged(format_args!("{name}: {error}")))?;
            if !same {
                return Err(self.damaged(format_args!("{name} differs from what was written")));
            }
        }
        Ok(VerifiedMemory(()))
    }

    fn damaged(&self, what: impl std::fmt::Display) -> EngineError {
        EngineError::Damaged(format!("{}: {what}", self.path.display()))
    }

    /// Marks it as used: from then on the guest may run, and its disk change. Returns the new folder.
    pub(crate) fn mark_used(&self, folder: &Folder, _verified: VerifiedMemory) -> EngineResult<PathBuf> {
        let used = folder.used_memory();
        trash::remove_tree(&used)?;
        move_to(&self.path, &used)?;
        Ok(used)
    }
}

impl MemoryFile {
    fn of(folder: &Path, name: &str) -> io::Result<Self> {
        let mut file = File::open(folder.join(name))?;
        let bytes = file.metadata()?.len();
        Ok(Self { name: name.to_owned(), bytes, sum: Checksum::blake3(&mut file)? })
    }

    /// Whether the folder has this file, unchanged.
    fn is_in(&self, folder: &Path) -> io::Result<bool> {
        let mut file = File::open(folder.join(&self.name))?;
        if file.metadata()?.len() != self.bytes {
            return Ok(false);
        }
        let found = match self.sum {
            Checksum::Blake3(_) => Checksum::blake3(&mut file)?,
            Checksum::Sha256(_) => Checksum::sha256(&mut file)?,
        };
        Ok(found == self.sum)
    }
}

/// The generation in the manifest's name, and its path.
fn manifest_of(folder: &Path) -> io::Result<Option<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let stem =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".json"));
        if let Some(generation) = stem.and_then(|stem| stem.parse().ok()) {
            return Ok(Some((generation, path)));
        }
    }
    Ok(None)
}

fn read(manifest: &Path) -> io::Result<MemoryManifest> {
    serde_json::from_slice(&fs::read(manifest)?).map_err(io::Error::from)
}

/// Makes an empty folder for memory that is about to be saved.
pub(crate) fn create_fresh(folder: &Folder) -> EngineResult<PathBuf> {
    let path = folder.fresh_memory();
    trash::remove_tree(&path)?;
    private_folder(&path).map_err(host_error("make the folder for memory", &path))?;
    Ok(path)
}

/// Links the memory of a snapshot into `memory.new`, or copies it into a machine with another key. The
/// manifest comes last, so an interrupted copy does not count as saved memory.
pub(crate) fn link_from(source: &Path, folder: &Folder) -> EngineResult<PathBuf> {
    let path = create_fresh(folder)?;
    let failed = host_error("link the snapshot's memory", &path);
    let manifest = manifest_of(source).map_err(&failed)?.map(|(_, manifest)| manifest);
    let mut files = Vec::new();
    for entry in fs::read_dir(source).map_err(&failed)? {
        files.push(entry.map_err(&failed)?.path());
    }
    files.sort_by_key(|file| Some(file) == manifest.as_ref());
    for file in files {
        link_or_copy(&file, &path.join(file.file_name().unwrap_or_default()))?;
    }
    sync_folder(&path).map_err(&failed)?;
    Ok(path)
}

/// Calls `save`, which writes files into the folder `path`, and meanwhile lets the host write them to its
/// disk: it would begin after seconds, and the guest stands still until all is written. This proves nothing
/// about the files: [`seal`] syncs them and reports what went wrong.
pub(crate) fn write_back_during<T>(path: &Path, save: impl FnOnce() -> EngineResult<T>) -> EngineResult<T> {
    let (saving, ended) = mpsc::channel::<()>();
    let write_back = move || {
        while ended.recv_timeout(WRITE_BACK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if let Err(error) = start_write_back(path) {
                tracing::debug!(
                    %error,
                    path = %path.display(),
                    "could not begin to write saved memory to the disk"
                );
            }
        }
    };
    let save = move || {
        let saved = save();
        drop(saving);
        saved
    };
    let ((), saved) =
        both(write_back, save).map_err(host_error("write the saved memory to the disk", path))?;
    saved
}

/// Begins to write what is there of the files of a folder to the disk.
fn start_write_back(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        syscalls::start_write_back(&File::open(entry?.path())?)?;
    }
    Ok(())
}

/// Computes the checksums of the saved files, syncs them meanwhile, and writes the manifest last.
pub(crate) fn seal(
    path: &Path,
    generation: u64,
    manifest: impl FnOnce(Vec<MemoryFile>) -> MemoryManifest,
) -> EngineResult<()> {
    const STEP: &str = "seal the saved memory";
    let failed = host_error(STEP, path);
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(&failed)?;
    // The one waits for the disk, the other computes.
    let sync = || entries.iter().try_for_each(|entry| File::open(entry.path())?.sync_all());
    let sum = || {
        let parts = entries.iter().map(|entry| MemoryFile::of(path, &entry.file_name().to_string_lossy()));
        parts.collect::<io::Result<Vec<_>>>()
    };
    let (synced, parts) = both(sync, sum).map_err(&failed)?;
    synced.map_err(&failed)?;
    let parts = parts.map_err(&failed)?;
    let text =
        serde_json::to_vec_pretty(&manifest(parts)).map_err(|error| EngineError::failed(STEP, error))?;
    write_durably(&path.join(format!("{generation}.json")), &text).map_err(&failed)
}

/// Renames a folder or file of saved memory durably.
pub(crate) fn move_to(from: &Path, to: &Path) -> EngineResult<()> {
    let failed = host_error("move the saved memory", from);
    fs::rename(from, to).and_then(|()| sync_folder(to.parent().unwrap_or(to))).map_err(failed)
}

/// Removes the used memory of a guest that runs. An error is only logged, because it must not undo the
/// resume.
pub(crate) fn remove_used(folder: &Folder) {
    if let Err(error) = trash::remove_tree(&folder.used_memory()) {
        tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "could not remove used memory; the next resume does");
    }
}

/// Removes memory that no resume can use: used memory, and that of an interrupted suspend.
pub(crate) fn drop_leftovers(folder: &Folder) -> EngineResult<()> {
    trash::remove_tree(&folder.used_memory())?;
    match SavedMemory::find(folder)? {
        Some(saved) if !saved.settled => Ok(()),
        Some(_) | None => trash::remove_tree(&folder.fresh_memory()),
    }
}

/// Removes all saved memory of a machine, by an atomic rename into the trash.
pub(crate) fn discard(state: &StateDir, folder: &Folder) -> EngineResult<()> {
    for path in [folder.memory(), folder.fresh_memory()] {
        if path.try_exists().map_err(host_error("look for saved memory", &path))? {
            let trash = state.trash().join(format!("{}.{}", folder.id, uuid::Uuid::new_v4().simple()));
            move_to(&path, &trash)?;
            sync_folder(&folder.path).map_err(host_error("drop the saved memory", &folder.path))?;
            trash::remove_tree(&trash)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;

    fn a_folder(temp: &Path) -> Folder {
        Folder { id: ComputerId::random(), path: temp.to_owned() }
    }

    fn saved(folder: &Folder, host_boot: &str) {
        let path = create_fresh(folder).unwrap();
        fs::write(path.join("pages.img"), "pages").unwrap();
        fs::write(path.join("checkpoint.img"), "kernel").unwrap();
        let manifest = |parts| MemoryManifest {
            host_boot: host_boot.to_owned(),
            runtime: "runsc 1".to_owned(),
            image: PathBuf::from("/image"),
            slot: Some(3),
            parts,
        };
        seal(&path, 7, manifest).unwrap();
    }

    fn verified(saved: &SavedMemory) -> EngineResult<MemoryManifest> {
        let manifest = saved.manifest()?;
        saved.verify(&manifest).map(|_| manifest)
    }

    #[test]
    fn memory_is_found_once_it_is_complete_and_its_checksums_are_verified() {
        let temp = tempfile::tempdir().unwrap();
        let folder = a_folder(temp.path());
        assert!(SavedMemory::find(&folder).unwrap().is_none());
        saved(&folder, &process::boot_id().unwrap());
        let cut_short = SavedMemory::find(&folder).unwrap().unwrap();
        assert_eq!((cut_short.generation, cut_short.settled), (7, false));
        move_to(&folder.fresh_memory(), &folder.memory()).unwrap();
        let kept = SavedMemory::find(&folder).unwrap().unwrap();
        assert_eq!((kept.generation, kept.settled), (7, true));
        assert_eq!(verified(&kept).unwrap().slot, Some(3));

        for (name, text, said) in
            [("pages.img", "pagez", "pages.img differs"), ("7.json", "{}", "the manifest")]
        {
            let before = fs::read(kept.path.join(name)).unwrap();
            fs::write(kept.path.join(name), text).unwrap();
            let error = verified(&kept).unwrap_err();
            assert!(matches!(&error, EngineError::Damaged(what) if what.contains(said)), "{error:#}");
            fs::write(kept.path.join(name), before).unwrap();
        }
        let sums = read(&kept.path.join("7.json")).unwrap();
        let of_before = MemoryManifest {
            parts: sums
                .parts
                .iter()
                .map(|part| {
                    let mut file = File::open(kept.path.join(&part.name)).unwrap();
                    MemoryFile { sum: Checksum::sha256(&mut file).unwrap(), ..part.clone() }
                })
                .collect(),
            ..sums
        };
        let text = serde_json::to_string(&of_before).unwrap();
        assert!(text.contains(r#""bytes":5,"sha256":"#) && !text.contains("blake3"), "{text}");
        fs::write(kept.path.join("7.json"), text).unwrap();
        assert_eq!(verified(&kept).unwrap(), of_before, "an earlier version saved it");
        fs::remove_file(kept.path.join("checkpoint.img")).unwrap();
        assert!(
            matches!(verified(&kept), Err(EngineError::Damaged(what)) if what.contains("checkpoint.img"))
        );
    }

    #[test]
    fn memory_is_written_back_while_it_is_saved_and_the_outcome_is_that_of_the_save() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("memory");
        fs::create_dir(&path).unwrap();
        let save = || {
            fs::write(path.join("pages.img"), vec![7; 1 << 20]).unwrap();
            start_write_back(&path).unwrap();
            // A file that appears and one that goes between two looks, and a folder that is gone.
            fs::remove_dir_all(&path).unwrap();
            std::thread::sleep(WRITE_BACK_INTERVAL * 3);
            Ok(5)
        };
        assert_eq!(write_back_during(&path, save).unwrap(), 5);
        let failed = || Err::<(), _>(EngineError::failed("save", "no"));
        let error = format!("{:#}", write_back_during(&path, failed).unwrap_err());
        assert!(error.contains("no"), "{error}");
    }

    #[test]
    fn partly_linked_memory_does_not_count_and_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let of = |name: &str| Folder { id: ComputerId::random(), path: temp.path().join(name) };
        let (source, target) = (of("source"), of("target"));
        for folder in [&source, &target] {
            private_folder(&folder.path).unwrap();
        }
        saved(&source, &process::boot_id().unwrap());
        let kept = source.fresh_memory();
        // A folder cannot be hard-linked: it simulates a crash at this point.
        fs::create_dir(kept.join("kernel")).unwrap();
        link_from(&kept, &target).unwrap_err();
        assert!(target.fresh_memory().exists() && SavedMemory::find(&target).unwrap().is_none());
        drop_leftovers(&target).unwrap();
        assert_eq!(fs::read_dir(&target.path).unwrap().count(), 0);

        fs::remove_dir(kept.join("kernel")).unwrap();
        move_to(&link_from(&kept, &target).unwrap(), &target.memory()).unwrap();
        assert_eq!(verified(&SavedMemory::find(&target).unwrap().unwrap()).unwrap().slot, Some(3));
        assert_eq!(fs::read_dir(&target.path).unwrap().count(), 1);
    }

    #[test]
    fn a_suspend_interrupted_by_a_host_reboot_does_not_count() {
        let temp = tempfile::tempdir().unwrap();
        let folder = a_folder(temp.path());
        saved(&folder, "an earlier boot");
        assert!(SavedMemory::find(&folder).unwrap().is_none());
        drop_leftovers(&folder).unwrap();
        assert!(!folder.fresh_memory().exists());
    }
}
