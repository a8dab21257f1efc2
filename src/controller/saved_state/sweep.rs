//! Clean-up of copies in object storage, and the quota of saved states on the host.
//!
//! A round removes objects without a database row, removes copies that are no longer needed, and evicts
//! states beyond the quota. Failures are retried in the next round.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{StateArchive, label};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::saved_state::{CopyState, EvictionCandidate, choose_evictions};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::SavedLocation;

/// Time between two rounds when nothing wakes the task.
const ROUND_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two listings of the whole store. Only a crash or a late write leaves orphans.
const SWEEP_INTERVAL: Duration = Duration::from_secs(300);

impl StateArchive {
    /// Maintains copies and quota until the controller stops. `check_copy` asks a computer's runner to
    /// complete work on its copy, and to free the host's copy if its second argument is true.
    pub async fn run(&self, stop: &CancellationToken, check_copy: impl Fn(ComputerId, bool)) {
        let mut swept: Option<Instant> = None;
        loop {
            let all = swept.is_none_or(|at| at.elapsed() >= SWEEP_INTERVAL);
            let round = async {
                if all {
                    self.sweep().await?;
                }
                self.remove_discarded().await?;
                self.enforce_quota(&check_copy).await
            };
            let done = tokio::select! {
                () = stop.cancelled() => return,
                done = round => done,
            };
            match done {
                Ok(()) if all => swept = Some(Instant::now()),
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(
                        error = format_args!("{error:#}"),
                        "could not maintain the saved states in object storage; it is retried"
                    )
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
            }
        }
    }

    /// Removes objects of copies without a row. They come from a write in progress when its copy was
    /// discarded, or from a restored older database.
    async fn sweep(&self) -> Result<()> {
        // List objects before rows, because a row is written before its first object.
        let found = self.objects.labels().await.map_err(Error::internal)?;
        let rows = self.store.saved_copies().await?;
        for orphan in found.iter().filter(|found| rows.iter().all(|row| label(row) != **found)) {
            tracing::info!(copy = %orphan, "removing objects of an unknown copy");
            self.objects.remove(orphan).await.map_err(Error::internal)?;
        }
        Ok(())
    }

    async fn remove_discarded(&self) -> Result<()> {
        let rows = self.store.saved_copies().await?;
        for row in rows.iter().filter(|row| row.state == CopyState::Removing) {
            self.objects.remove(&label(row)).await.map_err(Error::internal)?;
            self.store.forget_copy(row.operation).await?;
        }
        Ok(())
    }

    /// Asks runners to evict states beyond the quota, and to complete pending work.
    async fn enforce_quota(&self, check_copy: &impl Fn(ComputerId, bool)) -> Result<()> {
        let (rows, copies) = (self.store.all_computers().await?, self.store.saved_copies().await?);
        let mut kept = Vec::new();
        for row in rows.iter().filter(|row| row.status == Status::Suspended) {
            let copy =
                copies.iter().find(|copy| copy.computer == row.id && copy.state != CopyState::Removing);
            match self.engine.saved_state(row.id).await {
                Ok(Some(state)) if state.location == SavedLocation::Local => kept.push(EvictionCandidate {
                    computer: row.id,
                    since: copy.map_or(row.updated_at, |copy| copy.created_at),
                    bytes: state.allocated(),
                    copied: copy.is_some_and(|copy| copy.state == CopyState::Whole),
                }),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(
                        computer = %row.id,
                        error = format_args!("{error:#}"),
                        "could not read the size of the saved state; it does not count for the quota"
                    )
                }
            }
            if copy.is_none() {
                check_copy(row.id, false);
            }
        }
        if let Some(quota) = self.quota {
            for computer in choose_evictions(&kept, quota) {
                check_copy(computer, true);
            }
        }
        Ok(())
    }
}
