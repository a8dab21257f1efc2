//! How does a computer go back to a snapshot? Its runner stops it, has the engine put the disk and the memory of that time
//! in place, and lets go on what ran. The intent is stored first and carried out again after a crash, which engines allow.
//! Nothing of it needs what is in storage, which may be lost.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::fleet::{ANSWER_TIMEOUT, Fleet, stopping};
use super::runner::{Intent, Runner, STOP_GRACE, WithoutMemory, Work, refused};
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::allowance::Allowance;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_domain::snapshot;
use hotdesk_engine::{EngineError, Observation};
use hotdesk_store::computers::Computer;
use hotdesk_store::snapshots::Snapshot;

/// What a client reads when a rollback fails.
const FAILED: &str = "Computer could not be rolled back";

impl Fleet {
    /// Brings a computer back to one of its snapshots. What it is then, or still on its way when that takes longer than a
    /// client waits.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when a status blocks it, or [`hotdesk_domain::snapshot::Size::admit`]'s; why it could not be
    /// done: the computer is as before then, a running one since a new boot.
    pub async fn roll_back(
        &self,
        computer: &Computer,
        snapshot: SnapshotId,
        allowance: Allowance,
    ) -> Result<Status> {
        self.shared.store.snapshot(computer.id, snapshot).await?;
        self.note_action(computer.id);
        let (accepted, finished) = self.send(computer.id, Work::Rollback { snapshot, allowance })?;
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
        accepted: oneshot::Sender<Result<Intent>>,
    ) -> Result<()> {
        let (id, store) = (self.id, self.shared.store.clone());
        let intended = async {
            let status = snapshot::rollback(row.status)?;
            let target = store.snapshot(id, snapshot).await?;
            snapshot::check_ready(target.state)?;
            store.begin_rollback(id, &target, status, allowance).await?;
            Ok::<_, Error>((status, target))
        };
        match intended.await {
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                Err(error)
            }
            Ok((status, target)) => {
                self.show(status, None, None);
                let _ = accepted.send(Ok(Intent { status, begun: true }));
                self.carry_back(status, &target).await
            }
        }
    }

    /// After a start of the controller: carries out the rollback that a crash cut short.
    pub(super) async fn finish_rollback(&mut self, row: &Computer) -> Result<()> {
        let Some(snapshot) = row.rollback_to else { return Ok(()) };
        match self.shared.store.snapshot(self.id, snapshot).await {
            Ok(target) => self.carry_back(row.status, &target).await,
            Err(error) => {
                self.stay(row.status).await?;
                Err(error)
            }
        }
    }

    /// Carries out a rollback whose intent is stored under `status`.
    async fn carry_back(&mut self, status: Status, target: &Snapshot) -> Result<()> {
        let engine = Arc::clone(&self.shared.engine);
        self.call_off().await;
        // Saved memory stays for the engine to drop: should it fail, the computer sleeps on.
        if let Err(error) = engine.stop(self.id, STOP_GRACE).await {
            if status == Status::Restarting {
                return self.fail(FAILED, &error).await;
            }
            self.stay(status).await?;
            return Err(refused(FAILED, &error));
        }
        if let Err(error) = engine.rollback(self.id, target.id.0).await {
            self.stay(status).await?;
            return Err(not_there(&error));
        }
        self.part_with_copies().await?;
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
            (false, false) => self.rest(Status::Stopped).await,
        }
    }

    /// The copies in storage are given up: they are of another past than the one that has begun, which no generation tells
    /// apart.
    async fn part_with_copies(&self) -> Result<()> {
        self.shared.store.converged(self.id).await?;
        if let Some(keeper) = &self.shared.keeper {
            keeper.look_again();
        }
        Ok(())
    }

    async fn boot_again(&mut self) -> Result<()> {
        self.shared.store.begin_boot(self.id, Status::Restarting).await?;
        self.restart_boot("Computer could not be started").await
    }

    /// A rollback did not come about: the computer is what it was.
    async fn stay(&mut self, status: Status) -> Result<()> {
        if status == Status::Restarting {
            return self.boot_again().await;
        }
        match self.shared.engine.observe(self.id).await {
            Ok(Observation::Suspended { .. }) => self.sleep_on().await,
            Ok(Observation::Running { .. } | Observation::Stopped | Observation::Absent) => self.halt().await,
            Err(error) => self.fail(FAILED, &error).await,
        }
    }
}

/// Why a computer stays as it is.
fn not_there(error: &EngineError) -> Error {
    if matches!(error, EngineError::Damaged(_)) {
        let text = "The snapshot is damaged or missing; the computer is as it was";
        return Error::unavailable(text).code("snapshot_unavailable").context(error);
    }
    refused(FAILED, error)
}
