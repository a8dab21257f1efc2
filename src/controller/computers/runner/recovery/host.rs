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

use std::sync::Arc;
use std::time::Duration;

use super::super::registry::Presence;
use super::super::{AfterWork, Runner, Work, refused};
use hotdesk_domain::computer::lifecycle::{Operation, Status};
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::outage::{HostOutage, begun_from, check_operation, unreachable};
use hotdesk_store::fleet::computers::Computer;

/// Pause between two looks whether the host of a waiting computer answers. The look itself asks nobody.
const RETURN_PAUSE: Duration = Duration::from_secs(2);

impl Runner {
    fn outage(&self) -> Option<HostOutage> {
        self.shared.engine.host_outage(self.id)
    }

    /// Whether its host does not answer. The runner then waits for it.
    pub(in crate::computers) fn notes_outage(&mut self) -> bool {
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
            | Work::Resize(_)
            | Work::Move(_) => true,
            // Commands are decided one by one; the others act on no machine, or make one on a host that answers.
            Work::Create { .. }
            | Work::Clone(_)
            | Work::Fork(..)
            | Work::SetEgress(_)
            | Work::ChangeIsolation(_)
            | Work::Command(_)
            | Work::AutoStop(..)
            | Work::FinishMove
            | Work::Recover
            | Work::HostGone
            | Work::CheckCopy { .. } => false,
        };
        let outage = self.outage().filter(|_| needs_host)?;
        Some(unreachable(row.status, row.status_reason, &outage, row.replica.as_ref()))
    }

    /// Refuses an operation while the computer's host does not answer, before anything ends. Makes the replica the machine where
    /// the operation begins from it.
    pub(in super::super) async fn check_host(&mut self, operation: Operation, row: &Computer) -> Result<()> {
        let Some(outage) = self.outage() else { return self.note_missed_recovery(row).await };
        // A confirmation ends when the host answers, also for a computer that could not be adopted then.
        let is_confirmed = self.shared.store.gone_hosts().await?.iter().any(|gone| gone.name == outage.host);
        let reason = row.status_reason.filter(|reason| *reason != StatusReason::HostGone || is_confirmed);
        if !check_operation(operation, row.status, reason, &outage, row.replica.as_ref())? {
            return Ok(());
        }
        let begun = self.shared.engine.begin_from_replica(self.id).await;
        begun.map_err(|error| refused("Computer could not be started from its replica", &error))?;
        self.waits_for_host = false;
        tracing::warn!(computer = %self.id, host = outage.host, "the computer begins from its replica");
        self.shared.store.note_recovery(self.id, &outage.host).await?;
        self.note_host().await;
        Ok(())
    }

    /// Stores that the computer has begun from its replica, if an earlier attempt to store that failed, or a crash prevented it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub(in super::super) async fn note_missed_recovery(&self, row: &Computer) -> Result<()> {
        if row.status_reason != Some(StatusReason::HostGone) || row.replica.is_none() {
            return Ok(());
        }
        let now = self.shared.engine.host_of(self.id).await;
        let now = now.map_err(|error| refused("The host of the computer could not be found", &error))?;
        let from = begun_from(row.status_reason, row.host.as_deref(), row.replica.as_ref(), now.as_deref());
        if let Some(from) = from {
            self.shared.store.note_recovery(self.id, from).await?;
            self.note_host().await;
        }
        Ok(())
    }

    /// Whether the recovery of the computer waits for its host. The removal of one whose host was removed does not.
    pub(in super::super) fn waits_at_recovery(&mut self, row: &Computer) -> bool {
        let is_removal = matches!(row.status, Status::Creating | Status::Deleting);
        self.waits_for_host = self.outage().is_some_and(|outage| !(outage.is_removed && is_removal));
        self.waits_for_host
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

    /// Returns a future that ends when the host of a waiting computer answers, or was removed while the computer is being
    /// removed. It never ends for others.
    pub(in super::super) fn host_return(&self) -> impl Future<Output = ()> + Send + use<> {
        let (waits, id) = (self.waits_for_host, self.id);
        let is_removal = matches!(self.shown_status(), Some(Status::Creating | Status::Deleting));
        let shared = Arc::clone(&self.shared);
        async move {
            if !waits {
                return std::future::pending().await;
            }
            let is_out = |outage: HostOutage| !(outage.is_removed && is_removal);
            while shared.engine.host_outage(id).is_some_and(is_out) {
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
        let (adopted, next) = if row.status == Status::Error {
            // A verb failed on the host, and the machine may run on.
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

    /// Adopts the machine of a computer that was stopped because its host was gone.
    pub(in super::super) async fn adopt_after_loss(&mut self, row: &Computer) -> Result<()> {
        let status = self.adopt(row).await?;
        // The reason of one that runs is removed with its status.
        if matches!(status, Status::Stopped | Status::Suspended) {
            self.shared.store.set_status_because(self.id, status, None).await?;
        }
        Ok(())
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
            | Status::Suspended => {
                self.shared.store.stop_lost(self.id).await?;
                self.show(Status::Stopped, None, None);
                Ok(())
            }
        }
    }
}
