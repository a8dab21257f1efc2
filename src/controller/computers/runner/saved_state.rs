//! Copy of a computer's saved state in object storage.
//!
//! The stored rows determine the next task. It is determined again after each piece of work. Work that
//! changes the computer cancels a running copy job.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Runner;
use super::registry::stopping;
use hotdesk_base::backoff::Backoff;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::saved_state::{CopyState, CopyTask, next_copy_task};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{EngineError, EngineResult, SavedLocation, SavedState};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::saved_state::saved_copies::SavedCopy;

/// Shortest and longest pause between two attempts.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Background task that works on a copy.
pub(super) struct CopyJob {
    stop: CancellationToken,
    end: JoinHandle<Option<Option<CopyOutcome>>>,
}

/// Result of a copy job that was not cancelled.
#[derive(Debug)]
pub(super) enum CopyOutcome {
    /// The copy is complete; the text is its manifest's checksum.
    Copied(SavedCopy, String),
    /// The copy was read back and verified, or found damaged.
    Verified(SavedCopy, EngineResult<()>),
    /// The fetched state is on the host's disk.
    Converged,
}

impl CopyJob {
    /// Waits for the end of the copy job, or forever without one. Cancel-safe.
    pub(super) async fn ended(copy_job: &mut Option<Self>) -> Option<CopyOutcome> {
        let Some(running) = copy_job else { return std::future::pending().await };
        let outcome = (&mut running.end).await.ok().flatten().flatten();
        *copy_job = None;
        outcome
    }
}

impl Runner {
    /// Stores that the computer is suspended, and the intent to copy its state to a configured object store.
    /// Returns `Suspending` when the copy must complete first.
    pub(super) async fn finish_suspend(&mut self, row: &Computer) -> Result<Status> {
        let saved = self.saved_state().await;
        let copy = self.shared.store.saved_copy(self.id).await?;
        let status = match (saved, copy, &self.shared.archive) {
            // It had resumed, and its host lost power before the fetched state was on its disk.
            (Some(SavedState { location: SavedLocation::Evicted, .. }), Some(copy), _) if row.converging => {
                self.shared.store.keep_suspended(&copy).await?;
                Status::Suspended
            }
            (Some(SavedState { location: SavedLocation::Local, generation, .. }), _, Some(archive)) => {
                let first = archive.copies_first() && row.status != Status::Suspended;
                self.shared.store.suspend_with_copy(self.id, generation, first, archive.seals()).await?
            }
            (Some(_) | None, _, _) => {
                if row.status != Status::Suspended {
                    self.shared.store.set_status(self.id, Status::Suspended).await?;
                }
                Status::Suspended
            }
        };
        self.show(status, None, None);
        Ok(status)
    }

    /// Returns the engine's saved state. A suspend that a crash interrupted is completed first.
    async fn saved_state(&self) -> Option<SavedState> {
        let engine = &self.shared.engine;
        let looked = match engine.saved_state(self.id).await {
            Ok(None) if self.shared.archive.is_some() => {
                let settled = engine.suspend(self.id).await;
                match settled {
                    Ok(()) => engine.saved_state(self.id).await,
                    Err(error) => Err(error),
                }
            }
            looked => looked,
        };
        looked.unwrap_or_else(|error| {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not read the saved state; it is not copied yet"
            );
            None
        })
    }

    /// Whether a resume uses object storage: the state is not on this host, or is only safe in storage.
    pub(super) async fn is_in_storage(&self) -> Result<bool> {
        let saved = self.shared.engine.saved_state(self.id).await.map_err(Error::internal)?;
        Ok(saved.is_some_and(|saved| saved.location != SavedLocation::Local))
    }

    /// Fetches an evicted state from object storage. Without `with_memory` only the disk is fetched, and made
    /// durable. A state on this host is left unchanged.
    pub(in super::super) async fn fetch_state(&self, with_memory: bool) -> EngineResult<()> {
        let engine = &self.shared.engine;
        match engine.saved_state(self.id).await? {
            Some(SavedState { location: SavedLocation::Evicted, .. }) => {}
            Some(SavedState { location: SavedLocation::Fetched, .. }) if !with_memory => {
                return engine.sync_fetched(self.id).await;
            }
            Some(_) | None => return Ok(()),
        }
        let found = self.shared.store.saved_copy(self.id).await;
        let copy = found.map_err(|error| EngineError::failed("look up the copy in storage", error))?;
        let copy = copy.filter(|copy| copy.state == CopyState::Whole);
        let (Some(archive), Some(copy)) = (&self.shared.archive, copy) else {
            return Err(EngineError::Damaged(
                "its state is in an object store that is not configured here".to_owned(),
            ));
        };
        let turn = self.shared.tasks.stopping();
        tokio::select! {
            () = turn.cancelled() => return Err(EngineError::failed("fetch the saved state", "the controller stops")),
            fetched = archive.fetch(&copy, with_memory) => fetched?,
        }
        if with_memory { Ok(()) } else { engine.sync_fetched(self.id).await }
    }

    /// Makes the disk of an ended machine durable, also when it was fetched. Otherwise a power failure would
    /// restore an older disk from object storage after the computer was reported stopped.
    pub(super) async fn converge_after(&self, ended: EngineResult<()>) -> EngineResult<()> {
        ended?;
        self.shared.engine.sync_fetched(self.id).await
    }

    /// Recovers a computer that was not running. If its host lost power before a fetched state was durable,
    /// it becomes suspended with the contents of its copy.
    pub(super) async fn recover_idle(&mut self, row: &Computer) -> Result<()> {
        if !row.converging {
            return Ok(());
        }
        let saved = self.shared.engine.saved_state(self.id).await.map_err(Error::internal)?;
        if saved.is_some_and(|saved| saved.location == SavedLocation::Evicted) {
            self.stay_suspended().await
        } else {
            Ok(())
        }
    }

    /// A wake or stop failed: the computer stays suspended. If this controller is stopping, the stored intent
    /// stays, and the next controller continues.
    pub(in super::super) async fn stay_suspended(&mut self) -> Result<()> {
        if self.shared.tasks.stopping().is_cancelled() {
            return Err(stopping());
        }
        let copy = self.shared.store.saved_copy(self.id).await?;
        match copy.filter(|copy| copy.state == CopyState::Whole) {
            Some(copy) => self.shared.store.keep_suspended(&copy).await?,
            None => self.shared.store.set_status(self.id, Status::Suspended).await?,
        }
        self.show(Status::Suspended, None, None);
        Ok(())
    }

    /// Cancels the copy job before the computer changes.
    pub(in super::super) async fn cancel_copy_job(&mut self) {
        if let Some(copy_job) = self.copy_job.take() {
            copy_job.stop.cancel();
            // Its result is determined again from the stored rows.
            let _ended = copy_job.end.await;
        }
    }

    /// Stores the result of a copy job.
    pub(super) async fn copy_job_ended(&mut self, outcome: Option<CopyOutcome>) {
        let stored = match outcome {
            Some(CopyOutcome::Copied(copy, manifest)) => self.copied(&copy, &manifest).await,
            Some(CopyOutcome::Verified(copy, Ok(()))) => self.evict(&copy).await,
            Some(CopyOutcome::Verified(copy, Err(error))) => self.reject_copy(&copy, &error).await,
            Some(CopyOutcome::Converged) => self.shared.store.mark_converged(self.id).await,
            None => Err(Error::internal("a copy job ended without a result")),
        };
        if let Err(error) = stored {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not store the result of a copy job; it is retried"
            );
            tokio::time::sleep(MIN_PAUSE).await;
        }
        self.start_copy_task(false).await;
        if let Some(archive) = &self.shared.archive {
            archive.wake();
        }
    }

    async fn copied(&mut self, copy: &SavedCopy, manifest: &str) -> Result<()> {
        self.shared.store.mark_copy_complete(copy, manifest).await?;
        if self.shown_status() == Some(Status::Suspending) {
            self.show(Status::Suspended, None, None);
        }
        Ok(())
    }

    async fn evict(&mut self, copy: &SavedCopy) -> Result<()> {
        let saved = self.shared.engine.saved_state(self.id).await.map_err(Error::internal)?;
        let same =
            saved.is_some_and(|it| it.location == SavedLocation::Local && it.generation == copy.generation);
        if self.shown_status() != Some(Status::Suspended) || !same {
            return Ok(());
        }
        self.shared.engine.evict(self.id).await.map_err(Error::internal)
    }

    /// Handles a copy that could not be verified. A damaged one is discarded and made again.
    async fn reject_copy(&mut self, copy: &SavedCopy, error: &EngineError) -> Result<()> {
        tracing::warn!(
            computer = %self.id,
            operation = %copy.operation,
            error = format_args!("{error:#}"),
            "could not verify a copy in object storage"
        );
        if matches!(error, EngineError::Damaged(_)) {
            self.shared.store.discard_copies(self.id).await?;
        }
        Ok(())
    }

    /// Performs or starts the next task of the copy, unless a job is running. With `evict` a complete copy is
    /// verified so that the host's own can be removed.
    pub(super) async fn start_copy_task(&mut self, evict: bool) {
        if self.copy_job.is_some() {
            return;
        }
        if let Err(error) = self.try_start_copy_task(evict).await {
            tracing::warn!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not start the next task of a copy; it is retried"
            );
        }
    }

    async fn try_start_copy_task(&mut self, evict: bool) -> Result<()> {
        let store = self.shared.store.clone();
        let reference = hotdesk_base::ids::ComputerRef::Id(self.id);
        let Some(mut row) = store.computer(&reference).await? else { return Ok(()) };
        let mut copy = store.saved_copy(self.id).await?;
        let has_store = self.shared.archive.is_some();
        let state = |copy: &Option<SavedCopy>| copy.as_ref().map(|copy| copy.state);
        let mut todo = next_copy_task(row.status, row.converging, state(&copy), has_store);
        if todo == Some(CopyTask::Begin) {
            self.finish_suspend(&row).await?;
            copy = store.saved_copy(self.id).await?;
            row = self.row().await?;
            todo = next_copy_task(row.status, row.converging, state(&copy), has_store);
        }
        match (todo, copy) {
            (Some(CopyTask::Copy), Some(copy)) => self.begin_copy(copy),
            (Some(CopyTask::Converge), _) => self.begin_converge(),
            (Some(CopyTask::GiveUp), _) => {
                // The copy of a still existing saved state is not discarded, whatever the status is.
                if self.shared.engine.saved_state(self.id).await.map_err(Error::internal)?.is_some() {
                    return Ok(());
                }
                store.discard_copies(self.id).await?;
                if let Some(archive) = &self.shared.archive {
                    archive.wake();
                }
            }
            (None, Some(copy)) if copy.state == CopyState::Whole && row.status == Status::Suspended => {
                self.finish_eviction(&copy, evict).await?;
            }
            (Some(CopyTask::Begin | CopyTask::Copy) | None, _) => {}
        }
        Ok(())
    }

    /// Evicts a local state once its copy is verified, and completes an interrupted eviction.
    async fn finish_eviction(&mut self, copy: &SavedCopy, evict: bool) -> Result<()> {
        let saved = self.shared.engine.saved_state(self.id).await.map_err(Error::internal)?;
        match saved.map(|saved| saved.location) {
            Some(SavedLocation::Evicted) => self.shared.engine.evict(self.id).await.map_err(Error::internal),
            Some(SavedLocation::Local) if evict => {
                self.begin_verify(copy.clone());
                Ok(())
            }
            // A wake that failed after the fetch.
            Some(SavedLocation::Fetched) => {
                self.shared.engine.sync_fetched(self.id).await.map_err(Error::internal)
            }
            Some(SavedLocation::Local) | None => Ok(()),
        }
    }

    fn begin_copy(&mut self, copy: SavedCopy) {
        let Some(archive) = self.shared.archive.clone() else { return };
        self.begin("copy to storage", async move {
            let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, MAX_PAUSE);
            loop {
                match archive.copy(&copy).await {
                    Ok(manifest) => return CopyOutcome::Copied(copy, manifest),
                    Err(error) => tracing::warn!(
                        computer = %copy.computer,
                        error = format_args!("{error:#}"),
                        "could not copy the saved state; it is retried"
                    ),
                }
                tokio::time::sleep(backoff.after(Duration::ZERO)).await;
            }
        });
    }

    fn begin_verify(&mut self, copy: SavedCopy) {
        let Some(archive) = self.shared.archive.clone() else { return };
        self.begin("read a copy back", async move {
            let verified = archive.verify(&copy).await;
            CopyOutcome::Verified(copy, verified)
        });
    }

    fn begin_converge(&mut self) {
        let (engine, id) = (Arc::clone(&self.shared.engine), self.id);
        self.begin("converge", async move {
            let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, MAX_PAUSE);
            loop {
                match engine.sync_fetched(id).await {
                    Ok(()) => return CopyOutcome::Converged,
                    Err(error) => {
                        tracing::warn!(
                            computer = %id,
                            error = format_args!("{error:#}"),
                            "could not make the fetched state durable; it is retried"
                        )
                    }
                }
                tokio::time::sleep(backoff.after(Duration::ZERO)).await;
            }
        });
    }

    fn begin(&mut self, name: &'static str, work: impl Future<Output = CopyOutcome> + Send + 'static) {
        let stop = self.shared.tasks.stopping().child_token();
        let stop_requested = stop.clone();
        let end = self.shared.tasks.spawn(name, async move {
            tokio::select! {
                () = stop_requested.cancelled() => None,
                outcome = work => Some(outcome),
            }
        });
        self.copy_job = Some(CopyJob { stop, end });
    }
}
