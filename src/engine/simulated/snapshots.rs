//! How are simulated machines kept as they are at one moment, and forked? The disk is a folder to be copied; the memory is
//! what the agent keeps in [`Remembered`], from which another agent is made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::hardware::copy_folder;
use super::host::{Birth, Saved};
use super::{SimulatedEngine, absent_is_fine, ids_in};
use crate::{EngineError, EngineResult, MachineSpec, Snapshot};
use hotdesk_base::ids::ComputerId;

impl SimulatedEngine {
    fn snapshot_folder(&self, id: ComputerId, snapshot: Uuid) -> PathBuf {
        self.host.machine(id).join("snapshots").join(snapshot.to_string())
    }

    /// What a machine that runs is and remembers, apart from what it remembers from now on.
    fn alike(&self, id: ComputerId) -> Option<Birth> {
        let size = self.host.size(id);
        self.host.running().get(&id).map(|running| {
            let memory = running.birth.memory.copied();
            let spec = size.unwrap_or_else(|| running.birth.spec.clone());
            Birth { memory, spec, ..running.birth.clone() }
        })
    }

    /// Puts memory in place, as if the machine had been suspended with it.
    fn put_memory(&self, id: ComputerId, birth: Birth) -> EngineResult<()> {
        let generation = birth.boot.generation;
        // It goes on in a machine of the size that it knows.
        self.host.sizes().insert(id, birth.spec.clone());
        let agent = (self.host.agent)(&birth);
        self.host.saved().insert(id, Saved { agent, birth });
        fs::write(self.host.memory(id), super::memory::whole(generation))
            .map_err(|error| EngineError::failed("copy memory", error))
    }

    pub(super) fn fork_machine(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        if !self.capabilities.memory_snapshot {
            return Err(EngineError::Unsupported("copy memory"));
        }
        if self.host.memory(to.id).exists() {
            return Ok(());
        }
        if !self.host.machine(from).is_dir() {
            return Err(EngineError::Absent);
        }
        let Some(birth) = self.alike(from) else {
            return Err(EngineError::failed("copy memory", "the machine does not run"));
        };
        self.begin(to, &self.host.machine(from).join("disk"), birth)
    }

    pub(super) fn launch_machine(
        &self,
        from: ComputerId,
        snapshot: Uuid,
        to: &MachineSpec,
    ) -> EngineResult<()> {
        if self.host.memory(to.id).exists() {
            return Ok(());
        }
        let birth = self.host.kept().get(&(from, snapshot)).cloned();
        let Some(birth) = birth else {
            return Err(EngineError::Damaged(format!("snapshot {snapshot} is not there")));
        };
        let memory = birth.memory.copied();
        self.begin(to, &self.snapshot_folder(from, snapshot), Birth { memory, ..birth })
    }

    /// Makes a machine that begins with a disk and a memory that were another's.
    fn begin(&self, to: &MachineSpec, disk_of: &Path, birth: Birth) -> EngineResult<()> {
        let disk = self.host.machine(to.id).join("disk");
        copy_folder(disk_of, &disk).map_err(|error| EngineError::failed("copy the disk", error))?;
        self.host.sizes().insert(to.id, to.clone());
        self.put_memory(to.id, Birth { spec: to.clone(), disk, ..birth })
    }

    pub(super) fn keep(&self, id: ComputerId, snapshot: Uuid, memory: bool) -> EngineResult<Snapshot> {
        const STEP: &str = "keep the machine";
        if memory && !self.capabilities.memory_snapshot {
            return Err(EngineError::Unsupported("keep memory"));
        }
        let (machine, kept) = (self.host.machine(id), self.snapshot_folder(id, snapshot));
        if !machine.is_dir() {
            return Err(EngineError::Absent);
        }
        let failed = |error: io::Error| EngineError::failed(STEP, error);
        if !kept.is_dir() {
            let birth = self.alike(id);
            if memory && birth.is_none() {
                return Err(EngineError::failed(STEP, "the machine does not run"));
            }
            copy_folder(&machine.join("disk"), &kept).map_err(failed)?;
            if let Some(birth) = birth.filter(|_| memory) {
                self.host.kept().insert((id, snapshot), birth);
            }
        }
        let memory = self.host.kept().contains_key(&(id, snapshot));
        Ok(Snapshot { bytes: size_of(&kept).map_err(failed)?, memory })
    }

    pub(super) fn roll_back(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        const STEP: &str = "roll the disk back";
        let (disk, kept) = (self.host.machine(id).join("disk"), self.snapshot_folder(id, snapshot));
        if self.host.running().contains_key(&id) {
            return Err(EngineError::failed(STEP, "the machine runs"));
        }
        if !kept.is_dir() {
            return Err(EngineError::Damaged(format!("snapshot {snapshot} is not there")));
        }
        self.discard(id)?;
        absent_is_fine(fs::remove_dir_all(&disk), STEP, &disk)?;
        copy_folder(&kept, &disk).map_err(|error| EngineError::failed(STEP, error))?;
        let birth = self.host.kept().get(&(id, snapshot)).cloned();
        if let Some(birth) = birth {
            self.put_memory(id, Birth { memory: birth.memory.copied(), ..birth })?;
        }
        self.part(id)
    }

    pub(super) fn forget(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.host.kept().remove(&(id, snapshot));
        let kept = self.snapshot_folder(id, snapshot);
        absent_is_fine(fs::remove_dir_all(&kept), "remove the snapshot", &kept)
    }

    pub(super) fn kept(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        ids_in(&self.host.machine(id).join("snapshots"), "list the snapshots")
    }
}

/// Bytes of the files below a folder.
fn size_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
