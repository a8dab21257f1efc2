//! Who runs the computers? One runner per computer; this room finds it, hands it commands and knows what is live.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::reach::ACT_TIMEOUT;
use super::runner::{Intent, Message, Runner, Work, gone, suspend_unsupported};
use super::view;
use crate::config::Suspension;
use crate::saved::Keeper;
use crate::storage::Storage;
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_base::tally::Tally;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::billing;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::{Command, Decision, Status};
use hotdesk_domain::stored::CopyState;
use hotdesk_engine::Engine;
use hotdesk_guest::Guest;
use hotdesk_store::Store;
use hotdesk_store::computers::{Computer, NewComputer};

/// Commands that wait for one computer; more are told to come back.
const MAILBOX: usize = 16;
/// Machines started at once: boots are CPU-bound, more at a time only make each slower.
const STARTS_AT_ONCE: usize = 4;
/// How long suspend and resume wait for the end before they answer that it is under way: clients give a request 60 s
/// (wire.md 4.2).
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);
/// How long ensure-running waits for a boot that another request started: longer than one may take.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(200);

/// What is live about one computer. The runner is its only writer.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    pub(super) status: Option<Status>,
    pub(super) guest: Option<Guest>,
    pub(super) address: Option<std::net::IpAddr>,
    /// Why it does not run, where the service ended it by itself.
    pub(super) because: Option<&'static str>,
}

struct Desk {
    mailbox: mpsc::Sender<Message>,
    presence: watch::Receiver<Presence>,
    /// When it was last acted on, or its first runner here began.
    acted: Instant,
}

/// What runners share.
pub(super) struct Shared {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) store: Store,
    pub(super) storage: Storage,
    pub(super) tasks: Tasks,
    pub(super) starts: Semaphore,
    /// What copies saved states to storage, where there is one.
    pub(super) keeper: Option<Arc<Keeper>>,
    /// Whether reading wakes a sleeping computer too.
    pub(super) reads_wake: bool,
    /// How long an action waits for a computer that wakes.
    pub(super) wake_wait: Duration,
    /// Computers whose stream is being ended: a second order might meet the stream of somebody who may have one.
    pub(super) ending_streams: Tally<ComputerId>,
    desks: Mutex<HashMap<ComputerId, Desk>>,
}

impl Shared {
    pub(super) fn forget(&self, id: ComputerId) {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// When a computer was last acted on, as [`Fleet::acted`] tells it.
    pub(super) fn acted(&self, id: ComputerId) -> Option<Instant> {
        let desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        desks.get(&id).map(|desk| desk.acted)
    }

    /// Counts asking for rest as an act, so that it is not asked for again at once; nothing when one came since `judged`.
    fn note_rest(&self, id: ComputerId, judged: Instant) -> Option<Instant> {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = desks.get_mut(&id).filter(|desk| desk.acted == judged)?;
        desk.acted = Instant::now();
        Some(desk.acted)
    }
}

/// All computers of this controller.
#[derive(Clone)]
pub struct Fleet {
    pub(super) shared: Arc<Shared>,
}

/// A command that was accepted: its intent is stored.
pub struct Accepted {
    /// What the computer is since then: on its way, or as it was asked to be already.
    pub status: Status,
    /// Whether it is this command that is carried out, and not another one before it.
    pub begun: bool,
    finished: oneshot::Receiver<Result<()>>,
}

impl Accepted {
    /// Waits for the end of the work.
    ///
    /// # Errors
    /// What failed; or `Unavailable` when the controller stops first.
    pub async fn finish(self) -> Result<()> {
        match self.finished.await {
            Ok(outcome) => outcome,
            Err(_) => Err(stopping()),
        }
    }
}

pub(super) fn stopping() -> Error {
    Error::unavailable("The service is shutting down").retry_after(5)
}

impl Fleet {
    /// An empty fleet; [`Fleet::recover`] fills it.
    pub fn new(
        engine: Arc<dyn Engine>,
        store: Store,
        storage: Storage,
        tasks: Tasks,
        suspension: &Suspension,
        keeper: Option<Arc<Keeper>>,
    ) -> Self {
        let wake_wait = Duration::from_secs(suspension.wake_wait_seconds.into()).min(ACT_TIMEOUT);
        let shared = Shared {
            engine,
            store,
            storage,
            tasks,
            starts: Semaphore::new(STARTS_AT_ONCE),
            keeper,
            reads_wake: suspension.reads_wake,
            wake_wait,
            ending_streams: Tally::default(),
            desks: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The fleet of what runners share, for a runner that needs another one.
    pub(super) fn over(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The engine in use.
    pub fn engine(&self) -> &dyn Engine {
        &*self.shared.engine
    }

    /// Computers whose stream is being ended.
    pub fn ending_streams(&self) -> &Tally<ComputerId> {
        &self.shared.ending_streams
    }

    /// What copies saved states to storage, where there is one.
    pub fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.shared.keeper.as_ref()
    }

    /// Has a computer's runner see to the copy of its saved state; with `evict` make room on the host.
    pub fn tend(&self, id: ComputerId, evict: bool) {
        if let Err(error) = self.send(id, Work::Tend { evict }) {
            tracing::debug!(computer = %id, %error, "it is busy; it is asked again later");
        }
    }

    /// Whether the copy of a suspended computer's state is being saved in the background.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_saving(&self, id: ComputerId, status: Status) -> Result<bool> {
        if self.shared.keeper.is_none() || status != Status::Suspended {
            return Ok(false);
        }
        let copy = self.shared.store.saved_copy(id).await?;
        Ok(copy.is_some_and(|copy| copy.state == CopyState::Saving))
    }

    /// Adopts what runs, finishes or undoes what a crash left half done, removes machines that no row knows
    /// (threats.md T18). The work goes on in the runners; this returns once each has its own.
    ///
    /// # Errors
    /// When the store or the engine cannot be asked.
    pub async fn recover(&self) -> Result<()> {
        let rows = self.shared.store.all_computers().await?;
        for row in &rows {
            let _accepted = self.send(row.id, Work::Recover)?;
        }
        let machines = self.shared.engine.list().await.map_err(Error::internal)?;
        for orphan in machines.into_iter().filter(|id| rows.iter().all(|row| row.id != *id)) {
            tracing::warn!(computer = %orphan, "removing a machine that no computer owns");
            if let Err(error) = self.shared.engine.destroy(orphan).await {
                tracing::error!(computer = %orphan, %error, "an orphan could not be removed");
            }
        }
        Ok(())
    }

    /// Makes a computer. Returns when it is usable; on failure nothing is left of it. A caller that goes away in
    /// between changes nothing: a row without a runner would stay `creating` until the next start.
    ///
    /// # Errors
    /// As [`Store::add_computer`], or why it could not be made.
    pub async fn create(&self, new: NewComputer) -> Result<Computer> {
        let store = self.shared.store.clone();
        self.make(async move { store.add_computer(&new).await }, Work::Create).await
    }

    /// Stores a new row and has its runner make the machine; both go on when the caller goes away.
    pub(super) async fn make(
        &self,
        stored: impl Future<Output = Result<Computer>> + Send + 'static,
        work: Work,
    ) -> Result<Computer> {
        let fleet = self.clone();
        let made = self.shared.tasks.spawn("create", async move {
            let stored = stored.await?;
            let (_, finished) = fleet.send(stored.id, work)?;
            finished.await.map_err(|_| stopping())??;
            let made = fleet.shared.store.computer(&ComputerRef::Id(stored.id)).await?;
            made.ok_or_else(gone)
        });
        made.await.map_err(Error::internal)?.unwrap_or_else(|| Err(Error::internal("a create panicked")))
    }

    /// Hands a command over. Returns when its intent is stored; the work goes on even if the caller goes away.
    ///
    /// # Errors
    /// [`billing::decide`]'s: the computer's status or its billing blocks it.
    pub async fn command(&self, computer: &Computer, command: Command) -> Result<Accepted> {
        self.note_action(computer.id);
        // The stored status answers what needs no turn of the runner; the runner decides again in its turn.
        let decision = billing::decide(computer.status, &computer.billing, command, now_ms())?;
        let (accepted, finished) = match decision {
            Decision::AlreadySo => {
                let (sender, finished) = oneshot::channel();
                let _ = sender.send(Ok(()));
                return Ok(Accepted { status: computer.status, begun: false, finished });
            }
            Decision::Do(_) => self.send(computer.id, Work::Command(command))?,
        };
        let Intent { status, begun } = accepted.await.map_err(|_| stopping())??;
        Ok(Accepted { status, begun, finished })
    }

    /// Gives a computer rest, by a command, that was last acted on at `judged`. Whoever acts on it before its runner's turn comes
    /// keeps it up. Returns when the intent is stored, or there is nothing to do.
    ///
    /// # Errors
    /// As [`Fleet::command`].
    pub async fn give_rest(&self, id: ComputerId, command: Command, judged: Instant) -> Result<()> {
        let Some(asked) = self.shared.note_rest(id, judged) else { return Ok(()) };
        let (accepted, _finished) = self.send(id, Work::Rest(command, asked))?;
        accepted.await.map_err(|_| stopping())?.map(drop)
    }

    /// Brings a computer up if it is not; it as it is then.
    ///
    /// # Errors
    /// As [`Fleet::command`]; `Unavailable` when it does not run at the end.
    pub async fn ensure_running(&self, computer: &Computer) -> Result<Computer> {
        self.command(computer, Command::EnsureRunning).await?.finish().await?;
        let now = self.settled(computer.id).await?;
        if now.status == Status::Running {
            return Ok(now);
        }
        let status = now.status.name();
        Err(Error::unavailable(format!("Computer is not running (status: {status})")).retry_after(5))
    }

    /// Saves a computer's memory. `Suspending` when that takes longer than a client waits.
    ///
    /// # Errors
    /// `suspend_unsupported`; as [`Fleet::command`]; why it could not be suspended.
    pub async fn suspend(&self, computer: &Computer) -> Result<Status> {
        if !self.engine().capabilities().suspend {
            return Err(suspend_unsupported());
        }
        let suspension = self.command(computer, Command::Suspend).await?;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, suspension.finish()).await {
            outcome?;
        }
        // One that was woken again meanwhile had been suspended.
        let under_way = self.row(computer.id).await?.status == Status::Suspending;
        Ok(if under_way { Status::Suspending } else { Status::Suspended })
    }

    /// Wakes a suspended computer. What it is then: `Running`, or still on its way when that takes longer than a client
    /// waits; and whether it woke from storage.
    ///
    /// # Errors
    /// As [`Fleet::command`]; why it could not be woken.
    pub async fn resume(&self, computer: &Computer) -> Result<(Status, bool)> {
        let wake = self.command(computer, Command::Resume).await?;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, wake.finish()).await {
            outcome?;
        }
        let now = self.row(computer.id).await?;
        Ok((now.status, now.instance != computer.instance))
    }

    /// A computer as it is now stored.
    pub(super) async fn row(&self, id: ComputerId) -> Result<Computer> {
        self.shared.store.computer(&ComputerRef::Id(id)).await?.ok_or_else(gone)
    }

    /// A computer once it is at rest again (running, stopped, suspended or failed), or as it is after a while.
    async fn settled(&self, id: ComputerId) -> Result<Computer> {
        let at_rest =
            |status| [Status::Running, Status::Stopped, Status::Suspended, Status::Error].contains(&status);
        let mut presence = self.presence(id).ok_or_else(gone)?;
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            // What is live follows what is stored: a row that is still on its way is followed by a change.
            presence.borrow_and_update();
            let row = self.row(id).await?;
            if at_rest(row.status) {
                return Ok(row);
            }
            match tokio::time::timeout_at(deadline, presence.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(gone()),
                Err(_) => return Ok(row),
            }
        }
    }

    /// What is live about a computer, for its record.
    pub fn live(&self, id: ComputerId) -> view::Live {
        let address = self.presence(id).and_then(|presence| presence.borrow().address);
        view::Live { address }
    }

    /// The guest of a computer that runs now.
    pub fn running_guest(&self, id: ComputerId) -> Option<Guest> {
        self.presence(id).and_then(|presence| presence.borrow().guest.clone())
    }

    /// When a computer was last acted on over the API, commands included; when this controller met it where it was not.
    pub fn acted(&self, id: ComputerId) -> Option<Instant> {
        self.shared.acted(id)
    }

    pub(super) fn note_action(&self, id: ComputerId) {
        let mut desks = self.shared.desks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = desks.get_mut(&id) {
            desk.acted = Instant::now();
        }
    }

    /// Ends once a computer does not run any more; says why, where the service ended it by itself.
    pub async fn ended(&self, id: ComputerId) -> Option<&'static str> {
        let mut presence = self.presence(id)?;
        // A runner that is gone is an end too.
        let end = presence.wait_for(|now| now.guest.is_none()).await;
        end.ok().and_then(|now| now.because)
    }

    pub(super) fn presence(&self, id: ComputerId) -> Option<watch::Receiver<Presence>> {
        let desks = self.shared.desks.lock().unwrap_or_else(PoisonError::into_inner);
        desks.get(&id).map(|desk| desk.presence.clone())
    }

    /// Puts work into a computer's mailbox, with a runner behind it.
    #[allow(clippy::type_complexity)] // two reply channels, named by their uses right below
    pub(super) fn send(
        &self,
        id: ComputerId,
        work: Work,
    ) -> Result<(oneshot::Receiver<Result<Intent>>, oneshot::Receiver<Result<()>>)> {
        let (accepted, was_accepted) = oneshot::channel();
        let (finished, has_finished) = oneshot::channel();
        let message = Message { work, accepted, finished };
        let mut desks = self.shared.desks.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match desks.get(&id) {
            None => message,
            Some(desk) => match desk.mailbox.try_send(message) {
                Ok(()) => return Ok((was_accepted, has_finished)),
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(
                        Error::unavailable("The computer has too many commands waiting").retry_after(5)
                    );
                }
                // Its runner has ended; a new one takes over.
                Err(mpsc::error::TrySendError::Closed(message)) => message,
            },
        };
        let (mailbox, inbox) = mpsc::channel(MAILBOX);
        let (presence, watched) = watch::channel(Presence::default());
        // The channel is new and not full: the message fits.
        let _ = mailbox.try_send(message);
        desks.insert(id, Desk { mailbox, presence: watched, acted: Instant::now() });
        let runner = Runner::new(id, Arc::clone(&self.shared), inbox, presence);
        let _task = self.shared.tasks.spawn("runner", runner.run());
        Ok((was_accepted, has_finished))
    }
}
