//! Creation and removal of snapshots.
//!
//! The runner stores the row, saves disk and memory, and stores their size. A partial snapshot is removed.

mod pictures;

use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::fleet::{ANSWER_TIMEOUT, Fleet};
use super::runner::registry::stopping;
use super::runner::{CommandAck, Runner, Work, refused};
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::computer::snapshot::{SnapshotCapabilities, SnapshotState, check_snapshot, unsupported};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{Capabilities, EngineError};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::snapshots::{NewSnapshot, Snapshot};

impl Fleet {
    /// Creates a snapshot and returns it. Its state is `creating` when that takes longer than
    /// [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    /// The errors of [`check_snapshot`] and [`hotdesk_store::Store::add_snapshot`]; the engine's failure,
    /// after which nothing remains.
    pub async fn snapshot(&self, computer: &Computer, new: NewSnapshot) -> Result<Snapshot> {
        self.shared.note_action(computer.id);
        let snapshot = new.id;
        let (accepted, finished) = self.shared.send(computer.id, Work::Snapshot(Arc::new(new)))?;
        accepted.await.map_err(|_| stopping())??;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, finished).await {
            outcome.map_err(|_| stopping())??;
        }
        self.shared.store.snapshot(computer.id, snapshot).await
    }

    /// Removes a snapshot of a computer.
    ///
    /// # Errors
    /// `NotFound`; the engine's failure, after which the snapshot stays `deleting` and can be removed again.
    pub async fn remove_snapshot(&self, computer: &Computer, snapshot: SnapshotId) -> Result<()> {
        self.shared.store.snapshot(computer.id, snapshot).await?;
        let (_, finished) = self.shared.send(computer.id, Work::RemoveSnapshot(snapshot))?;
        finished.await.map_err(|_| stopping())?
    }
}

fn snapshot_capabilities(of: Capabilities) -> SnapshotCapabilities {
    SnapshotCapabilities { copy_while_running: of.copy_while_running, memory: of.memory_snapshot }
}

impl Runner {
    pub(super) async fn snapshot(
        &self,
        row: &Computer,
        new: &NewSnapshot,
        accepted: oneshot::Sender<Result<CommandAck>>,
    ) -> Result<()> {
        let (engine, store) = (&self.shared.engine, &self.shared.store);
        let intended = async {
            check_snapshot(
                row.status,
                new.memory,
                snapshot_capabilities(engine.offers().capabilities(row.isolation)),
            )?;
            store.add_snapshot(self.id, new, &row.agent_token).await
        };
        if let Err(error) = intended.await {
            let _ = accepted.send(Err(error.clone()));
            return Err(error);
        }
        let _ = accepted.send(Ok(CommandAck { status: row.status, begun: true }));
        self.run_pre_snapshot(row).await;
        // The entries in the saved memory are forgotten when it continues.
        let guest = self.presence.borrow().guest.clone();
        self.shared.timelines.fetch_before_end(self.id, guest.as_ref()).await;
        if let Some(guest) = &guest {
            self.shared.take_snapshot_picture(row, new.id, guest).await;
        }
        let act = engine.snapshot(self.id, new.id.0, new.memory);
        let kept = if new.memory { self.with_guest_hidden(act).await } else { act.await };
        let made = match kept {
            Ok(made) => store.mark_snapshot_ready(new.id, made.bytes).await,
            Err(error @ EngineError::Unsupported(_)) => {
                Err(unsupported("This computer's engine does not support such snapshots").context(error))
            }
            Err(error) => Err(refused("The snapshot could not be made", &error)),
        };
        if made.is_err()
            && let Err(again) = self.drop_snapshot(new.id).await
        {
            tracing::error!(
                computer = %self.id,
                error = format_args!("{again:#}"),
                "could not remove a failed snapshot; the next start retries"
            );
        }
        made
    }

    pub(super) async fn remove_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        // Another request may have removed it.
        self.shared.store.snapshot(self.id, snapshot).await?;
        self.shared.store.begin_snapshot_removal(snapshot).await?;
        self.drop_snapshot(snapshot).await
    }

    /// Removes a snapshot, then its row and its picture.
    async fn drop_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        let removed = self.shared.engine.remove_snapshot(self.id, snapshot.0).await;
        removed.map_err(|error| refused("The snapshot could not be removed", &error))?;
        let picture = self.shared.store.forget_snapshot(snapshot).await?;
        self.shared.snapshot_pictures.remove(picture.as_slice()).await;
        Ok(())
    }

    /// Recovers snapshots after a start of the controller: removes partial ones, completes removals, and
    /// removes those without a row.
    pub(super) async fn recover_snapshots(&self) {
        let recovered = async {
            let rows = self.shared.store.snapshots(self.id).await?;
            for row in rows.iter().filter(|row| row.state != SnapshotState::Ready) {
                self.drop_snapshot(row.id).await?;
            }
            let kept: Vec<Uuid> = self.shared.engine.snapshots(self.id).await.map_err(Error::internal)?;
            for orphan in kept.into_iter().filter(|kept| rows.iter().all(|row| row.id.0 != *kept)) {
                tracing::warn!(
                    computer = %self.id,
                    snapshot = %orphan,
                    "removing a snapshot without a database row"
                );
                self.shared.engine.remove_snapshot(self.id, orphan).await.map_err(Error::internal)?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = recovered.await {
            tracing::error!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not recover the snapshots; the next start retries"
            );
        }
    }
}
