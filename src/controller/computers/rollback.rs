//! Rollback of a computer to a snapshot.
//!
//! The runner stops the computer, lets the engine restore disk and memory, and resumes what ran. The intent
//! is stored first and repeated after a crash; engines allow that. A rollback needs nothing from object
//! storage, which may be lost.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::fleet::{ANSWER_TIMEOUT, Fleet};
use super::runner::registry::stopping;
use super::runner::{CommandAck, Runner, STOP_GRACE, WithoutMemory, Work, refused};
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::snapshot;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_engine::{EngineError, Observation};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::snapshots::Snapshot;

/// Message of a failed rollback.
const FAILED: &str = "Computer could not be rolled back";

impl Fleet {
    /// Rolls a computer back to one of its snapshots. Returns its status, which is in transition when the
    /// rollback takes longer than [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when the status forbids it; the errors of
    /// [`hotdesk_domain::computer::snapshot::MachineSize::admit`]; the engine's failure. After a failure the
    /// computer is as before, or has rebooted if it was running.
    pub async fn roll_back(
        &self,
        computer: &Computer,
        snapshot: SnapshotId,
        allowance: Allowance,
    ) -> Result<Status> {
        self.shared.store.snapshot(computer.id, snapshot).await?;
        self.shared.note_action(computer.id);
        let (accepted, finished) = self.shared.send(computer.id, Work::Rollback { snapshot, allowance })?;
        accepted.await.map_err(|_| stopping())??;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, finished).await {
            outcome.map_err(|_| stopping())??;
        }
        Ok(self.row(computer.id).await?.status)
    }
}

impl Runner {
    pub(super) async fn roll_back(
        &mut self,
        row: &Computer,
        snapshot: SnapshotId,
        allowance: &Allowance,
        accepted: oneshot::Sender<Result<CommandAck>>,
    ) -> Result<()> {
        let (id, store, engine) = (self.id, self.shared.store.clone(), Arc::clone(&self.shared.engine));
        let intended = async {
            let status = snapshot::rollback(row.status)?;
            let target = store.snapshot(id, snapshot).await?;
            snapshot::check_ready(target.state)?;
            // Before anything ends, so that a running computer goes on if the host is short of space.
            let checked = engine.check_capacity(id, Some(target.id.0)).await;
            checked.map_err(|error| rollback_error(&error))?;
            store.begin_rollback(id, &target, status, allowance).await?;
            Ok::<_, Error>((status, target))
        };
        match intended.await {
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                Err(error)
            }
            Ok((status, target)) => {
                // The intent hides it from everybody else.
                let guest = self.presence.borrow().guest.clone();
                self.show(status, None, None);
                let _ = accepted.send(Ok(CommandAck { status, begun: true }));
                self.shared.timelines.fetch_before_end(self.id, guest.as_ref()).await;
                self.execute_rollback(status, &target).await
            }
        }
    }

    /// Completes a rollback that a crash interrupted.
    pub(super) async fn finish_rollback(&mut self, row: &Computer) -> Result<()> {
        let Some(snapshot) = row.rollback_to else { return Ok(()) };
        match self.shared.store.snapshot(self.id, snapshot).await {
            Ok(target) => self.execute_rollback(row.status, &target).await,
            Err(error) => {
                self.undo_rollback(row.status).await?;
                Err(error)
            }
        }
    }

    /// Executes a rollback whose intent is stored under `status`.
    async fn execute_rollback(&mut self, status: Status, target: &Snapshot) -> Result<()> {
        let engine = Arc::clone(&self.shared.engine);
        self.cancel_copy_job().await;
        // The engine discards the saved memory later: if it fails, the computer stays suspended.
        if let Err(error) = engine.stop(self.id, STOP_GRACE).await {
            if status == Status::Restarting {
                return self.fail(FAILED, &error).await;
            }
            self.undo_rollback(status).await?;
            return Err(refused(FAILED, &error));
        }
        if let Err(error) = engine.rollback(self.id, target.id.0).await {
            self.undo_rollback(status).await?;
            return Err(rollback_error(&error));
        }
        self.discard_copies().await?;
        let runs = status == Status::Restarting;
        match (target.memory, runs) {
            (true, true) => {
                self.shared.store.settle_rollback_of_memory(self.id, true).await?;
                self.show(Status::Starting, None, None);
                self.wake(WithoutMemory::Refuse).await
            }
            (true, false) => {
                self.shared.store.settle_rollback_of_memory(self.id, false).await?;
                self.show(Status::Suspended, None, None);
                Ok(())
            }
            (false, true) => self.boot_again().await,
            (false, false) => self.settle_as(Status::Stopped).await,
        }
    }

    /// Discards the copies in object storage. They belong to the state before the rollback, and generations
    /// do not distinguish the two.
    async fn discard_copies(&self) -> Result<()> {
        self.shared.store.mark_converged(self.id).await?;
        if let Some(archive) = &self.shared.archive {
            archive.wake();
        }
        Ok(())
    }

    async fn boot_again(&mut self) -> Result<()> {
        self.shared.store.begin_boot(self.id, Status::Restarting).await?;
        self.restart_boot("Computer could not be started").await
    }

    /// Restores the computer's state after a failed rollback.
    async fn undo_rollback(&mut self, status: Status) -> Result<()> {
        if status == Status::Restarting {
            return self.boot_again().await;
        }
        match self.shared.engine.observe(self.id).await {
            Ok(Observation::Suspended { .. }) => self.stay_suspended().await,
            Ok(Observation::Running { .. } | Observation::Stopped | Observation::Absent) => self.halt().await,
            Err(error) => self.fail(FAILED, &error).await,
        }
    }
}

/// Error of a rollback that changed nothing.
fn rollback_error(error: &EngineError) -> Error {
    if matches!(error, EngineError::Damaged(_)) {
        let text = "The snapshot is damaged or missing; the computer is as it was";
        return Error::unavailable(text).code(ErrorCode::SnapshotUnavailable).context(error);
    }
    refused(FAILED, error)
}
