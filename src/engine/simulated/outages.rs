//! Outages of the first host of the simulated engine, and replicas on the second.

use std::fs;
use std::path::PathBuf;

use crate::simulated::resize::copy_folder;
use crate::simulated::{SimulatedEngine, SimulatedHost, ids_in, ignore_missing};
use crate::{EngineError, EngineResult};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::host::outage::{HostOutage, HostState};

/// Host of all machines.
pub const FIRST_HOST: &str = "h1";
/// Host of all replicas.
pub const SECOND_HOST: &str = "h2";

impl SimulatedHost {
    /// The first host does not answer from now on. Its machines run on.
    pub fn cut(&self) {
        let mut cut_at = self.cut_at();
        if cut_at.is_none() {
            *cut_at = Some(clock::now());
        }
    }

    /// The first host answers again. Machines that began from a replica meanwhile stay on the second host.
    pub fn heal(&self) {
        *self.cut_at() = None;
    }

    /// The outage of a machine's host.
    pub(super) fn outage(&self, id: ComputerId) -> Option<HostOutage> {
        if self.moved().contains(&id) {
            return None;
        }
        let since = (*self.cut_at())?;
        Some(HostOutage { host: FIRST_HOST.to_owned(), since, is_removed: false })
    }

    pub(super) fn state_of(&self, host: &str) -> Option<HostState> {
        match host {
            FIRST_HOST if self.cut_at().is_some() => Some(HostState::Offline),
            FIRST_HOST | SECOND_HOST => Some(HostState::Online),
            _ => None,
        }
    }

    /// The folder of replicas. It is no machine, because its name is no id.
    fn replica_folder(&self) -> PathBuf {
        self.folder.join("replicas")
    }

    fn replica(&self, id: ComputerId) -> PathBuf {
        self.replica_folder().join(id.to_string())
    }
}

impl SimulatedEngine {
    /// Fails while the host of a machine does not answer.
    pub(super) fn check_answer(&self, id: ComputerId, step: &'static str) -> EngineResult<()> {
        match self.host.outage(id) {
            Some(outage) => Err(EngineError::failed(step, format!("{} does not answer", outage.host))),
            None => Ok(()),
        }
    }

    pub(super) fn copy_to_second_host(&self, id: ComputerId) -> EngineResult<String> {
        const STEP: &str = "refresh the replica";
        self.check_answer(id, STEP)?;
        if !self.host.machine(id).is_dir() {
            return Err(EngineError::Absent);
        }
        let replica = self.host.replica(id);
        ignore_missing(fs::remove_dir_all(&replica), STEP, &replica)?;
        copy_folder(&self.host.machine(id).join("disk"), &replica)
            .map_err(|error| EngineError::failed(STEP, error))?;
        Ok(SECOND_HOST.to_owned())
    }

    pub(super) fn list_replicas(&self) -> EngineResult<Vec<ComputerId>> {
        ids_in(&self.host.replica_folder(), "list the replicas")
    }

    pub(super) fn delete_replica(&self, id: ComputerId) -> EngineResult<()> {
        let replica = self.host.replica(id);
        ignore_missing(fs::remove_dir_all(&replica), "remove the replica", &replica)
    }

    pub(super) async fn move_to_second_host(&self, id: ComputerId) -> EngineResult<()> {
        const STEP: &str = "begin from the replica";
        if self.host.outage(id).is_none() {
            return Err(EngineError::failed(STEP, "its host answers"));
        }
        let (replica, disk) = (self.host.replica(id), self.host.machine(id).join("disk"));
        if !replica.is_dir() {
            return Err(EngineError::Absent);
        }
        // The machine of the first host ends with it.
        self.halt(id).await?;
        ignore_missing(fs::remove_dir_all(&disk), STEP, &disk)?;
        copy_folder(&replica, &disk).map_err(|error| EngineError::failed(STEP, error))?;
        self.delete_replica(id)?;
        self.host.moved().insert(id);
        if self.host.host_of(id).is_some() {
            self.host.put_on(id, SECOND_HOST);
        }
        Ok(())
    }
}
