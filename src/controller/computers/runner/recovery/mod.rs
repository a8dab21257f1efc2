//! Recovery of a computer after a start of the controller, after its machine ended, or after its host returned.
//!
//! The stored row says what was intended; the engine says what exists.

mod host;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::registry::Presence;
use super::{AfterWork, Runner, WithoutMemory, refused};
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::Result;
use hotdesk_engine::{EngineResult, Observation};
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;

/// Pauses before a failed observation is repeated.
const OBSERVE_RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

impl Runner {
    /// Recovers the computer after a start of the controller.
    pub(super) async fn recover(&mut self, row: &Computer) -> (Result<()>, AfterWork) {
        if self.waits_at_recovery(row) {
            tracing::warn!(computer = %self.id, "its host does not answer; it is recovered when it does");
            self.wait_for_host(row);
            return (Ok(()), AfterWork::Continue);
        }
        if !matches!(row.status, Status::Creating | Status::Deleting) {
            self.recover_snapshots().await;
        }
        if let Err(error) = self.note_missed_recovery(row).await {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not store that the computer has begun from its replica"
            );
        }
        self.note_host().await;
        let row = &self.finish_resize(row).await;
        self.presence.send_replace(Presence {
            status: Some(row.status),
            because: row.status_reason,
            ..Presence::default()
        });
        if row.move_to.is_some() && !matches!(row.status, Status::Creating | Status::Deleting) {
            return (self.finish_move(row).await, AfterWork::Continue);
        }
        let outcome = match row.status {
            Status::Restarting | Status::Stopping if row.rollback_to.is_some() => {
                self.finish_rollback(row).await
            }
            // The client has not seen it, so it is undone.
            Status::Creating | Status::Deleting => return self.remove().await,
            Status::Starting if row.saved_token.is_some() => self.wake(WithoutMemory::Boot).await,
            Status::Starting | Status::Restarting => self.restart_boot("Computer could not be started").await,
            Status::Stopping => self.halt().await,
            Status::Running | Status::Suspending | Status::Suspended => self.adopt(row).await.map(|_| ()),
            Status::Stopped if row.status_reason == Some(StatusReason::HostGone) => {
                self.adopt_after_loss(row).await
            }
            Status::Stopped | Status::Error => self.recover_idle(row).await,
        };
        (outcome, AfterWork::Continue)
    }

    /// Adopts a computer as the engine observes it, and returns its status. One that ran or was suspended and
    /// is gone becomes `stopped`.
    pub(in super::super) async fn adopt(&mut self, row: &Computer) -> Result<Status> {
        let observed = self.observed().await;
        if observed.is_err() {
            // The last look may be older than the outage of its host.
            self.shared.engine.watch_hosts().await;
        }
        match observed {
            Ok(Observation::Running { generation, endpoint, address }) if generation == row.generation => {
                let guest = match row.saved_token {
                    None => Guest::new(endpoint, &row.agent_token)?,
                    Some(_) => self.renew_identity(row, endpoint).await?,
                };
                self.restore_egress(row).await;
                self.publish_resumed(row, guest, address).await?;
                Ok(Status::Running)
            }
            Ok(Observation::Suspended { .. }) => {
                // Its memory is complete; the rest of an interrupted suspend is repeated.
                if row.status == Status::Suspending
                    && let Err(error) = self.shared.engine.suspend(self.id).await
                {
                    tracing::warn!(
                        computer = %self.id,
                        error = format_args!("{error:#}"),
                        "could not free the resources of a suspended computer"
                    );
                }
                self.finish_suspend(row).await
            }
            Ok(Observation::Running { .. } | Observation::Stopped) => {
                self.halt().await.map(|()| Status::Stopped)
            }
            Ok(Observation::Absent) => self.settle_as(Status::Error).await.map(|()| Status::Error),
            // Its memory may be complete, so it is not discarded when the engine cannot observe it.
            Err(error) if self.shown_status() == Some(Status::Suspended) => {
                Err(refused("Computer could not be adopted", &error))
            }
            // It may run, and its status returns with its host.
            Err(_) if row.status == Status::Running && self.notes_outage() => {
                self.wait_for_host(row);
                Ok(Status::Running)
            }
            Err(error) => self.fail("Computer could not be adopted", &error).await.map(|()| Status::Error),
        }
    }

    /// Observes the machine, and retries failures, because a host that observes a hundred computers is slow.
    pub(in super::super) async fn observed(&self) -> EngineResult<Observation> {
        for pause in OBSERVE_RETRY_PAUSES {
            match self.shared.engine.observe(self.id).await {
                Err(error) => tracing::warn!(
                    computer = %self.id,
                    error = format_args!("{error:#}"),
                    "could not observe the machine; it is retried"
                ),
                seen => return seen,
            }
            tokio::time::sleep(pause).await;
        }
        self.shared.engine.observe(self.id).await
    }

    /// Returns a future that ends when a running machine ends. It never ends for others.
    pub(super) fn machine_end(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if self.presence.borrow().guest.is_none() {
            return Box::pin(std::future::pending());
        }
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Box::pin(async move {
            if let Err(error) = shared.engine.wait_stopped(id).await {
                tracing::error!(
                    computer = %id,
                    error = format_args!("{error:#}"),
                    "could not watch the machine; its end will not be noticed"
                );
                std::future::pending::<()>().await;
            }
        })
    }

    pub(super) async fn machine_ended(&mut self) {
        tracing::warn!(computer = %self.id, "the machine ended by itself");
        let ended = self.shared.engine.stop(self.id, Duration::ZERO).await;
        let cleaned = self.converge_after(ended).await;
        if let Err(error) = &cleaned {
            tracing::error!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not clean up after the machine ended"
            );
        }
        let status = if cleaned.is_ok() { Status::Stopped } else { Status::Error };
        let reason = self.shared.engine.take_killed(self.id).then_some(StatusReason::HostDiskFull);
        if let Err(error) = self.settle_because(status, reason).await {
            tracing::error!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not store the status after the machine ended"
            );
            self.show(status, None, None);
        }
    }
}
