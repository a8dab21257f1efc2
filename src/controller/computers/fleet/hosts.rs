//! Hosts of computers: outages, replication, and hosts of which the operator confirms that they are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

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

/// Pause before work is sent again to a runner whose mailbox is full.
const SEND_PAUSE: Duration = Duration::from_millis(200);
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
    /// Those of [`check_gone`]; `Unavailable` when nobody answers for the hosts, when the store fails, or when a runner takes no
    /// work for too long: the others have stopped their computers, and the confirmation can be repeated.
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
        let mut lost = Vec::new();
        for row in self.shared.store.all_computers().await? {
            if outages.get(&row.id).is_none_or(|outage| outage.host != name) {
                continue;
            }
            lost.push(row.id);
            loss.computers += 1;
            loss.with_replica += usize::from(row.replica.is_some());
        }
        // A runner may still wait for an answer of the host; it stops its computer afterwards.
        let deadline = Instant::now() + STOP_TIMEOUT;
        let send = |id| self.shared.send(id, Work::HostGone).map(|(_, finished)| finished);
        let (stops, refused) = send_to_all(lost, deadline, send).await;
        for finished in stops {
            let _late = tokio::time::timeout_at(deadline, finished).await;
        }
        refused.map_or(Ok(loss), Err)
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
                Ok(Some(HostState::Silent | HostState::Offline | HostState::Removed)) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Sends work to the runners of all these computers; to those that refuse it again until the deadline. Returns what was sent, and
/// the last refusal.
async fn send_to_all<T>(
    mut computers: Vec<ComputerId>,
    deadline: Instant,
    mut send: impl FnMut(ComputerId) -> Result<T>,
) -> (Vec<T>, Option<Error>) {
    let mut sent = Vec::new();
    loop {
        let mut refusal = None;
        computers.retain(|id| match send(*id) {
            Ok(receiver) => {
                sent.push(receiver);
                false
            }
            Err(error) => {
                refusal = Some(error);
                true
            }
        });
        if refusal.is_none() || Instant::now() >= deadline {
            return (sent, refusal);
        }
        tokio::time::sleep(SEND_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_runner_that_takes_no_work_delays_no_other() {
        let [busy, late, free] = [(); 3].map(|()| ComputerId::random());
        let mut looks = 0;
        let send = |id: ComputerId| {
            looks += usize::from(id == busy);
            let refused = id == busy || (id == late && looks < 3);
            if refused { Err(Error::unavailable("full")) } else { Ok(id) }
        };
        let deadline = Instant::now() + SEND_PAUSE * 10;
        let (sent, refusal) = send_to_all(vec![busy, late, free], deadline, send).await;
        assert_eq!(sent, [free, late]);
        assert!(refusal.is_some());
        let (sent, refusal) = send_to_all(vec![free], deadline, Ok).await;
        assert_eq!(sent, [free]);
        assert!(refusal.is_none());
    }
}
