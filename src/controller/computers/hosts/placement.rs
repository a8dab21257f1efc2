//! Placement of new computers on hosts.

use std::time::{Duration, Instant};

use crate::computers::runner::refused;
use crate::computers::runner::registry::FleetState;
use hotdesk_base::ids::WorkspaceId;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::Result;
use hotdesk_domain::host::placement::{HostCandidate, choose_host, takes_memory};
use hotdesk_engine::HostObservation;
use hotdesk_store::fleet::computers::Computer;

/// Time in which one look at all hosts serves all placements. It costs some calls to each of them, and what computers were
/// promised meanwhile is counted from their rows.
const REUSE: Duration = Duration::from_secs(3);

/// Bytes in a GB of RAM.
const GB: u64 = 1 << 30;

impl FleetState {
    /// Chooses the host of a new computer, and stores it. With `spread`, one with few computers of the same workspace is
    /// preferred. `None` where the engine has no hosts.
    ///
    /// # Errors
    /// `Unavailable` (`no_capacity`) when no host takes computers; the engine's failure; `Unavailable` or `Internal` when the
    /// store fails.
    pub(in crate::computers) async fn place(&self, row: &Computer, spread: bool) -> Result<Option<String>> {
        // One placement at a time, until its choice is stored: the next one counts it.
        let mut seen = self.placement.lock().await;
        if seen.as_ref().is_none_or(|(at, _)| at.elapsed() >= REUSE) {
            let hosts = self.engine.hosts().await;
            let hosts = hosts.map_err(|error| refused("Computer could not be created", &error))?;
            *seen = Some((Instant::now(), hosts));
        }
        let hosts = seen.as_ref().map(|(_, hosts)| hosts.as_slice()).unwrap_or_default();
        if hosts.is_empty() {
            return Ok(None);
        }
        let candidates = self.host_candidates(hosts, spread.then_some(row.workspace)).await?;
        let chosen = choose_host(&candidates, memory_of(row), None, None)?.to_owned();
        self.store.set_host(row.id, Some(&chosen)).await?;
        Ok(Some(chosen))
    }

    /// Adds to observed hosts what is promised to their computers, and their drains. `apart_from` is a workspace whose
    /// computers are avoided: those that do not run begin again on their host, so that they count, too.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub(in crate::computers) async fn host_candidates(
        &self,
        hosts: &[HostObservation],
        apart_from: Option<WorkspaceId>,
    ) -> Result<Vec<HostCandidate>> {
        let (drains, computers) = (self.store.host_drains().await?, self.store.all_computers().await?);
        let candidate = |host: &HostObservation| {
            let own = || computers.iter().filter(|it| it.host.as_deref() == Some(host.name.as_str()));
            let active = || own().filter(|computer| takes_memory(computer.status));
            let is_avoided = |computer: &&Computer| {
                Some(computer.workspace) == apart_from && computer.status != Status::Deleting
            };
            HostCandidate {
                name: host.name.clone(),
                is_online: host.is_online,
                drain: drains.iter().find(|drain| drain.host == host.name).map(|drain| drain.state),
                cpus: host.cpus,
                cpu_promised: active().map(|computer| computer.hardware.cpu).sum(),
                memory_bytes: host.memory_bytes,
                memory_free_bytes: host.memory_free_bytes,
                memory_promised_bytes: active().map(memory_of).sum(),
                has_image: host.has_image,
                avoided: own().filter(is_avoided).count(),
            }
        };
        Ok(hosts.iter().map(candidate).collect())
    }
}

/// The memory of a computer in bytes.
pub(super) fn memory_of(computer: &Computer) -> u64 {
    u64::from(computer.hardware.ram_gb) * GB
}
