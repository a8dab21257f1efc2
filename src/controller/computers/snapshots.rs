//! How is a computer kept as it is at one moment? In its runner's turn, so that nothing else happens to it meanwhile: the
//! row first, then the machine's disk and memory, then what they take. Half a snapshot is undone.

use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::fleet::{ANSWER_TIMEOUT, Fleet, stopping};
use super::runner::{Intent, Runner, Work, refused};
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::snapshot::{Ability, State, check_snapshot, unsupported};
use hotdesk_engine::{Capabilities, EngineError};
use hotdesk_store::computers::Computer;
use hotdesk_store::snapshots::{NewSnapshot, Snapshot};

impl Fleet {
    /// Keeps a computer as it is. The snapshot as it is then: `creating` when that takes longer than a client waits.
    ///
    /// # Errors
    /// [`check_snapshot`]'s; as [`hotdesk_store::Store::add_snapshot`]; why it could not be made, and nothing is left of it.
    pub async fn snapshot(&self, computer: &Computer, new: NewSnapshot) -> Result<Snapshot> {
        self.note_action(computer.id);
        let snapshot = new.id;
        let (accepted, finished) = self.send(computer.id, Work::Snapshot(Arc::new(new)))?;
        accepted.await.map_err(|_| stopping())??;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, finished).await {
            outcome.map_err(|_| stopping())??;
        }
        self.shared.store.snapshot(computer.id, snapshot).await
    }

    /// Removes a snapshot of a computer.
    ///
    /// # Errors
    /// `NotFound`; why it could not be removed: it is `deleting` then, and can be removed again.
    pub async fn remove_snapshot(&self, computer: &Computer, snapshot: SnapshotId) -> Result<()> {
        self.shared.store.snapshot(computer.id, snapshot).await?;
        let (_, finished) = self.send(computer.id, Work::RemoveSnapshot(snapshot))?;
        finished.await.map_err(|_| stopping())?
    }
}

fn ability(of: Capabilities) -> Ability {
    Ability { copy_while_running: of.copy_while_running, memory: of.memory_snapshot }
}

impl Runner {
    pub(super) async fn snapshot(
        &self,
        row: &Computer,
        new: &NewSnapshot,
        accepted: oneshot::Sender<Result<Intent>>,
    ) -> Result<()> {
        let (engine, store) = (&self.shared.engine, &self.shared.store);
        let intended = async {
            check_snapshot(row.status, new.memory, ability(engine.capabilities()))?;
            store.add_snapshot(self.id, new, &row.agent_token).await
        };
        if let Err(error) = intended.await {
            let _ = accepted.send(Err(error.clone()));
            return Err(error);
        }
        let _ = accepted.send(Ok(Intent { status: row.status, begun: true }));
        let act = engine.snapshot(self.id, new.id.0, new.memory);
        let kept = if new.memory { self.unreached(act).await } else { act.await };
        let made = match kept {
            Ok(made) => store.snapshot_is_ready(new.id, made.bytes).await,
            Err(error @ EngineError::Unsupported(_)) => {
                Err(unsupported("This computer's engine keeps no such snapshots").context(error))
            }
            Err(error) => Err(refused("The snapshot could not be made", &error)),
        };
        if made.is_err()
            && let Err(again) = self.drop_snapshot(new.id).await
        {
            tracing::error!(computer = %self.id, error = %again, "the undo of a snapshot failed");
        }
        made
    }

    pub(super) async fn remove_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        // Another may have removed it since it was asked for.
        self.shared.store.snapshot(self.id, snapshot).await?;
        self.shared.store.begin_snapshot_removal(snapshot).await?;
        self.drop_snapshot(snapshot).await
    }

    /// Removes a snapshot, then its row.
    async fn drop_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        let removed = self.shared.engine.remove_snapshot(self.id, snapshot.0).await;
        removed.map_err(|error| refused("The snapshot could not be removed", &error))?;
        self.shared.store.forget_snapshot(snapshot).await
    }

    /// After a start of the controller: undoes snapshots that a crash cut short, finishes removals, and removes what the
    /// engine keeps and no row knows.
    pub(super) async fn recover_snapshots(&self) {
        let recovered = async {
            let rows = self.shared.store.snapshots(self.id).await?;
            for row in rows.iter().filter(|row| row.state != State::Ready) {
                self.drop_snapshot(row.id).await?;
            }
            let kept: Vec<Uuid> = self.shared.engine.snapshots(self.id).await.map_err(Error::internal)?;
            for orphan in kept.into_iter().filter(|kept| rows.iter().all(|row| row.id.0 != *kept)) {
                tracing::warn!(computer = %self.id, snapshot = %orphan, "removing a snapshot that no row knows");
                self.shared.engine.remove_snapshot(self.id, orphan).await.map_err(Error::internal)?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = recovered.await {
            tracing::error!(computer = %self.id, %error, "snapshots are left for the next start");
        }
    }
}
