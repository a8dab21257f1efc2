//! What of a machine's memory is on the host's disk, and is it whole?
//!
//! ```text
//! <machine>/memory.new/    being saved; whole when the manifest is there, which is written last
//!          /memory/        saved: <generation>.json, the manifest, and what `runsc` wrote
//!          /memory.used/   being continued: the guest may have run on since, and changed its disk
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::command::host_error;
use super::layout::{Folder, StateDir, private_folder, sync_folder, write_durably};
use super::{process, trash};
use crate::{EngineError, EngineResult};
use hotdesk_base::hex::hex;

/// Reads per piece while summing: the disk's own read-ahead does the rest.
const PIECE: usize = 1 << 20;

/// What saved memory needs again, and what it is told by.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Manifest {
    /// The host's boot in which it was saved.
    pub(super) host_boot: String,
    /// The runtime's version: another may not read what this one wrote.
    pub(super) runtime: String,
    /// The image's folder.
    pub(super) image: PathBuf,
    /// The host name that the guest's kernel remembers; memory of earlier versions lacks it.
    #[serde(default)]
    pub(super) hostname: Option<String>,
    /// The slot, by which programs know their address.
    pub(super) slot: Option<u16>,
    /// Every file that was written.
    pub(super) parts: Vec<Part>,
}

/// One file.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Part {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Memory that waits to be continued.
#[derive(Debug)]
pub(super) struct Saved {
    /// Where it is.
    pub(super) path: PathBuf,
    /// The boot that it ran since; 0 where nothing tells any more, which no boot has.
    pub(super) generation: u64,
    /// Whether nothing of its machine runs any more and its disk is at rest.
    pub(super) settled: bool,
}

impl Saved {
    /// What of a machine waits to be continued. A suspend that was cut short after its memory was whole counts, while the
    /// host has not booted since: the guest stood still from then on.
    pub(super) fn find(folder: &Folder) -> EngineResult<Option<Self>> {
        let failed = host_error("look for saved memory", &folder.path);
        let path = folder.memory();
        if path.try_exists().map_err(&failed)? {
            let generation = manifest_of(&path).map_err(&failed)?.map_or(0, |(generation, _)| generation);
            return Ok(Some(Self { path, generation, settled: true }));
        }
        let path = folder.fresh_memory();
        let Some((generation, manifest)) = manifest_of(&path).map_err(&failed)? else { return Ok(None) };
        let host_boot = process::boot_id().map_err(&failed)?;
        let stood_still = read(&manifest).is_ok_and(|manifest| manifest.host_boot == host_boot);
        Ok(stood_still.then_some(Self { path, generation, settled: false }))
    }

    /// What was saved, when every byte of it is as it was written.
    ///
    /// # Errors
    /// `Damaged`, naming what differs.
    pub(super) fn verify(&self) -> EngineResult<Manifest> {
        let damaged = |what: String| EngineError::Damaged(format!("{}: {what}", self.path.display()));
        let found = manifest_of(&self.path).map_err(host_error("look for saved memory", &self.path))?;
        let (_, path) = found.ok_or_else(|| damaged("the manifest is missing".to_owned()))?;
        let manifest = read(&path).map_err(|error| damaged(format!("the manifest: {error}")))?;
        for part in &manifest.parts {
            let found = Part::of(&self.path, &part.name)
                .map_err(|error| damaged(format!("{}: {error}", part.name)))?;
            if found != *part {
                return Err(damaged(format!("{} is not what was written", part.name)));
            }
        }
        Ok(manifest)
    }
}

impl Part {
    fn of(folder: &Path, name: &str) -> io::Result<Self> {
        use io::Read;
        let mut file = File::open(folder.join(name))?;
        let (mut sum, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
        loop {
            let length = file.read(&mut piece)?;
            let Some(read) = piece.get(..length).filter(|read| !read.is_empty()) else { break };
            sum.update(read);
            bytes += length as u64;
        }
        Ok(Self { name: name.to_owned(), bytes, sha256: hex(&sum.finalize()) })
    }
}

/// The manifest's path and the generation that its name tells.
fn manifest_of(folder: &Path) -> io::Result<Option<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let told =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".json"));
        if let Some(generation) = told.and_then(|told| told.parse().ok()) {
            return Ok(Some((generation, path)));
        }
    }
    Ok(None)
}

fn read(manifest: &Path) -> io::Result<Manifest> {
    serde_json::from_slice(&fs::read(manifest)?).map_err(io::Error::from)
}

/// An empty folder for memory that is about to be saved.
pub(super) fn fresh(folder: &Folder) -> EngineResult<PathBuf> {
    let path = folder.fresh_memory();
    trash::remove_tree(&path)?;
    private_folder(&path).map_err(host_error("make room for memory", &path))?;
    Ok(path)
}

/// Memory that is kept elsewhere, under names among what is being saved. As there the manifest comes last: what a crash cuts
/// short is no memory.
pub(super) fn linked(kept: &Path, folder: &Folder) -> EngineResult<PathBuf> {
    let path = fresh(folder)?;
    let failed = host_error("link the kept memory", &path);
    let manifest = manifest_of(kept).map_err(&failed)?.map(|(_, manifest)| manifest);
    let mut files = Vec::new();
    for entry in fs::read_dir(kept).map_err(&failed)? {
        files.push(entry.map_err(&failed)?.path());
    }
    files.sort_by_key(|file| Some(file) == manifest.as_ref());
    for file in files {
        fs::hard_link(&file, path.join(file.file_name().unwrap_or_default())).map_err(&failed)?;
    }
    sync_folder(&path).map_err(&failed)?;
    Ok(path)
}

/// Sums what was written, brings it to the disk, and says last that it is whole.
pub(super) fn seal(
    path: &Path,
    generation: u64,
    manifest: impl FnOnce(Vec<Part>) -> Manifest,
) -> EngineResult<()> {
    const STEP: &str = "seal the saved memory";
    let failed = host_error(STEP, path);
    let mut parts = Vec::new();
    for entry in fs::read_dir(path).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        parts.push(Part::of(path, &entry.file_name().to_string_lossy()).map_err(&failed)?);
        File::open(entry.path()).and_then(|file| file.sync_all()).map_err(&failed)?;
    }
    let text =
        serde_json::to_vec_pretty(&manifest(parts)).map_err(|error| EngineError::failed(STEP, error))?;
    write_durably(&path.join(format!("{generation}.json")), &text).map_err(&failed)
}

/// Moves memory on to its next stage.
pub(super) fn becomes(from: &Path, to: &Path) -> EngineResult<()> {
    let failed = host_error("move the saved memory", from);
    fs::rename(from, to).and_then(|()| sync_folder(to.parent().unwrap_or(to))).map_err(failed)
}

/// Removes what nobody can continue: memory that was used, and what a cut suspend had not made whole.
pub(super) fn drop_leftovers(folder: &Folder) -> EngineResult<()> {
    trash::remove_tree(&folder.used_memory())?;
    match Saved::find(folder)? {
        Some(saved) if !saved.settled => Ok(()),
        Some(_) | None => trash::remove_tree(&folder.fresh_memory()),
    }
}

/// Removes all memory of a machine. It leaves its place at once and whole.
pub(super) fn discard(state: &StateDir, folder: &Folder) -> EngineResult<()> {
    for path in [folder.memory(), folder.fresh_memory()] {
        if path.try_exists().map_err(host_error("look for saved memory", &path))? {
            let trash = state.trash().join(format!("{}.{}", folder.id, uuid::Uuid::new_v4().simple()));
            becomes(&path, &trash)?;
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
        let path = fresh(folder).unwrap();
        fs::write(path.join("pages.img"), "pages").unwrap();
        fs::write(path.join("checkpoint.img"), "kernel").unwrap();
        let manifest = |parts| Manifest {
            host_boot: host_boot.to_owned(),
            runtime: "runsc 1".to_owned(),
            image: PathBuf::from("/image"),
            hostname: None,
            slot: Some(3),
            parts,
        };
        seal(&path, 7, manifest).unwrap();
    }

    #[test]
    fn memory_is_found_once_it_is_whole_and_verified_byte_by_byte() {
        let temp = tempfile::tempdir().unwrap();
        let folder = a_folder(temp.path());
        assert!(Saved::find(&folder).unwrap().is_none());
        saved(&folder, &process::boot_id().unwrap());
        let cut_short = Saved::find(&folder).unwrap().unwrap();
        assert_eq!((cut_short.generation, cut_short.settled), (7, false));
        becomes(&folder.fresh_memory(), &folder.memory()).unwrap();
        let kept = Saved::find(&folder).unwrap().unwrap();
        assert_eq!((kept.generation, kept.settled), (7, true));
        assert_eq!(kept.verify().unwrap().slot, Some(3));

        for (name, text, said) in
            [("pages.img", "pagez", "pages.img is not"), ("7.json", "{}", "the manifest")]
        {
            let before = fs::read(kept.path.join(name)).unwrap();
            fs::write(kept.path.join(name), text).unwrap();
            let error = kept.verify().unwrap_err();
            assert!(matches!(&error, EngineError::Damaged(what) if what.contains(said)), "{error}");
            fs::write(kept.path.join(name), before).unwrap();
        }
        fs::remove_file(kept.path.join("checkpoint.img")).unwrap();
        assert!(matches!(kept.verify(), Err(EngineError::Damaged(what)) if what.contains("checkpoint.img")));
    }

    #[test]
    fn what_a_crash_leaves_of_memory_that_is_linked_is_no_memory_and_goes() {
        let temp = tempfile::tempdir().unwrap();
        let of = |name: &str| Folder { id: ComputerId::random(), path: temp.path().join(name) };
        let (source, target) = (of("source"), of("target"));
        for folder in [&source, &target] {
            private_folder(&folder.path).unwrap();
        }
        saved(&source, &process::boot_id().unwrap());
        let kept = source.fresh_memory();
        // What cannot be linked stands for the moment of a crash: a folder.
        fs::create_dir(kept.join("kernel")).unwrap();
        linked(&kept, &target).unwrap_err();
        assert!(target.fresh_memory().exists() && Saved::find(&target).unwrap().is_none());
        drop_leftovers(&target).unwrap();
        assert_eq!(fs::read_dir(&target.path).unwrap().count(), 0);

        fs::remove_dir(kept.join("kernel")).unwrap();
        becomes(&linked(&kept, &target).unwrap(), &target.memory()).unwrap();
        assert_eq!(Saved::find(&target).unwrap().unwrap().verify().unwrap().slot, Some(3));
        assert_eq!(fs::read_dir(&target.path).unwrap().count(), 1);
    }

    #[test]
    fn a_suspend_cut_short_by_the_host_s_end_counts_for_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let folder = a_folder(temp.path());
        saved(&folder, "an earlier boot");
        assert!(Saved::find(&folder).unwrap().is_none());
        drop_leftovers(&folder).unwrap();
        assert!(!folder.fresh_memory().exists());
    }
}
