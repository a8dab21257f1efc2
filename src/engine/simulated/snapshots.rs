//! Snapshots and forks of simulated machines: the disk is a copied folder, the memory a copied
//! [`SimulatedMemory`] for a new agent.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::simulated::host::{AgentBoot, SuspendedAgent};
use crate::simulated::resize::copy_folder;
use crate::simulated::{SimulatedEngine, ids_in, ignore_missing};
use crate::{EngineError, EngineResult, MachineSpec, Snapshot};
use hotdesk_base::ids::ComputerId;

impl SimulatedEngine {
    fn snapshot_folder(&self, id: ComputerId, snapshot: Uuid) -> PathBuf {
        self.host.machine(id).join("snapshots").join(snapshot.to_string())
    }

    /// A copy of a running machine with its memory; `None` when it does not run.
    fn copy_running(&self, id: ComputerId) -> Option<AgentBoot> {
        let size = self.host.size(id);
        self.host.running().get(&id).map(|running| {
            let memory = running.agent_boot.memory.copy();
            let spec = size.unwrap_or_else(|| running.agent_boot.spec.clone());
            AgentBoot { memory, spec, ..running.agent_boot.clone() }
        })
    }

    /// Installs memory, as if the machine had been suspended with it.
    fn put_memory(&self, id: ComputerId, agent_boot: AgentBoot) -> EngineResult<()> {
        let generation = agent_boot.boot.generation;
        // Resumed memory has the size of the machine that it comes from.
        self.host.sizes().insert(id, agent_boot.spec.clone());
        let agent = (self.host.agent)(&agent_boot);
        self.host.suspended().insert(id, SuspendedAgent { agent, agent_boot });
        fs::write(self.host.memory(id), super::memory::whole(generation))
            .map_err(|error| EngineError::failed("copy memory", error))
    }

    pub(super) fn fork_machine(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        if !self.capabilities_of(from).memory_snapshot {
            return Err(EngineError::Unsupported("copy memory"));
        }
        if self.host.memory(to.id).exists() {
            return Ok(());
        }
        if !self.host.machine(from).is_dir() {
            return Err(EngineError::Absent);
        }
        self.check_layers(from, to)?;
        let Some(agent_boot) = self.copy_running(from) else {
            return Err(EngineError::failed("copy memory", "the machine does not run"));
        };
        self.begin(to, &self.host.machine(from).join("disk"), agent_boot)
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
        let agent_boot = self.host.snapshot_memory().get(&(from, snapshot)).cloned();
        let Some(agent_boot) = agent_boot else {
            return Err(EngineError::Damaged(format!("there is no snapshot {snapshot}")));
        };
        self.check_layers(from, to)?;
        let memory = agent_boot.memory.copy();
        self.begin(to, &self.snapshot_folder(from, snapshot), AgentBoot { memory, ..agent_boot })
    }

    /// Makes a suspended machine from a disk and memory of another.
    fn begin(&self, to: &MachineSpec, disk_of: &Path, agent_boot: AgentBoot) -> EngineResult<()> {
        self.note_isolation(to)?;
        self.host.layers().insert(to.id, to.layers.clone());
        let disk = self.host.machine(to.id).join("disk");
        copy_folder(disk_of, &disk).map_err(|error| EngineError::failed("copy the disk", error))?;
        self.host.sizes().insert(to.id, to.clone());
        self.put_memory(to.id, AgentBoot { spec: to.clone(), disk, ..agent_boot })
    }

    pub(super) fn take_snapshot(
        &self,
        id: ComputerId,
        snapshot: Uuid,
        memory: bool,
    ) -> EngineResult<Snapshot> {
        const STEP: &str = "take a snapshot";
        if memory && !self.capabilities_of(id).memory_snapshot {
            return Err(EngineError::Unsupported("snapshot memory"));
        }
        let (machine, folder) = (self.host.machine(id), self.snapshot_folder(id, snapshot));
        if !machine.is_dir() {
            return Err(EngineError::Absent);
        }
        let failed = |error: io::Error| EngineError::failed(STEP, error);
        if !folder.is_dir() {
            let agent_boot = self.copy_running(id);
            if memory && agent_boot.is_none() {
                return Err(EngineError::failed(STEP, "the machine does not run"));
            }
            copy_folder(&machine.join("disk"), &folder).map_err(failed)?;
            if let Some(agent_boot) = agent_boot.filter(|_| memory) {
                self.host.snapshot_memory().insert((id, snapshot), agent_boot);
            }
        }
        let memory = self.host.snapshot_memory().contains_key(&(id, snapshot));
        Ok(Snapshot { bytes: size_of(&folder).map_err(failed)?, memory })
    }

    pub(super) fn roll_back(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        const STEP: &str = "roll the disk back";
        let (disk, folder) = (self.host.machine(id).join("disk"), self.snapshot_folder(id, snapshot));
        if self.host.running().contains_key(&id) {
            return Err(EngineError::failed(STEP, "the machine runs"));
        }
        if !folder.is_dir() {
            return Err(EngineError::Damaged(format!("there is no snapshot {snapshot}")));
        }
        self.discard(id)?;
        ignore_missing(fs::remove_dir_all(&disk), STEP, &disk)?;
        copy_folder(&folder, &disk).map_err(|error| EngineError::failed(STEP, error))?;
        let agent_boot = self.host.snapshot_memory().get(&(id, snapshot)).cloned();
        if let Some(agent_boot) = agent_boot {
            self.put_memory(id, AgentBoot { memory: agent_boot.memory.copy(), ..agent_boot })?;
        }
        self.forget_eviction(id)
    }

    pub(super) fn delete_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.host.snapshot_memory().remove(&(id, snapshot));
        let folder = self.snapshot_folder(id, snapshot);
        ignore_missing(fs::remove_dir_all(&folder), "remove the snapshot", &folder)
    }

    pub(super) fn list_snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        ids_in(&self.host.machine(id).join("snapshots"), "list the snapshots")
    }
}

/// Bytes of the files below a folder.
pub(super) fn size_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
