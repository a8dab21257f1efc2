//! Simulated hosts: names, whether they answer, and where each machine is. Machines of all hosts share one folder.

use crate::simulated::{SimulatedEngine, SimulatedHost};
use crate::{EngineError, EngineResult, HostObservation};
use hotdesk_base::ids::ComputerId;

/// Processors of each host.
const CPUS: u32 = 16;
/// Bytes of memory of each host.
const MEMORY: u64 = 64 << 30;
/// Bytes of disk of each host.
const DISK: u64 = 1 << 40;

impl SimulatedHost {
    /// Replaces the hosts of the cluster; all answer. Machines stay where they are.
    pub fn set_hosts(&self, names: &[&str]) {
        self.cluster().hosts = names.iter().map(|name| ((*name).to_owned(), true)).collect();
    }

    /// Sets whether a host answers. Machines on one that does not answer cannot be moved.
    pub fn set_online(&self, host: &str, is_online: bool) {
        self.cluster().hosts.insert(host.to_owned(), is_online);
    }

    /// The host of a machine.
    pub fn host_of(&self, id: ComputerId) -> Option<String> {
        self.cluster().machines.get(&id).cloned()
    }

    /// Puts a machine on a host, as an operator can without the controller.
    pub fn put_on(&self, id: ComputerId, host: &str) {
        self.cluster().machines.insert(id, host.to_owned());
    }

    pub(super) fn observe_hosts(&self) -> Vec<HostObservation> {
        let observe = |(name, is_online): (&String, &bool)| HostObservation {
            name: name.clone(),
            is_online: *is_online,
            message: if *is_online { String::new() } else { "it does not answer".to_owned() },
            cpus: CPUS,
            memory_bytes: MEMORY,
            memory_free_bytes: MEMORY,
            disk_bytes: DISK,
            disk_free_bytes: DISK,
            has_image: true,
        };
        self.cluster().hosts.iter().map(observe).collect()
    }

    /// Puts a new machine on the first host, as a cluster that chooses itself.
    pub(super) fn put_on_any(&self, id: ComputerId) {
        let mut cluster = self.cluster();
        if let Some(first) = cluster.hosts.keys().next().cloned() {
            cluster.machines.entry(id).or_insert(first);
        }
    }

    /// Puts a copy on the host of its source.
    pub(super) fn put_beside(&self, from: ComputerId, to: ComputerId) {
        let mut cluster = self.cluster();
        if let Some(host) = cluster.machines.get(&from).cloned() {
            cluster.machines.insert(to, host);
        }
    }

    pub(super) fn leave_host(&self, id: ComputerId) {
        self.cluster().machines.remove(&id);
    }
}

impl SimulatedEngine {
    pub(super) fn move_to(&self, id: ComputerId, to: &str) -> EngineResult<()> {
        const STEP: &str = "move the machine";
        if !self.host.machine(id).is_dir() {
            return Err(EngineError::Absent);
        }
        if self.host.running().contains_key(&id) {
            return Err(EngineError::failed(STEP, "it runs"));
        }
        let mut cluster = self.host.cluster();
        let from = cluster.machines.get(&id).cloned().unwrap_or_default();
        if from == to {
            return Ok(());
        }
        for host in [from.as_str(), to] {
            if cluster.hosts.get(host) != Some(&true) {
                return Err(EngineError::failed(STEP, format!("host {host:?} does not answer")));
            }
        }
        cluster.machines.insert(id, to.to_owned());
        Ok(())
    }
}
