//! How do simulated machines leave their host and come back? Their files do; their agents, which are their memory, wait on
//! the host by the side.
//!
//! The file `away` says "<generation>", and "<generation> <boot>" once the files are back in that boot of the host.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{SimulatedEngine, absent_is_fine};
use crate::saved::saved_file;
use crate::{EngineError, EngineResult, Extents, Place, SavedFile, SavedState};
use hotdesk_base::ids::ComputerId;

impl SimulatedEngine {
    /// Since which boot a machine's memory ran, and where it is; `None` for one that is simply here.
    pub(super) fn away(&self, id: ComputerId) -> EngineResult<Option<(u64, Place)>> {
        let text = match fs::read_to_string(self.host.machine(id).join("away")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(EngineError::failed("look whether it is away", error)),
        };
        let mut words = text.split(' ').map(str::parse::<u64>);
        let Some(Ok(generation)) = words.next() else {
            return Err(EngineError::failed("look whether it is away", text));
        };
        let arrived = words.next().is_some_and(|boot| boot == Ok(self.host.boots()));
        Ok(Some((generation, if arrived { Place::Arrived } else { Place::Away })))
    }

    pub(super) fn state_saved(&self, id: ComputerId) -> EngineResult<Option<SavedState>> {
        let away = self.away(id)?;
        if let Some((generation, Place::Away)) = away {
            return Ok(Some(SavedState { generation, place: Place::Away, files: Vec::new() }));
        }
        let saved = self.saved_since(id)?.filter(|_| !self.host.running().contains_key(&id));
        let Some(generation) = saved else { return Ok(None) };
        let place = away.map_or(Place::Here, |(_, place)| place);
        let machine = self.host.machine(id);
        let mut files = Vec::new();
        let listed = saved_file(&machine.join("memory"), "memory".to_owned(), false)
            .map(|memory| files.push(memory))
            .and_then(|()| walk(&machine, Path::new("disk"), &mut files));
        listed.map_err(|error| EngineError::failed("list the saved files", error))?;
        Ok(Some(SavedState { generation, place, files }))
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

    pub(super) fn send_away(&self, id: ComputerId) -> EngineResult<()> {
        let failed = |error: io::Error| EngineError::failed("evict the machine", error);
        let machine = self.host.machine(id);
        if !matches!(self.away(id)?, Some((_, Place::Away))) {
            let Some(state) = self.state_saved(id)? else {
                return Err(EngineError::failed("evict the machine", "it is not suspended"));
            };
            fs::write(machine.join("away"), state.generation.to_string()).map_err(failed)?;
            let agent = self.host.saved().get(&id).cloned();
            if let Some(agent) = agent {
                self.host.aside().insert(id, agent);
            }
        }
        for name in ["disk", "arriving"] {
            absent_is_fine(fs::remove_dir_all(machine.join(name)), "evict the machine", &machine)?;
        }
        self.discard(id)
    }

    pub(super) fn put_back(&self, id: ComputerId, file: &SavedFile, data: &Extents) -> EngineResult<()> {
        let failed = |error: io::Error| EngineError::failed("put a saved file back", error);
        if !matches!(self.away(id)?, Some((_, Place::Away))) {
            return Err(EngineError::failed("put a saved file back", "the machine is not away"));
        }
        let path = self.host.machine(id).join("arriving").join(inside(&file.name)?);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        data.write(&path, file.bytes).map_err(failed)
    }

    pub(super) fn take_back(&self, id: ComputerId, with_memory: bool) -> EngineResult<()> {
        let failed = |error: io::Error| EngineError::failed("take back what was fetched", error);
        let Some((generation, Place::Away)) = self.away(id)? else { return Ok(()) };
        let machine = self.host.machine(id);
        let arriving = machine.join("arriving");
        // A disk without files has none to be fetched.
        fs::create_dir_all(arriving.join("disk")).map_err(failed)?;
        if with_memory {
            let memory = arriving.join("memory");
            if !memory.exists() {
                return Err(EngineError::Damaged("the memory was not fetched".to_owned()));
            }
            fs::rename(memory, machine.join("memory")).map_err(failed)?;
            let agent = self.host.aside().get(&id).cloned();
            if let Some(agent) = agent {
                self.host.saved().insert(id, agent);
            }
        }
        fs::rename(arriving.join("disk"), machine.join("disk")).map_err(failed)?;
        fs::remove_dir_all(&arriving).map_err(failed)?;
        fs::write(machine.join("away"), format!("{generation} {}", self.host.boots())).map_err(failed)
    }

    /// Parts with what is in storage.
    pub(super) fn part(&self, id: ComputerId) -> EngineResult<()> {
        const STEP: &str = "part with what is in storage";
        self.host.aside().remove(&id);
        let machine = self.host.machine(id);
        let (away, arriving) = (machine.join("away"), machine.join("arriving"));
        absent_is_fine(fs::remove_file(&away), STEP, &away)?;
        absent_is_fine(fs::remove_dir_all(&arriving), STEP, &arriving)
    }

    pub(super) fn settle(&self, id: ComputerId) -> EngineResult<()> {
        match self.away(id)? {
            None => Ok(()),
            Some((_, Place::Arrived)) => self.part(id),
            Some((_, Place::Here | Place::Away)) => {
                Err(EngineError::failed("settle what was fetched", "it did not arrive"))
            }
        }
    }
}

/// A name that leads to memory or into the disk.
fn inside(name: &str) -> EngineResult<&Path> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && (name == "memory" || path.starts_with("disk")) {
        Ok(path)
    } else {
        Err(EngineError::failed("name a saved file", format!("{name:?} is none")))
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
