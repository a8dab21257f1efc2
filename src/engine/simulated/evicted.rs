//! Eviction and fetch of simulated machines: their files move; their agents, which are their memory, stay on
//! the host.
//!
//! The file `away` has "<generation>", and "<generation> <boot>" once the files were fetched in that boot of
//! the host.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::simulated::{SimulatedEngine, ignore_missing};
use crate::state::saved::saved_file;
use crate::{EngineError, EngineResult, Extents, SavedFile, SavedLocation, SavedState};
use hotdesk_base::ids::ComputerId;

impl SimulatedEngine {
    /// The generation and location of an evicted or fetched machine; `None` for any other.
    pub(super) fn eviction(&self, id: ComputerId) -> EngineResult<Option<(u64, SavedLocation)>> {
        let text = match fs::read_to_string(self.host.machine(id).join("away")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(EngineError::failed("read the eviction record", error)),
        };
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let Some(Ok(generation)) = numbers.next() else {
            return Err(EngineError::failed("read the eviction record", text));
        };
        let fetched = numbers.next().is_some_and(|boot| boot == Ok(self.host.boots()));
        Ok(Some((generation, if fetched { SavedLocation::Fetched } else { SavedLocation::Evicted })))
    }

    pub(super) fn describe_saved(&self, id: ComputerId) -> EngineResult<Option<SavedState>> {
        let away = self.eviction(id)?;
        if let Some((generation, SavedLocation::Evicted)) = away {
            return Ok(Some(SavedState { generation, location: SavedLocation::Evicted, files: Vec::new() }));
        }
        let saved = self.saved_since(id)?.filter(|_| !self.host.running().contains_key(&id));
        let Some(generation) = saved else { return Ok(None) };
        let location = away.map_or(SavedLocation::Local, |(_, location)| location);
        let machine = self.host.machine(id);
        let mut files = Vec::new();
        let listed = saved_file(&machine.join("memory"), "memory".to_owned(), false)
            .map(|memory| files.push(memory))
            .and_then(|()| walk(&machine, Path::new("disk"), &mut files));
        listed.map_err(|error| EngineError::failed("list the saved files", error))?;
        Ok(Some(SavedState { generation, location, files }))
    }

    pub(super) fn read_file(
        &self,
        id: ComputerId,
        name: &str,
        from: u64,
        most: usize,
    ) -> EngineResult<Extents> {
        let path = self.host.machine(id).join(inside(name)?);
        let read = File::open(path).and_then(|file| Extents::read(&file, from, most));
        read.map_err(|error| EngineError::failed("read a saved file", error))
    }

    pub(super) fn evict_machine(&self, id: ComputerId) -> EngineResult<()> {
        let failed = |error: io::Error| EngineError::failed("evict the machine", error);
        let machine = self.host.machine(id);
        if !matches!(self.eviction(id)?, Some((_, SavedLocation::Evicted))) {
            let Some(state) = self.describe_saved(id)? else {
                return Err(EngineError::failed("evict the machine", "it is not suspended"));
            };
            fs::write(machine.join("away"), state.generation.to_string()).map_err(failed)?;
            let agent = self.host.suspended().get(&id).cloned();
            if let Some(agent) = agent {
                self.host.evicted_agents().insert(id, agent);
            }
        }
        for name in ["disk", "arriving"] {
            ignore_missing(fs::remove_dir_all(machine.join(name)), "evict the machine", &machine)?;
        }
        self.discard(id)
    }

    pub(super) fn write_fetched(&self, id: ComputerId, file: &SavedFile, data: &Extents) -> EngineResult<()> {
        let failed = |error: io::Error| EngineError::failed("write a fetched file", error);
        if !matches!(self.eviction(id)?, Some((_, SavedLocation::Evicted))) {
            return Err(EngineError::failed("write a fetched file", "the machine is not evicted"));
        }
        let path = self.host.machine(id).join("arriving").join(inside(&file.name)?);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        data.write(&path, file.bytes).map_err(failed)
    }

    pub(super) fn install_fetched(&self, id: ComputerId, with_memory: bool) -> EngineResult<()> {
        let failed = |error: io::Error| EngineError::failed("install the fetched files", error);
        let Some((generation, SavedLocation::Evicted)) = self.eviction(id)? else { return Ok(()) };
        let machine = self.host.machine(id);
        let arriving = machine.join("arriving");
        // A disk without files has nothing to fetch.
        fs::create_dir_all(arriving.join("disk")).map_err(failed)?;
        if with_memory {
            let memory = arriving.join("memory");
            if !memory.exists() {
                return Err(EngineError::Damaged("the memory was not fetched".to_owned()));
            }
            fs::rename(memory, machine.join("memory")).map_err(failed)?;
            let agent = self.host.evicted_agents().get(&id).cloned();
            if let Some(agent) = agent {
                self.host.suspended().insert(id, agent);
            }
        }
        fs::rename(arriving.join("disk"), machine.join("disk")).map_err(failed)?;
        fs::remove_dir_all(&arriving).map_err(failed)?;
        fs::write(machine.join("away"), format!("{generation} {}", self.host.boots())).map_err(failed)
    }

    /// Forgets the evicted state.
    pub(super) fn forget_eviction(&self, id: ComputerId) -> EngineResult<()> {
        const STEP: &str = "forget the evicted state";
        self.host.evicted_agents().remove(&id);
        let machine = self.host.machine(id);
        let (away, arriving) = (machine.join("away"), machine.join("arriving"));
        ignore_missing(fs::remove_file(&away), STEP, &away)?;
        ignore_missing(fs::remove_dir_all(&arriving), STEP, &arriving)
    }

    pub(super) fn sync_fetched_files(&self, id: ComputerId) -> EngineResult<()> {
        match self.eviction(id)? {
            None => Ok(()),
            Some((_, SavedLocation::Fetched)) => self.forget_eviction(id),
            Some((_, SavedLocation::Local | SavedLocation::Evicted)) => {
                Err(EngineError::failed("sync the fetched files", "the fetch is not finished"))
            }
        }
    }
}

/// The path of a saved file; rejects names that lead elsewhere.
fn inside(name: &str) -> EngineResult<&Path> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && (name == "memory" || path.starts_with("disk")) {
        Ok(path)
    } else {
        Err(EngineError::failed("find a saved file", format!("{name:?} is not a name of a saved file")))
    }
}

fn walk(machine: &Path, folder: &Path, found: &mut Vec<SavedFile>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(machine.join(folder))? {
        entries.push(folder.join(entry?.file_name()));
    }
    entries.sort();
    for path in entries {
        if machine.join(&path).is_dir() {
            walk(machine, &path, found)?;
        } else {
            found.push(saved_file(&machine.join(&path), path.to_string_lossy().into_owned(), true)?);
        }
    }
    Ok(())
}
