//! Hosts of computers: outages, replication, and hosts of which the operator confirms that they are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Fleet;
use crate::computers::runner::Work;
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::gone::check_gone;
use hotdesk_domain::host::outage::{HostOutage, HostState};
use hotdesk_domain::host::replica::check_interval;
use hotdesk_store::hosts::replicas::GoneHost;

/// For the stored stops of all computers of a host that is gone, before the operator gets the answer.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A host that is gone, with its computers.
#[derive(Clone, Debug)]
pub struct ConfirmedLoss {
    /// The host.
    pub host: GoneHost,
    /// Number of its computers.
    pub computers: usize,
    /// Number of these with a replica.
    pub with_replica: usize,
}

impl Fleet {
    /// Checks the minutes between two refreshes of the replica of a computer with this isolation, and returns them.
    ///
    /// # Errors
    /// Those of [`check_interval`].
    pub fn check_replication(&self, minutes: i64, isolation: Isolation) -> Result<i64> {
        check_interval(minutes, self.engine().offers().capabilities(isolation).replicate)
    }

    /// Begins the refresh of a computer's replica: the computer is not moved until the permit is dropped. `None` while it is
    /// being moved.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn begin_refresh(&self, id: ComputerId) -> Result<Option<Permit<ComputerId>>> {
        let Some(permit) = self.shared.refreshing.try_acquire(id, 1) else { return Ok(None) };
        // A move that stored its intent before holds no permit any more.
        let row = self.shared.store.computer(&ComputerRef::Id(id)).await?;
        Ok(row.is_some_and(|row| row.move_to.is_none()).then_some(permit))
    }

    /// Returns the computers whose host does not answer, as the last look at the hosts saw it.
    pub fn outages(&self) -> BTreeMap<ComputerId, HostOutage> {
        let ids = self.shared.with_runner().into_iter();
        ids.filter_map(|id| Some((id, self.engine().host_outage(id)?))).collect()
    }

    /// Stores that a host is gone, after the operator has confirmed it, and stops its computers.
    ///
    /// # Errors
    /// Those of [`check_gone`]; `Unavailable` when nobody answers for the hosts, or when the store fails.
    pub async fn confirm_gone(&self, name: &str, confirm: &str) -> Result<ConfirmedLoss> {
        let state = self.engine().host_state(name).await.map_err(|error| {
            Error::unavailable("The cluster does not answer").retry_after(5).context(error)
        })?;
        check_gone(name, confirm, state)?;
        let host = self.shared.store.add_gone_host(name).await?;
        // The last look may be older than the cluster's answer.
        self.engine().watch_hosts().await;
        let outages = self.outages();
        let mut loss = ConfirmedLoss { host, computers: 0, with_replica: 0 };
        let mut stops = Vec::new();
        for row in self.shared.store.all_computers().await? {
            if outages.get(&row.id).is_none_or(|outage| outage.host != name) {
                continue;
            }
            let (_, finished) = self.shared.send(row.id, Work::HostGone)?;
            stops.push(finished);
            loss.computers += 1;
            loss.with_replica += usize::from(row.replica.is_some());
        }
        // A runner may still wait for an answer of the host; it stops its computer afterwards.
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        for finished in stops {
            let _late = tokio::time::timeout_at(deadline, finished).await;
        }
        Ok(loss)
    }

    /// Forgets that hosts are gone which answer again.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn forget_returned_hosts(&self) -> Result<()> {
        for host in self.shared.store.gone_hosts().await? {
            match self.engine().host_state(&host.name).await {
                Ok(Some(HostState::Online) | None) => {
                    tracing::info!(host = host.name, "a host that was gone answers again, or was removed");
                    self.shared.store.remove_gone_host(&host.name).await?;
                }
                Ok(Some(HostState::Silent | HostState::Offline)) | Err(_) => {}
            }
        }
        Ok(())
    }
}
