//! Who changes a computer? Its runner: the only writer of its status. It stores the intent, acts, stores the outcome;
//! after a crash the same steps finish or undo what was stored.

mod making;
mod memory;
mod stored;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use self::making::Beginning;
pub(super) use self::memory::suspend_unsupported;
use self::memory::{renewal, tell_what_failed};
use self::stored::Errand;
use super::fleet::{Presence, Shared};
use super::resize::Job;
use crate::base::ids::{ComputerId, ComputerRef, SnapshotId};
use crate::base::wait;
use crate::controller::files;
use crate::domain::error::{Error, Result};
use crate::domain::lifecycle::{self, Command, Decision, Operation, Status};
use crate::domain::stored::check_converged;
use crate::engine::{Boot, EngineError, EngineResult, MachineSpec, Observation};
use crate::guest::Guest;
use crate::store::computers::Computer;
use crate::store::snapshots::NewSnapshot;

/// How long a computer may take from its start to a usable desktop.
const BOOT_PATIENCE: Duration = Duration::from_secs(90);
/// How long a guest may take to end by itself when it is told to.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(10);
/// Bytes in a GB, as computers are ordered.
pub(super) const GB: u64 = 1024 * 1024 * 1024;
/// Tries at removing a machine before it is left for the next start of the controller.
const REMOVAL_TRIES: u32 = 3;

/// What a runner is asked to do.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Make the machine of a row that was just stored.
    Create,
    /// Make the machine of a clone's row, with the disk of this computer.
    Clone(ComputerId),
    /// Copy the disk to this clone.
    CopyTo(ComputerId),
    /// Make the machine of a fork's row, with the disk and the memory of this computer.
    Fork(ComputerId),
    /// Copy disk and memory to this fork.
    ForkTo(ComputerId),
    /// Keep the computer as it is at one moment.
    Snapshot(Arc<NewSnapshot>),
    /// Remove a snapshot.
    RemoveSnapshot(SnapshotId),
    /// Bring the computer back to a snapshot.
    Rollback(SnapshotId),
    /// Change the hardware.
    Resize(Arc<Job>),
    /// A client's command.
    Command(Command),
    /// Find out where things stand after the controller started.
    Recover,
    /// See to the copy of its saved state; with `evict` make room on the host.
    Tend { evict: bool },
}

/// One piece of work with its two answers: the computer's status once the intent is stored, and the end.
pub(super) struct Message {
    pub(super) work: Work,
    pub(super) accepted: oneshot::Sender<Result<Status>>,
    pub(super) finished: oneshot::Sender<Result<()>>,
}

pub(super) struct Runner {
    pub(super) id: ComputerId,
    pub(super) shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    pub(super) presence: watch::Sender<Presence>,
    /// What goes on about the copy of its saved state.
    errand: Option<Errand>,
}

/// What becomes of a computer that shall wake and whose memory is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutMemory {
    /// It reads `stopped` and whoever woke it learns why: nobody takes a boot for a wake.
    Refuse,
    /// It boots from its disk: its memory was used already when the controller ended.
    Boot,
}

/// Whether the runner goes on after a piece of work.
#[derive(PartialEq, Eq)]
enum Next {
    Stay,
    Gone,
}

impl Runner {
    pub(super) fn new(
        id: ComputerId,
        shared: Arc<Shared>,
        inbox: mpsc::Receiver<Message>,
        presence: watch::Sender<Presence>,
    ) -> Self {
        Self { id, shared, inbox, presence, errand: None }
    }

    pub(super) async fn run(mut self) {
        let stop = self.shared.tasks.stopping();
        loop {
            let watch_machine = self.machine_end();
            let message = tokio::select! {
                () = stop.cancelled() => break,
                message = self.inbox.recv() => message,
                () = watch_machine => {
                    self.machine_ended().await;
                    continue;
                }
                outcome = Errand::ended(&mut self.errand) => {
                    self.errand_ended(outcome).await;
                    continue;
                }
            };
            let Some(message) = message else { break };
            let evict = matches!(message.work, Work::Tend { evict: true });
            if self.handle(message).await == Next::Gone {
                self.shared.forget(self.id);
                self.refuse_the_rest();
                break;
            }
            self.take_up(evict).await;
        }
    }

    /// What was still waiting learns that the computer is gone.
    fn refuse_the_rest(&mut self) {
        while let Ok(Message { accepted, finished, .. }) = self.inbox.try_recv() {
            let _ = accepted.send(Err(gone()));
            let _ = finished.send(Err(gone()));
        }
    }

    /// Ends when the machine of a running computer ends; never for others.
    fn machine_end(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if self.presence.borrow().guest.is_none() {
            return Box::pin(std::future::pending());
        }
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Box::pin(async move {
            if let Err(error) = shared.engine.stopped(id).await {
                tracing::error!(computer = %id, %error, "the machine cannot be watched");
                std::future::pending::<()>().await;
            }
        })
    }

    async fn machine_ended(&mut self) {
        tracing::warn!(computer = %self.id, "the machine ended by itself");
        let cleaned = self.shared.engine.stop(self.id, Duration::ZERO).await;
        if let Err(error) = &cleaned {
            tracing::error!(computer = %self.id, %error, "clean-up after a machine's end failed");
        }
        let status = if cleaned.is_ok() { Status::Stopped } else { Status::Error };
        if let Err(error) = self.rest(status).await {
            tracing::error!(computer = %self.id, %error, "the status could not be stored");
            self.show(status, None, None);
        }
    }

    async fn handle(&mut self, message: Message) -> Next {
        let Message { work, accepted, finished } = message;
        let row = match self.shared.store.computer(&ComputerRef::Id(self.id)).await {
            Ok(Some(row)) => row,
            Ok(None) => {
                let _ = accepted.send(Err(gone()));
                let _ = finished.send(Err(gone()));
                return Next::Gone;
            }
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                let _ = finished.send(Err(error));
                return Next::Stay;
            }
        };
        let (outcome, next) = match &work {
            Work::Create => self.create(&row, Beginning::Nothing).await,
            Work::Clone(source) => self.create(&row, Beginning::DiskOf(*source)).await,
            Work::Fork(source) => self.create(&row, Beginning::MemoryOf(*source)).await,
            Work::CopyTo(clone) => (self.copy_disk(&row, *clone).await, Next::Stay),
            Work::ForkTo(fork) => (self.copy_memory(&row, *fork).await, Next::Stay),
            Work::Snapshot(new) => (self.snapshot(&row, new, accepted).await, Next::Stay),
            Work::RemoveSnapshot(snapshot) => (self.remove_snapshot(*snapshot).await, Next::Stay),
            Work::Rollback(snapshot) => (self.roll_back(&row, *snapshot, accepted).await, Next::Stay),
            Work::Resize(job) => (self.resize(&row, job).await, Next::Stay),
            Work::Recover => self.recover(&row).await,
            // Done after every piece of work.
            Work::Tend { .. } => (Ok(()), Next::Stay),
            Work::Command(command) => self.command(&row, *command, accepted).await,
        };
        if let Err(error) = &outcome {
            tracing::warn!(computer = %self.id, ?work, %error, "did not succeed");
        }
        // The asker may have gone away; the work is done all the same.
        let _ = finished.send(outcome);
        next
    }

    async fn command(
        &mut self,
        row: &Computer,
        command: Command,
        accepted: oneshot::Sender<Result<Status>>,
    ) -> (Result<()>, Next) {
        let decided = lifecycle::decide(row.status, command).and_then(|decision| match decision {
            Decision::Do(Operation::Suspend) => check_converged(row.converging).map(|()| decision),
            Decision::Do(_) | Decision::AlreadySo => Ok(decision),
        });
        let operation = match decided {
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                return (Err(error), Next::Stay);
            }
            Ok(Decision::AlreadySo) => {
                let _ = accepted.send(Ok(row.status));
                return (Ok(()), Next::Stay);
            }
            Ok(Decision::Do(operation)) => operation,
        };
        self.call_off().await;
        if let Err(error) = self.intend(operation).await {
            let _ = accepted.send(Err(error.clone()));
            return (Err(error), Next::Stay);
        }
        let _ = accepted.send(Ok(operation.status()));
        self.carry_out(operation, row).await
    }

    /// Stores the intent; from here on a crash is followed by the same operation.
    async fn intend(&mut self, operation: Operation) -> Result<()> {
        let status = operation.status();
        match operation {
            Operation::Start | Operation::Restart => self.shared.store.begin_boot(self.id, status).await?,
            Operation::Resume if self.is_in_storage().await? => {
                self.shared.store.begin_wake_from_storage(self.id).await?;
            }
            Operation::Resume => self.shared.store.begin_resume(self.id).await?,
            Operation::Stop | Operation::Suspend | Operation::Delete => {
                self.shared.store.set_status(self.id, status).await?;
            }
        }
        self.show(status, None, None);
        Ok(())
    }

    async fn carry_out(&mut self, operation: Operation, row: &Computer) -> (Result<()>, Next) {
        let outcome = match operation {
            // After a stop that failed the machine of an earlier boot may still run.
            Operation::Start if row.status == Status::Error => {
                self.restart_boot("Computer could not be started").await
            }
            Operation::Start => self.boot().await,
            Operation::Stop => self.halt().await,
            Operation::Restart => self.restart_boot("Computer could not be restarted").await,
            Operation::Suspend => self.suspend(row).await,
            Operation::Resume => self.wake(WithoutMemory::Refuse).await,
            Operation::Delete => return self.remove().await,
        };
        (outcome, Next::Stay)
    }

    /// Where things stand after a start of the controller.
    async fn recover(&mut self, row: &Computer) -> (Result<()>, Next) {
        if !matches!(row.status, Status::Creating | Status::Deleting) {
            self.recover_snapshots().await;
        }
        let row = &self.finish_resize(row).await;
        self.show(row.status, None, None);
        let outcome = match row.status {
            Status::Restarting | Status::Stopping if row.rollback_to.is_some() => {
                self.finish_rollback(row).await
            }
            // Nobody was told of it: undone.
            Status::Creating | Status::Deleting => return self.remove().await,
            Status::Starting if row.saved_token.is_some() => self.wake(WithoutMemory::Boot).await,
            Status::Starting | Status::Restarting => self.restart_boot("Computer could not be started").await,
            Status::Stopping => self.halt().await,
            Status::Running | Status::Suspending | Status::Suspended => self.adopt(row).await.map(|_| ()),
            Status::Stopped | Status::Error => Ok(()),
        };
        (outcome, Next::Stay)
    }

    pub(super) async fn restart_boot(&mut self, what: &str) -> Result<()> {
        self.disk_home().await?;
        match self.clear().await {
            Ok(()) => self.boot().await,
            Err(error) => self.fail(what, &error).await,
        }
    }

    /// Ends what runs and drops what was saved; the disk is kept.
    async fn clear(&self) -> EngineResult<()> {
        self.shared.engine.stop(self.id, STOP_GRACE).await?;
        self.shared.engine.discard_memory(self.id).await
    }

    /// Takes a computer over as the engine sees it; what it is since then. One that ran or slept and is not there any
    /// more reads `stopped`.
    pub(super) async fn adopt(&mut self, row: &Computer) -> Result<Status> {
        match self.shared.engine.observe(self.id).await {
            Ok(Observation::Running { generation, endpoint, address }) if generation == row.generation => {
                let guest = match row.saved_token {
                    None => Guest::new(endpoint, &row.agent_token)?,
                    Some(_) => self.identify(row, endpoint).await?,
                };
                self.go_live(row, guest, address).await?;
                Ok(Status::Running)
            }
            Ok(Observation::Suspended { .. }) => {
                // Its memory is whole, and what is left of a suspend that was cut short is done again.
                if row.status == Status::Suspending
                    && let Err(error) = self.shared.engine.suspend(self.id).await
                {
                    tracing::warn!(computer = %self.id, %error, "a suspended computer holds what it ran with");
                }
                self.fall_asleep(row).await
            }
            Ok(Observation::Running { .. } | Observation::Stopped) => {
                self.halt().await.map(|()| Status::Stopped)
            }
            Ok(Observation::Absent) => self.rest(Status::Error).await.map(|()| Status::Error),
            // Its memory may be whole: not to be given up because nobody could look.
            Err(error) if self.shown() == Some(Status::Suspended) => {
                Err(refused("Computer could not be adopted", &error))
            }
            Err(error) => self.fail("Computer could not be adopted", &error).await.map(|()| Status::Error),
        }
    }

    /// The computer is usable from now on.
    async fn go_live(&mut self, row: &Computer, guest: Guest, address: Option<IpAddr>) -> Result<()> {
        if self.shown() != Some(Status::Running) {
            self.shared.store.set_status(self.id, Status::Running).await?;
        }
        self.show(Status::Running, Some(guest.clone()), address);
        self.deliver(row, &guest).await;
        Ok(())
    }

    /// Boots the row as it is now stored and tells the outcome.
    async fn boot(&mut self) -> Result<()> {
        let row = self.row().await?;
        match self.bring_up(&row, false).await {
            Ok(()) => {
                self.shared.store.set_status(self.id, Status::Running).await?;
                self.presence.send_modify(|now| now.status = Some(Status::Running));
                Ok(())
            }
            Err(error) => {
                if let Err(again) = self.shared.engine.stop(self.id, Duration::ZERO).await {
                    tracing::error!(computer = %self.id, error = %again, "clean-up after a failed boot failed");
                }
                self.rest(Status::Error).await?;
                Err(error)
            }
        }
    }

    /// Starts the machine and waits for a usable desktop; the guest is live afterwards. On a disk that is another
    /// computer's, what tells the two apart is made anew before anybody reaches it (threats.md T28).
    async fn bring_up(&mut self, row: &Computer, copied: bool) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let turn = shared.starts.acquire().await.map_err(Error::internal)?;
        let started = shared.engine.start(&machine(row), &boot(row)).await;
        let endpoint = started.map_err(|error| refused("Computer could not be started", &error))?;
        let guest = Guest::new(endpoint, &row.agent_token)?;
        let ready = wait::until(BOOT_PATIENCE, || async {
            guest.health().await.ok().filter(|health| health.status == "ok")
        });
        let ended = shared.engine.stopped(self.id);
        tokio::select! {
            ready = ready => {
                if ready.is_none() {
                    return Err(Error::internal("the desktop was not ready in time"));
                }
            }
            _ = ended => return Err(Error::internal("the machine ended while it booted")),
        }
        if copied {
            tell_what_failed(row, &guest.renew(&renewal(row)).await?);
        }
        // The costly part is over; a guest that is slow to take its files holds up itself alone.
        drop(turn);
        self.meet(row, guest).await;
        Ok(())
    }

    /// The guest of a computer on its way up is there; whoever waits for it may act.
    pub(super) async fn meet(&mut self, row: &Computer, guest: Guest) {
        let address = self.address().await;
        self.presence.send_modify(|now| {
            now.guest = Some(guest.clone());
            now.address = address;
        });
        self.deliver(row, &guest).await;
    }

    /// Where it is reached in the host's network, if that can be told.
    async fn address(&self) -> Option<IpAddr> {
        match self.shared.engine.observe(self.id).await {
            Ok(Observation::Running { address, .. }) => address,
            Ok(Observation::Stopped | Observation::Suspended { .. } | Observation::Absent) | Err(_) => None,
        }
    }

    /// The row as it is now stored.
    pub(super) async fn row(&self) -> Result<Computer> {
        self.shared.store.computer(&ComputerRef::Id(self.id)).await?.ok_or_else(gone)
    }

    /// Gives the computer the files that were uploaded while it did not run.
    async fn deliver(&self, row: &Computer, guest: &Guest) {
        if let Err(error) = files::deliver_pending(&self.shared.store, &self.shared.storage, row, guest).await
        {
            tracing::warn!(computer = %self.id, %error, "files are still to be delivered");
        }
    }

    pub(super) async fn halt(&mut self) -> Result<()> {
        self.disk_home().await?;
        match self.clear().await {
            Ok(()) => self.rest(Status::Stopped).await,
            Err(error) => self.fail("Computer could not be stopped", &error).await,
        }
    }

    /// Removes machine and row. A machine that will not go keeps its row as `deleting`, for the next try.
    async fn remove(&mut self) -> (Result<()>, Next) {
        self.show(Status::Deleting, None, None);
        if let Err(error) = self.shared.store.set_status(self.id, Status::Deleting).await {
            return (Err(error), Next::Stay);
        }
        let mut last: EngineResult<()> = Ok(());
        for attempt in 0..REMOVAL_TRIES {
            last = self.shared.engine.destroy(self.id).await;
            match &last {
                Ok(()) => break,
                Err(error) => tracing::warn!(computer = %self.id, attempt, %error, "removal failed"),
            }
        }
        if let Err(error) = last {
            return (Err(refused("Computer could not be removed", &error)), Next::Stay);
        }
        match self.shared.store.remove_computer(self.id).await {
            Ok(files) => {
                self.shared.storage.forget(&files).await;
                if let Some(keeper) = &self.shared.keeper {
                    keeper.look_again();
                }
                (Ok(()), Next::Gone)
            }
            Err(error) => (Err(error), Next::Stay),
        }
    }

    /// A step failed for good: the status says so.
    pub(super) async fn fail(&mut self, what: &str, error: &EngineError) -> Result<()> {
        self.rest(Status::Error).await?;
        Err(refused(what, error))
    }

    pub(super) async fn rest(&mut self, status: Status) -> Result<()> {
        self.shared.store.set_status(self.id, status).await?;
        self.show(status, None, None);
        Ok(())
    }

    fn shown(&self) -> Option<Status> {
        self.presence.borrow().status
    }

    pub(super) fn show(&self, status: Status, guest: Option<Guest>, address: Option<IpAddr>) {
        self.presence.send_replace(Presence { status: Some(status), guest, address });
    }
}

/// The computer is not there any more.
pub(super) fn gone() -> Error {
    Error::not_found("Desktop not found")
}

pub(super) fn machine(row: &Computer) -> MachineSpec {
    MachineSpec {
        id: row.id,
        cpu: row.hardware.cpu,
        memory_bytes: u64::from(row.hardware.ram_gb) * GB,
        disk_bytes: u64::from(row.hardware.disk_gb) * GB,
        bandwidth_mbps: row.hardware.bandwidth_mbps,
    }
}

pub(super) fn boot(row: &Computer) -> Boot {
    Boot { generation: row.generation, token: row.agent_token.clone(), resolution: row.hardware.resolution }
}

/// What a client learns when an engine fails; the step goes to the log.
pub(super) fn refused(what: &str, error: &EngineError) -> Error {
    match error {
        EngineError::NoCapacity(_) => Error::unavailable("No host has room for this computer")
            .code("no_capacity")
            .retry_after(30)
            .context(error),
        EngineError::Absent
        | EngineError::Unsupported(_)
        | EngineError::Damaged(_)
        | EngineError::Failed { .. } => {
            let mut failed = Error::internal(error);
            what.clone_into(&mut failed.message);
            failed
        }
    }
}
