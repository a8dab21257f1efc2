//! Where does a computer stand after a start of the controller, or when its machine has ended by itself? What is stored says
//! what was intended, the engine what is there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Next, Runner, WithoutMemory, refused};
use hotdesk_domain::error::Result;
use hotdesk_domain::lifecycle::Status;
use hotdesk_engine::{EngineResult, Observation};
use hotdesk_guest::Guest;
use hotdesk_store::computers::Computer;

/// Pauses before a computer is looked at again that could not be seen.
const LOOK_AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

impl Runner {
    /// Where things stand after a start of the controller.
    pub(super) async fn recover(&mut self, row: &Computer) -> (Result<()>, Next) {
        if !matches!(row.status, Status::Creating | Status::Deleting) {
            self.recover_snapshots().await;
        }
        let row = &self.finish_resize(row).await;
        self.show(row.status, None, None);
        let outcome = match row.status {
            Status::Restarting | Status::Stopping if row.rollback_to.is_some() => {
                self.finish_rollback(row).await
            }
            // Nobody was told of it: undone.
            Status::Creating | Status::Deleting => return self.remove().await,
            Status::Starting if row.saved_token.is_some() => self.wake(WithoutMemory::Boot).await,
            Status::Starting | Status::Restarting => self.restart_boot("Computer could not be started").await,
            Status::Stopping => self.halt().await,
            Status::Running | Status::Suspending | Status::Suspended => self.adopt(row).await.map(|_| ()),
            Status::Stopped | Status::Error => self.rest_or_sleep(row).await,
        };
        (outcome, Next::Stay)
    }

    /// Takes a computer over as the engine sees it; what it is since then. One that ran or slept and is not there any
    /// more reads `stopped`.
    pub(super) async fn adopt(&mut self, row: &Computer) -> Result<Status> {
        match self.observed().await {
            Ok(Observation::Running { generation, endpoint, address }) if generation == row.generation => {
                let guest = match row.saved_token {
                    None => Guest::new(endpoint, &row.agent_token)?,
                    Some(_) => self.identify(row, endpoint).await?,
                };
                self.go_live(row, guest, address).await?;
                Ok(Status::Running)
            }
            Ok(Observation::Suspended { .. }) => {
                // Its memory is whole, and what is left of a suspend that was cut short is done again.
                if row.status == Status::Suspending
                    && let Err(error) = self.shared.engine.suspend(self.id).await
                {
                    tracing::warn!(computer = %self.id, %error, "a suspended computer holds what it ran with");
                }
                self.fall_asleep(row).await
            }
            Ok(Observation::Running { .. } | Observation::Stopped) => {
                self.halt().await.map(|()| Status::Stopped)
            }
            Ok(Observation::Absent) => self.rest(Status::Error).await.map(|()| Status::Error),
            // Its memory may be whole: not to be given up because nobody could look.
            Err(error) if self.shown() == Some(Status::Suspended) => {
                Err(refused("Computer could not be adopted", &error))
            }
            Err(error) => self.fail("Computer could not be adopted", &error).await.map(|()| Status::Error),
        }
    }

    /// What the engine sees of it. One look that fails gives nothing up: a host on which a hundred computers are looked at at once is
    /// slow.
    async fn observed(&self) -> EngineResult<Observation> {
        for pause in LOOK_AGAIN {
            match self.shared.engine.observe(self.id).await {
                Err(error) => tracing::warn!(computer = %self.id, %error, "cannot be seen yet"),
                seen => return seen,
            }
            tokio::time::sleep(pause).await;
        }
        self.shared.engine.observe(self.id).await
    }

    /// Ends when the machine of a running computer ends; never for others.
    pub(super) fn machine_end(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if self.presence.borrow().guest.is_none() {
            return Box::pin(std::future::pending());
        }
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Box::pin(async move {
            if let Err(error) = shared.engine.stopped(id).await {
                tracing::error!(computer = %id, %error, "the machine cannot be watched");
                std::future::pending::<()>().await;
            }
        })
    }

    pub(super) async fn machine_ended(&mut self) {
        tracing::warn!(computer = %self.id, "the machine ended by itself");
        let ended = self.shared.engine.stop(self.id, Duration::ZERO).await;
        let cleaned = self.settled(ended).await;
        if let Err(error) = &cleaned {
            tracing::error!(computer = %self.id, %error, "clean-up after a machine's end failed");
        }
        let status = if cleaned.is_ok() { Status::Stopped } else { Status::Error };
        if let Err(error) = self.rest(status).await {
            tracing::error!(computer = %self.id, %error, "the status could not be stored");
            self.show(status, None, None);
        }
    }
}
