//! Resize, egress policies and disk copies of simulated machines.

use std::fs;
use std::io;
use std::path::Path;

use crate::simulated::SimulatedEngine;
use crate::{Change, Effect, EngineError, EngineResult, MachineSpec};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

impl SimulatedEngine {
    /// A running machine has its new size at once if the engine has the capability; any other at its next
    /// start.
    pub(super) fn change(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        if !self.host.machine(id).is_dir() {
            return Err(EngineError::Absent);
        }
        if !self.host.running().contains_key(&id) {
            return Ok(Effect::AtNextStart);
        }
        let mut sizes = self.host.sizes();
        let Some(size) = sizes.get_mut(&id) else { return Ok(Effect::AtNextStart) };
        let live = match change {
            Change::Cpu(_) => self.capabilities_of(id).live_cpu,
            Change::Memory(_) => self.capabilities_of(id).live_ram,
            Change::Disk(_) => self.capabilities_of(id).live_disk,
            Change::Bandwidth(_) => true,
        };
        if !live {
            return Ok(Effect::AtNextStart);
        }
        match change {
            Change::Cpu(cpu) => size.cpu = cpu,
            Change::Memory(bytes) => size.memory_bytes = bytes,
            Change::Disk(bytes) => size.disk_bytes = bytes,
            Change::Bandwidth(mbps) => size.bandwidth_mbps = mbps,
        }
        Ok(Effect::Live)
    }

    /// A running machine has the policy at once, any other at its next start.
    pub(super) fn restrict(&self, id: ComputerId, policy: Option<&EgressPolicy>) -> EngineResult<()> {
        if !self.host.machine(id).is_dir() {
            return Err(EngineError::Absent);
        }
        if let Some(size) = self.host.sizes().get_mut(&id) {
            size.egress = policy.cloned();
        }
        Ok(())
    }

    pub(super) fn copy(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        let (source, target) = (self.host.machine(from), self.host.machine(to.id));
        if !source.is_dir() {
            return Err(EngineError::Absent);
        }
        if !self.capabilities_of(from).copy_while_running && self.host.running().contains_key(&from) {
            return Err(EngineError::Unsupported("copy the disk of a machine that runs"));
        }
        self.check_layers(from, to)?;
        self.note_isolation(to)?;
        self.host.layers().insert(to.id, to.layers.clone());
        copy_folder(&source.join("disk"), &target.join("disk"))
            .map_err(|error| EngineError::failed("copy the disk", error))
    }
}

pub(super) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &place)?;
        } else {
            fs::copy(entry.path(), &place)?;
        }
    }
    Ok(())
}
