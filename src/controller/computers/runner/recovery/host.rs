//! Computers whose host does not answer, or is gone: what is refused, how they wait, and how they begin from a replica.
//!
//! ```text
//!   running -- host does not answer --> running (host_unreachable) -- it answers --> adopted
//!                                         |  the operator confirms that the host is gone
//!                                         v
//!                                       stopped (host_gone) -- start, with a replica --> running on another host
//!                                         |-- the host answers --> adopted
//! ```
//! Until the confirmation nothing begins anywhere: a host that does not answer may run its machines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::registry::Presence;
use super::super::{AfterWork, Runner, Work, refused};
use crate::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::lifecycle::{Operation, Status};
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::gone::check_gone;
use hotdesk_domain::host::outage::{HostOutage, HostState, check_operation, unreachable};
use hotdesk_domain::host::replica::check_interval;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::replicas::GoneHost;

/// Pause between two looks whether the host of a waiting computer answers. The look itself asks nobody.
const RETURN_PAUSE: Duration = Duration::from_secs(2);

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

impl Runner {
    fn outage(&self) -> Option<HostOutage> {
        self.shared.engine.host_outage(self.id)
    }

    /// Whether its host does not answer. The runner then waits for it.
    pub(in super::super) fn notes_outage(&mut self) -> bool {
        self.waits_for_host = self.outage().is_some();
        self.waits_for_host
    }

    /// Returns the refusal of work that needs the machine while its host does not answer.
    pub(in super::super) fn refuse_during_outage(&self, work: &Work, row: &Computer) -> Option<Error> {
        let needs_host = match work {
            Work::CopyTo(_)
            | Work::CopyForTemplate(_)
            | Work::ForkTo(_)
            | Work::Launch(..)
            | Work::Snapshot(_)
            | Work::RemoveSnapshot(_)
            | Work::Rollback { .. }
            | Work::Resize(_) => true,
            // Commands are decided one by one; the others act on no machine, or make one on a host that answers.
            Work::Create(_)
            | Work::Clone(_)
            | Work::Fork(..)
            | Work::SetEgress(_)
            | Work::ChangeIsolation(_)
            | Work::Command(_)
            | Work::AutoStop(..)
            | Work::Recover
            | Work::HostGone
            | Work::CheckCopy { .. } => false,
        };
        let outage = self.outage().filter(|_| needs_host)?;
        Some(unreachable(row.status_reason, &outage, row.replica.as_ref()))
    }

    /// Refuses an operation while the computer's host does not answer, before anything ends. Makes the replica the machine where
    /// the operation begins from it.
    pub(in super::super) async fn check_host(&mut self, operation: Operation, row: &Computer) -> Result<()> {
        let Some(outage) = self.outage() else { return Ok(()) };
        if !check_operation(operation, row.status_reason, &outage, row.replica.as_ref())? {
            return Ok(());
        }
        let begun = self.shared.engine.begin_from_replica(self.id).await;
        begun.map_err(|error| refused("Computer could not be started from its replica", &error))?;
        self.waits_for_host = false;
        tracing::warn!(computer = %self.id, host = outage.host, "the computer begins from its replica");
        self.shared.store.note_recovery(self.id, &outage.host).await
    }

    /// Leaves a computer as it is stored, until its host answers.
    pub(in super::super) fn wait_for_host(&mut self, row: &Computer) {
        self.waits_for_host = true;
        self.presence.send_replace(Presence {
            status: Some(row.status),
            because: row.status_reason,
            ..Presence::default()
        });
        self.shared.note_live_change(self.id);
    }

    /// Returns a future that ends when the host of a waiting computer answers. It never ends for others.
    pub(in super::super) fn host_return(&self) -> impl Future<Output = ()> + Send + use<> {
        let (waits, id) = (self.waits_for_host, self.id);
        let shared = Arc::clone(&self.shared);
        async move {
            if !waits {
                return std::future::pending().await;
            }
            while shared.engine.host_outage(id).is_some() {
                tokio::time::sleep(RETURN_PAUSE).await;
            }
        }
    }

    /// Adopts the machine of a computer whose host answers again.
    pub(in super::super) async fn host_returned(&mut self) -> AfterWork {
        self.waits_for_host = false;
        let row = match self.row().await {
            Ok(row) => row,
            Err(error) => {
                tracing::error!(
                    computer = %self.id,
                    error = format_args!("{error:#}"),
                    "could not read the computer after its host returned; a restart of the controller adopts it"
                );
                return AfterWork::Continue;
            }
        };
        let is_stopped_by_loss = row.status_reason == Some(StatusReason::HostGone)
            && matches!(row.status, Status::Stopped | Status::Error);
        let (adopted, next) = if is_stopped_by_loss || row.status == Status::Error {
            (self.adopt(&row).await.map(drop), AfterWork::Continue)
        } else {
            self.recover(&row).await
        };
        match adopted {
            Ok(()) => tracing::info!(computer = %self.id, "adopted after its host returned"),
            Err(error) => tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not adopt the computer after its host returned"
            ),
        }
        next
    }

    /// Stops a computer whose host is gone: nothing of it is asked. Its next start begins from its replica.
    pub(in super::super) async fn host_gone(&mut self, row: &Computer) -> Result<()> {
        // It may have returned, or the computer may have another host, since the confirmation.
        if !self.notes_outage() {
            return Ok(());
        }
        match row.status {
            // Their removal waits for the host.
            Status::Creating | Status::Deleting => Ok(()),
            Status::Starting
            | Status::Running
            | Status::Stopping
            | Status::Stopped
            | Status::Restarting
            | Status::Error
            | Status::Suspending
            | Status::Suspended => self.settle_because(Status::Stopped, Some(StatusReason::HostGone)).await,
        }
    }
}
