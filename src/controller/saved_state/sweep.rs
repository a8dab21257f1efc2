//! What of the copies is not needed any more, and which computers make room on the host? Objects that no row names are
//! swept, those of rows that are given up are removed, and the quota is held. What fails is tried again.

use std::time::Duration;

use tokio::time::Instant;

use super::{Keeper, label};
use crate::Shared;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_domain::stored::{CopyState, Kept, to_evict};
use hotdesk_engine::Place;
use hotdesk_objects::ObjectError;

/// Between two rounds when nothing tells of a change.
const EVERY: Duration = Duration::from_secs(30);
/// Between two looks at everything that is in storage: what only a crash or a late write leaves.
const SWEEP_EVERY: Duration = Duration::from_secs(300);

impl Keeper {
    /// Looks after copies and quota until the controller stops.
    pub async fn look_after(&self, app: Shared) {
        let stop = app.tasks.stopping();
        let mut swept: Option<Instant> = None;
        loop {
            let all = swept.is_none_or(|at| at.elapsed() >= SWEEP_EVERY);
            let round = async {
                if all {
                    self.sweep().await?;
                }
                self.remove_given_up().await?;
                self.hold_quota(&app).await
            };
            let done = tokio::select! {
                () = stop.cancelled() => return,
                done = round => done,
            };
            match done {
                Ok(()) if all => swept = Some(Instant::now()),
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, "copies in storage were not looked after; it is tried again")
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Removes objects of copies that no row names: a write that was under way when its copy was given up, or a row that
    /// a restored store does not have.
    async fn sweep(&self) -> Result<()> {
        // In this order: a row comes before its first object.
        let found = self.objects.labels().await.map_err(unreached)?;
        let rows = self.store.saved_copies().await?;
        for orphan in found.iter().filter(|found| rows.iter().all(|row| label(row) != **found)) {
            tracing::info!(copy = %orphan, "removing objects that no computer's copy has");
            self.objects.remove(orphan).await.map_err(unreached)?;
        }
        Ok(())
    }

    async fn remove_given_up(&self) -> Result<()> {
        let rows = self.store.saved_copies().await?;
        for row in rows.iter().filter(|row| row.state == CopyState::Removing) {
            self.objects.remove(&label(row)).await.map_err(unreached)?;
            self.store.forget_copy(row.operation).await?;
        }
        Ok(())
    }

    /// Has the runners evict what is over the quota, and see to what was left undone.
    async fn hold_quota(&self, app: &Shared) -> Result<()> {
        let (rows, copies) = (self.store.all_computers().await?, self.store.saved_copies().await?);
        let mut kept = Vec::new();
        for row in rows.iter().filter(|row| row.status == Status::Suspended) {
            let copy =
                copies.iter().find(|copy| copy.computer == row.id && copy.state != CopyState::Removing);
            match self.engine.saved(row.id).await {
                Ok(Some(state)) if state.place == Place::Here => kept.push(Kept {
                    computer: row.id,
                    since: copy.map_or(row.updated_at, |copy| copy.created_at),
                    bytes: state.spent(),
                    copied: copy.is_some_and(|copy| copy.state == CopyState::Whole),
                }),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(computer = %row.id, %error, "its saved state cannot be looked at")
                }
            }
            if copy.is_none() {
                app.fleet.tend(row.id, false);
            }
        }
        if let Some(quota) = self.quota {
            for computer in to_evict(&kept, quota) {
                app.fleet.tend(computer, true);
            }
        }
        Ok(())
    }
}

fn unreached(error: ObjectError) -> Error {
    Error::internal(format!("storage: {error}"))
}
