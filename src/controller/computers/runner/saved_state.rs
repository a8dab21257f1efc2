//! What does a runner do about the copy of its computer's saved state? What is stored says what is to be done: it is found
//! anew after each piece of work, and a piece of work that changes the computer calls off what is under way.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::fleet::stopping;
use super::Runner;
use hotdesk_base::backoff::Backoff;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_domain::stored::{CopyState, Duty, duty};
use hotdesk_engine::{EngineError, EngineResult, Place, SavedState};
use hotdesk_store::computers::Computer;
use hotdesk_store::saved::SavedCopy;

/// Pauses between tries of what failed.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Work on a copy that goes on beside the runner.
pub(super) struct Errand {
    stop: CancellationToken,
    end: JoinHandle<Option<Option<Outcome>>>,
}

/// How an errand ended that was not called off.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The copy is whole, by its manifest's sum.
    Copied(SavedCopy, String),
    /// The copy was read back: it is what was written, or not.
    Verified(SavedCopy, EngineResult<()>),
    /// What was fetched is on the host's disk.
    Converged,
}

impl Errand {
    /// Waits for the end of the errand that there is; for ever when there is none. Cancel-safe.
    pub(super) async fn ended(errand: &mut Option<Self>) -> Option<Outcome> {
        let Some(running) = errand else { return std::future::pending().await };
        let outcome = (&mut running.end).await.ok().flatten().flatten();
        *errand = None;
        outcome
    }
}

impl Runner {
    /// Stores that the computer sleeps, and the intent to copy its state where there is a store. `Suspending` where the
    /// copy comes first.
    pub(super) async fn fall_asleep(&mut self, row: &Computer) -> Result<Status> {
        let saved = self.saved_state().await;
        let copy = self.shared.store.saved_copy(self.id).await?;
        let status = match (saved, copy, &self.shared.keeper) {
            // Booted since, and gone with the host's power before what was fetched was on its disk.
            (Some(SavedState { place: Place::Away, .. }), Some(copy), _) if row.converging => {
                self.shared.store.sleep_on(&copy).await?;
                Status::Suspended
            }
            (Some(SavedState { place: Place::Here, generation, .. }), _, Some(keeper)) => {
                let first = keeper.copies_first() && row.status != Status::Suspended;
                self.shared.store.fall_asleep(self.id, generation, first).await?
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

    /// What the engine has of it. A suspend that a crash cut short is finished first.
    async fn saved_state(&self) -> Option<SavedState> {
        let engine = &self.shared.engine;
        let looked = match engine.saved(self.id).await {
            Ok(None) if self.shared.keeper.is_some() => {
                let settled = engine.suspend(self.id).await;
                match settled {
                    Ok(()) => engine.saved(self.id).await,
                    Err(error) => Err(error),
                }
            }
            looked => looked,
        };
        looked.unwrap_or_else(|error| {
            tracing::warn!(computer = %self.id, %error, "its saved state cannot be looked at; it is not copied yet");
            None
        })
    }

    /// Whether a wake is one from storage: the state is not here, or only there is it safe.
    pub(super) async fn is_in_storage(&self) -> Result<bool> {
        let saved = self.shared.engine.saved(self.id).await.map_err(Error::internal)?;
        Ok(saved.is_some_and(|saved| saved.place != Place::Here))
    }

    /// Fetches what is in storage; the disk alone, which is durable then, when memory is given up. A computer whose state
    /// is here is left alone.
    pub(in super::super) async fn bring_home(&self, with_memory: bool) -> EngineResult<()> {
        let engine = &self.shared.engine;
        match engine.saved(self.id).await? {
            Some(SavedState { place: Place::Away, .. }) => {}
            Some(SavedState { place: Place::Arrived, .. }) if !with_memory => {
                return engine.converge(self.id).await;
            }
            Some(_) | None => return Ok(()),
        }
        let found = self.shared.store.saved_copy(self.id).await;
        let copy = found.map_err(|error| EngineError::failed("look for the copy in storage", error))?;
        let copy = copy.filter(|copy| copy.state == CopyState::Whole);
        let (Some(keeper), Some(copy)) = (&self.shared.keeper, copy) else {
            return Err(EngineError::Damaged("its state is in a store that is not known here".to_owned()));
        };
        let turn = self.shared.tasks.stopping();
        tokio::select! {
            () = turn.cancelled() => return Err(EngineError::failed("fetch the saved state", "the controller stops")),
            fetched = keeper.fetch(&copy, with_memory) => fetched?,
        }
        if with_memory { Ok(()) } else { engine.converge(self.id).await }
    }

    /// Brings what a machine has written that has ended to the host's own disk, also where that was fetched. Else a power cut
    /// brings back what is in storage, though the computer read as one at rest.
    pub(super) async fn settled(&self, ended: EngineResult<()>) -> EngineResult<()> {
        ended?;
        self.shared.engine.converge(self.id).await
    }

    /// After a start of the controller, of a computer that was at rest: its host may have lost its power before what it
    /// fetched was on the host's disk. Then it sleeps, with what its copy holds.
    pub(super) async fn rest_or_sleep(&mut self, row: &Computer) -> Result<()> {
        if !row.converging {
            return Ok(());
        }
        let saved = self.shared.engine.saved(self.id).await.map_err(Error::internal)?;
        if saved.is_some_and(|saved| saved.place == Place::Away) { self.sleep_on().await } else { Ok(()) }
    }

    /// Nothing came of a wake or a stop: the computer sleeps on with what was saved. Where that is because this controller
    /// ends, what was intended stays stored, and the next one goes on with it.
    pub(in super::super) async fn sleep_on(&mut self) -> Result<()> {
        if self.shared.tasks.stopping().is_cancelled() {
            return Err(stopping());
        }
        let copy = self.shared.store.saved_copy(self.id).await?;
        match copy.filter(|copy| copy.state == CopyState::Whole) {
            Some(copy) => self.shared.store.sleep_on(&copy).await?,
            None => self.shared.store.set_status(self.id, Status::Suspended).await?,
        }
        self.show(Status::Suspended, None, None);
        Ok(())
    }

    /// Ends what is under way about the copy, before the computer changes.
    pub(in super::super) async fn call_off(&mut self) {
        if let Some(errand) = self.errand.take() {
            errand.stop.cancel();
            // What it had to tell is found anew from what is stored.
            let _ended = errand.end.await;
        }
    }

    /// Takes note of what an errand has come to.
    pub(super) async fn errand_ended(&mut self, outcome: Option<Outcome>) {
        let noted = match outcome {
            Some(Outcome::Copied(copy, manifest)) => self.copied(&copy, &manifest).await,
            Some(Outcome::Verified(copy, Ok(()))) => self.evict(&copy).await,
            Some(Outcome::Verified(copy, Err(error))) => self.doubt(&copy, &error).await,
            Some(Outcome::Converged) => self.shared.store.converged(self.id).await,
            None => Err(Error::internal("what was under way ended by itself")),
        };
        if let Err(error) = noted {
            tracing::warn!(computer = %self.id, %error, "what became of a copy could not be noted; it is tried again");
            tokio::time::sleep(LEAST_PAUSE).await;
        }
        self.take_up(false).await;
        if let Some(keeper) = &self.shared.keeper {
            keeper.look_again();
        }
    }

    async fn copied(&mut self, copy: &SavedCopy, manifest: &str) -> Result<()> {
        self.shared.store.copy_is_whole(copy, manifest).await?;
        if self.shown() == Some(Status::Suspending) {
            self.show(Status::Suspended, None, None);
        }
        Ok(())
    }

    async fn evict(&mut self, copy: &SavedCopy) -> Result<()> {
        let saved = self.shared.engine.saved(self.id).await.map_err(Error::internal)?;
        let same = saved.is_some_and(|it| it.place == Place::Here && it.generation == copy.generation);
        if self.shown() != Some(Status::Suspended) || !same {
            return Ok(());
        }
        self.shared.engine.evict(self.id).await.map_err(Error::internal)
    }

    /// A copy that could not be read back is not relied on. One that is not what was written is made again.
    async fn doubt(&mut self, copy: &SavedCopy, error: &EngineError) -> Result<()> {
        tracing::warn!(computer = %self.id, operation = %copy.operation, %error, "a copy in storage cannot be relied on");
        if matches!(error, EngineError::Damaged(_)) {
            self.shared.store.give_up_copies(self.id).await?;
        }
        Ok(())
    }

    /// Does or begins what is to be done, as far as nothing is under way; with `evict` a whole copy is read back so that
    /// the host's own can go.
    pub(super) async fn take_up(&mut self, evict: bool) {
        if self.errand.is_some() {
            return;
        }
        if let Err(error) = self.try_to_take_up(evict).await {
            tracing::warn!(computer = %self.id, %error, "what is to be done about a copy could not be taken up");
        }
    }

    async fn try_to_take_up(&mut self, evict: bool) -> Result<()> {
        let store = self.shared.store.clone();
        let reference = hotdesk_base::ids::ComputerRef::Id(self.id);
        let Some(mut row) = store.computer(&reference).await? else { return Ok(()) };
        let mut copy = store.saved_copy(self.id).await?;
        let has_store = self.shared.keeper.is_some();
        let state = |copy: &Option<SavedCopy>| copy.as_ref().map(|copy| copy.state);
        let mut todo = duty(row.status, row.converging, state(&copy), has_store);
        if todo == Some(Duty::Begin) {
            self.fall_asleep(&row).await?;
            copy = store.saved_copy(self.id).await?;
            row = self.row().await?;
            todo = duty(row.status, row.converging, state(&copy), has_store);
        }
        match (todo, copy) {
            (Some(Duty::Copy), Some(copy)) => self.begin_copy(copy),
            (Some(Duty::Converge), _) => self.begin_converge(),
            (Some(Duty::GiveUp), _) => {
                // Whatever the status says: the copy of what is saved still is not given up.
                if self.shared.engine.saved(self.id).await.map_err(Error::internal)?.is_some() {
                    return Ok(());
                }
                store.give_up_copies(self.id).await?;
                if let Some(keeper) = &self.shared.keeper {
                    keeper.look_again();
                }
            }
            (None, Some(copy)) if copy.state == CopyState::Whole && row.status == Status::Suspended => {
                self.finish_eviction(&copy, evict).await?;
            }
            (Some(Duty::Begin | Duty::Copy) | None, _) => {}
        }
        Ok(())
    }

    /// A state that is here is evicted once its copy was read back; an eviction that was cut short is finished.
    async fn finish_eviction(&mut self, copy: &SavedCopy, evict: bool) -> Result<()> {
        let saved = self.shared.engine.saved(self.id).await.map_err(Error::internal)?;
        match saved.map(|saved| saved.place) {
            Some(Place::Away) => self.shared.engine.evict(self.id).await.map_err(Error::internal),
            Some(Place::Here) if evict => {
                self.begin_verify(copy.clone());
                Ok(())
            }
            // A wake that failed after all was fetched.
            Some(Place::Arrived) => self.shared.engine.converge(self.id).await.map_err(Error::internal),
            Some(Place::Here) | None => Ok(()),
        }
    }

    fn begin_copy(&mut self, copy: SavedCopy) {
        let Some(keeper) = self.shared.keeper.clone() else { return };
        self.begin("copy to storage", async move {
            let mut backoff = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE);
            loop {
                match keeper.copy(&copy).await {
                    Ok(manifest) => return Outcome::Copied(copy, manifest),
                    Err(error) => tracing::warn!(computer = %copy.computer, %error, "it is not copied yet"),
                }
                tokio::time::sleep(backoff.after(Duration::ZERO)).await;
            }
        });
    }

    fn begin_verify(&mut self, copy: SavedCopy) {
        let Some(keeper) = self.shared.keeper.clone() else { return };
        self.begin("read a copy back", async move {
            let verified = keeper.verify(&copy).await;
            Outcome::Verified(copy, verified)
        });
    }

    fn begin_converge(&mut self) {
        let (engine, id) = (Arc::clone(&self.shared.engine), self.id);
        self.begin("converge", async move {
            let mut backoff = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE);
            loop {
                match engine.converge(id).await {
                    Ok(()) => return Outcome::Converged,
                    Err(error) => {
                        tracing::warn!(computer = %id, %error, "what was fetched is not on the disk yet")
                    }
                }
                tokio::time::sleep(backoff.after(Duration::ZERO)).await;
            }
        });
    }

    fn begin(&mut self, name: &'static str, work: impl Future<Output = Outcome> + Send + 'static) {
        let stop = self.shared.tasks.stopping().child_token();
        let told = stop.clone();
        let end = self.shared.tasks.spawn(name, async move {
            tokio::select! {
                () = told.cancelled() => None,
                outcome = work => Some(outcome),
            }
        });
        self.errand = Some(Errand { stop, end });
    }
}
