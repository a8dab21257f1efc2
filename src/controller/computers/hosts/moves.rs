//! Move of a computer to another host.
//!
//! ```text
//!   intent: move_to = target; status restarting if it runs        (its verbs get 409 migrating)
//!     --> suspend or stop --> the engine moves the machine --> its host is stored
//!     --> intent of the resume or of the boot, which ends the move --> running
//! ```
//! After a crash the next controller repeats the steps from the first one; each is idempotent. A machine that could not be
//! moved runs again on the host where it is. The engine says where that is, and what is left of its memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::computers::fleet::Fleet;
use crate::computers::runner::registry::{Presence, stopping};
use crate::computers::runner::template::requests::hook_before;
use crate::computers::runner::{CommandAck, Runner, STOP_GRACE, WithoutMemory, Work, refused};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::lifecycle::{Operation, Status};
use hotdesk_domain::computer::saved_state::check_converged;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::migration::{MoveMethod, migrating};
use hotdesk_engine::{EngineError, EngineResult, Observation};
use hotdesk_store::fleet::computers::Computer;

/// Message of a failed move.
const FAILED: &str = "Computer could not be moved";
/// Pause before a move is continued that nobody could complete or undo, because no host answered or the store failed.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// `Retry-After` of a move of a computer whose replica is being refreshed, in seconds.
const REFRESH_RETRY_SECONDS: u32 = 60;

impl Fleet {
    /// Begins to move a computer to a host. Returns when the intent is stored, or when it is there already; the receiver gets
    /// the outcome. The work continues if the caller disconnects.
    ///
    /// # Errors
    /// `Conflict` (`migrating`) while it is being moved; `Conflict` while its replica is being refreshed; the errors of
    /// [`MoveMethod::of`]; `Conflict` (`converging`); the engine's failure; `Unavailable` or `Internal` when the store fails.
    /// Nothing is changed then.
    pub(super) async fn begin_move(&self, id: ComputerId, to: &str) -> Result<oneshot::Receiver<Result<()>>> {
        let (accepted, finished) = self.shared.send(id, Work::Move(to.to_owned()))?;
        accepted.await.map_err(|_| stopping())??;
        Ok(finished)
    }

    /// Refuses a command for a computer that is being moved.
    ///
    /// # Errors
    /// `Conflict` (`migrating`).
    pub(in crate::computers) fn check_not_moving(&self, computer: &Computer) -> Result<()> {
        // The row may be older than the end of the move, and a presence has no status before the recovery.
        let known = self.shared.presence(computer.id).and_then(|presence| {
            let now = presence.borrow();
            now.status.map(|_| now.is_moving)
        });
        let is_moving = known.unwrap_or(computer.move_to.is_some());
        if is_moving { Err(migrating()) } else { Ok(()) }
    }
}

impl Runner {
    /// Moves the computer to a host, and brings it back to the state that it has.
    pub(in crate::computers) async fn move_to(
        &mut self,
        row: &Computer,
        to: &str,
        accepted: oneshot::Sender<Result<CommandAck>>,
    ) -> Result<()> {
        let method = match self.intend_move(row, to).await {
            Ok(Some(method)) => method,
            Ok(None) => {
                let _ = accepted.send(Ok(CommandAck { status: row.status, begun: false }));
                return Ok(());
            }
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                return Err(error);
            }
        };
        let status = method.status(row.status);
        // The intent hides it from everybody else.
        let guest = self.presence.borrow().guest.clone();
        self.show_move(status, row.status_reason);
        let _ = accepted.send(Ok(CommandAck { status, begun: true }));
        let ends = match method {
            MoveMethod::WithMemory => Some(Operation::Suspend),
            MoveMethod::Reboot => Some(Operation::Stop),
            MoveMethod::AsItIs => None,
        };
        if let Some(operation) = ends {
            if let Some(hook) = hook_before(operation) {
                self.run_hook(row, guest.as_ref(), hook).await;
            }
            self.shared.timelines.fetch_before_end(self.id, guest.as_ref()).await;
        }
        self.execute_move(row, status, to).await
    }

    /// Stores the intent of a move, and returns its method; `None` when the machine is on that host.
    async fn intend_move(&self, row: &Computer, to: &str) -> Result<Option<MoveMethod>> {
        let method = MoveMethod::of(row.status, self.keeps_memory(row))?;
        if method == MoveMethod::WithMemory {
            check_converged(row.converging)?;
        }
        let failed = |error: EngineError| refused(FAILED, &error);
        // Held until the intent is stored, which a refresh looks for.
        let Some(_held) = self.shared.refreshing.try_acquire(self.id, 1) else {
            let text = "The replica of the computer is being refreshed; move it when that is done";
            return Err(Error::conflict(text).retry_after(REFRESH_RETRY_SECONDS));
        };
        // A host that does not answer cannot send a disk, and the computer may run on.
        self.shared.engine.observe(self.id).await.map_err(failed)?;
        let at = self.shared.engine.host_of(self.id).await.map_err(failed)?;
        if at.as_deref() == Some(to) {
            // Somebody may have moved it without the controller.
            self.note_host().await;
            return Ok(None);
        }
        self.shared.store.begin_move(self.id, to, method.status(row.status)).await?;
        Ok(Some(method))
    }

    /// Completes or undoes a move that was interrupted. Does nothing when it has ended, and while its host does not answer:
    /// the recovery continues it then, unless the operator confirms first that the host is gone.
    pub(in crate::computers) async fn finish_move(&mut self, row: &Computer) -> Result<()> {
        let Some(to) = &row.move_to else { return Ok(()) };
        self.show_move(row.status, row.status_reason);
        if self.notes_outage() {
            return Ok(());
        }
        self.execute_move(row, row.status, to).await
    }

    /// Executes a move whose intent is stored under `status`.
    async fn execute_move(&mut self, row: &Computer, status: Status, to: &str) -> Result<()> {
        self.cancel_copy_job().await;
        let engine = Arc::clone(&self.shared.engine);
        let ended = match status {
            Status::Restarting => self.end_for_move(row).await,
            // After a failed stop its machine may still run.
            Status::Error => engine.stop(self.id, Duration::ZERO).await,
            Status::Creating
            | Status::Starting
            | Status::Running
            | Status::Stopping
            | Status::Stopped
            | Status::Deleting
            | Status::Suspending
            | Status::Suspended => Ok(()),
        };
        let moved = match ended {
            Ok(()) => engine.move_machine(self.id, to).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &moved {
            tracing::warn!(
                computer = %self.id,
                host = to,
                error = format_args!("{error:#}"),
                "could not move the computer; it continues on the host where it is"
            );
        }
        self.note_host().await;
        if let Err(error) = self.settle_move(status).await {
            self.retry_move();
            return Err(error);
        }
        moved.map_err(|error| refused(FAILED, &error))
    }

    /// Ends the machine of a computer that runs: with its memory saved where the engine can.
    async fn end_for_move(&self, row: &Computer) -> EngineResult<()> {
        let engine = &self.shared.engine;
        if self.keeps_memory(row) {
            match self.observed().await? {
                // A suspend that a crash interrupted is completed.
                Observation::Running { .. } | Observation::Suspended { .. } => {}
                Observation::Stopped => return Ok(()),
                Observation::Absent => return Err(EngineError::Absent),
            }
            match engine.suspend(self.id).await {
                Err(EngineError::Unsupported(_)) => {}
                suspended => return suspended,
            }
        }
        engine.stop(self.id, STOP_GRACE).await
    }

    /// Brings the computer back to its state before the move, and ends the move.
    async fn settle_move(&mut self, status: Status) -> Result<()> {
        let store = self.shared.store.clone();
        if status != Status::Restarting {
            // Commands that come from here on wait for this runner.
            self.show(status, None, None);
            return store.end_move(self.id).await;
        }
        match self.observed().await {
            Ok(Observation::Suspended { .. }) => {
                store.begin_resume(self.id).await?;
                self.show(Status::Starting, None, None);
                self.wake(WithoutMemory::Boot).await
            }
            Ok(Observation::Stopped) => {
                store.begin_boot(self.id, Status::Restarting).await?;
                self.show(Status::Restarting, None, None);
                self.restart_boot("Computer could not be started").await
            }
            // Its machine could not be ended.
            Ok(Observation::Running { .. }) => self.adopt(&self.row().await?).await.map(drop),
            Ok(Observation::Absent) => self.settle_as(Status::Error).await,
            // It may run or not, so the intent stays.
            Err(error) => Err(refused(FAILED, &error)),
        }
    }

    /// Lets this runner continue the move later, if its intent is still stored then.
    fn retry_move(&self) {
        let (shared, id, stop) = (Arc::clone(&self.shared), self.id, self.shared.tasks.stopping());
        let retrying = async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
            if let Err(error) = shared.send(id, Work::FinishMove) {
                tracing::warn!(
                    computer = %id,
                    error = format_args!("{error:#}"),
                    "could not continue a move; the next start of the controller does"
                );
            }
        };
        let _task = self.shared.tasks.spawn("retry of a move", retrying);
    }

    /// Stores the host of the machine, if the engine has hosts and it is another one than before.
    pub(in crate::computers) async fn note_host(&self) {
        let noted = match self.shared.engine.host_of(self.id).await {
            Ok(None) => return,
            Ok(Some(at)) => match self.row().await {
                Ok(row) if row.host.as_ref() == Some(&at) => return,
                Ok(_) => self.shared.store.set_host(self.id, Some(&at)).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(refused("The host of the computer could not be found", &error)),
        };
        if let Err(error) = noted {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not store the host of the computer; the next start of the controller does"
            );
        }
    }

    fn keeps_memory(&self, row: &Computer) -> bool {
        self.shared.engine.offers().capabilities(row.isolation).suspend
    }

    fn show_move(&self, status: Status, because: Option<StatusReason>) {
        let presence = Presence { status: Some(status), because, is_moving: true, ..Presence::default() };
        self.presence.send_replace(presence);
        self.shared.note_live_change(self.id);
    }
}
