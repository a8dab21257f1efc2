//! Who changes a computer? Its runner: the only writer of its status. It takes one piece of work after another, stores the
//! intent, acts, and stores the outcome; after a crash the same steps finish or undo what was stored.

mod making;
mod memory;
mod power;
mod recovery;
mod stored;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use self::making::Beginning;
pub(super) use self::memory::suspend_unsupported;
use self::memory::{renewal, tell_what_failed};
use self::stored::Errand;
use super::fleet::{Presence, Shared};
use super::resize::Job;
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{ComputerId, ComputerRef, SnapshotId};
use hotdesk_domain::allowance::Allowance;
use hotdesk_domain::billing;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::{Command, Decision, Operation, Status};
use hotdesk_domain::stored::check_converged;
use hotdesk_engine::{Boot, EngineError, MachineSpec};
use hotdesk_guest::Guest;
use hotdesk_store::computers::Computer;
use hotdesk_store::snapshots::NewSnapshot;

/// How long a guest may take to end by itself when it is told to.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(10);
/// Pauses before an outcome is stored again that could not be: as long as another process may hold the store, or its disk be full
/// until somebody looks. The store waits for some seconds itself each time.
const STORE_AGAIN: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];
/// Bytes in a GB, as computers are ordered.
pub(super) const GB: u64 = 1024 * 1024 * 1024;

/// What a runner is asked to do.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Make the machine of a row that was just stored.
    Create,
    /// Make the machine of a clone's row, with the disk of this computer.
    Clone(ComputerId),
    /// Copy the disk to this clone.
    CopyTo(ComputerId),
    /// Make the machine of a fork's row, with the disk and the memory of this computer, as it is or was in a snapshot.
    Fork(ComputerId, Option<SnapshotId>),
    /// Copy disk and memory to this fork.
    ForkTo(ComputerId),
    /// Make this fork begin with what a snapshot holds.
    Launch(SnapshotId, ComputerId),
    /// Keep the computer as it is at one moment.
    Snapshot(Arc<NewSnapshot>),
    /// Remove a snapshot.
    RemoveSnapshot(SnapshotId),
    /// Bring the computer back to a snapshot.
    Rollback {
        /// To which.
        snapshot: SnapshotId,
        /// What the owner may have.
        allowance: Allowance,
    },
    /// Change the hardware.
    Resize(Arc<Job>),
    /// A client's command.
    Command(Command),
    /// Give the computer rest, by this command, unless it was acted on since that was asked for.
    Rest(Command, Instant),
    /// Find out where things stand after the controller started.
    Recover,
    /// See to the copy of its saved state; with `evict` make room on the host.
    Tend { evict: bool },
}

/// What a runner answers once it has stored an intent, or has seen that there is nothing to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intent {
    /// The computer's status since then.
    pub(super) status: Status,
    /// Whether it is this work that has begun; else it was so already.
    pub(super) begun: bool,
}

/// One piece of work with its two answers: the intent once it is stored, and the end.
pub(super) struct Message {
    pub(super) work: Work,
    pub(super) accepted: oneshot::Sender<Result<Intent>>,
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
            Work::Fork(source, at) => self.create(&row, Beginning::MemoryOf(*source, *at)).await,
            Work::CopyTo(clone) => (self.copy_disk(&row, *clone).await, Next::Stay),
            Work::ForkTo(fork) => (self.copy_memory(&row, *fork).await, Next::Stay),
            Work::Launch(snapshot, fork) => (self.launch(*snapshot, *fork).await, Next::Stay),
            Work::Snapshot(new) => (self.snapshot(&row, new, accepted).await, Next::Stay),
            Work::RemoveSnapshot(snapshot) => (self.remove_snapshot(*snapshot).await, Next::Stay),
            Work::Rollback { snapshot, allowance } => {
                (self.roll_back(&row, *snapshot, allowance, accepted).await, Next::Stay)
            }
            Work::Resize(job) => (self.resize(&row, job).await, Next::Stay),
            Work::Recover => self.recover(&row).await,
            // Done after every piece of work.
            Work::Tend { .. } => (Ok(()), Next::Stay),
            Work::Rest(_, asked) if self.shared.acted(self.id) != Some(*asked) => {
                let _ = accepted.send(Ok(Intent { status: row.status, begun: false }));
                (Ok(()), Next::Stay)
            }
            Work::Command(command) | Work::Rest(command, _) => self.command(&row, *command, accepted).await,
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
        accepted: oneshot::Sender<Result<Intent>>,
    ) -> (Result<()>, Next) {
        let decided =
            billing::decide(row.status, &row.billing, command, now_ms()).and_then(
                |decision| match decision {
                    Decision::Do(Operation::Suspend) => check_converged(row.converging).map(|()| decision),
                    Decision::Do(_) | Decision::AlreadySo => Ok(decision),
                },
            );
        let operation = match decided {
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                return (Err(error), Next::Stay);
            }
            Ok(Decision::AlreadySo) => {
                let _ = accepted.send(Ok(Intent { status: row.status, begun: false }));
                return (Ok(()), Next::Stay);
            }
            Ok(Decision::Do(operation)) => operation,
        };
        self.call_off().await;
        if let Err(error) = self.intend(operation, command).await {
            let _ = accepted.send(Err(error.clone()));
            return (Err(error), Next::Stay);
        }
        let _ = accepted.send(Ok(Intent { status: operation.status(), begun: true }));
        self.carry_out(operation, row).await
    }

    /// Stores the intent; from here on a crash is followed by the same operation.
    async fn intend(&mut self, operation: Operation, command: Command) -> Result<()> {
        let status = operation.status();
        match operation {
            Operation::Start | Operation::Restart => self.shared.store.begin_boot(self.id, status).await?,
            Operation::Resume if self.is_in_storage().await? => {
                self.shared.store.begin_wake_from_storage(self.id).await?;
            }
            Operation::Resume => self.shared.store.begin_resume(self.id).await?,
            Operation::Stop | Operation::Suspend if billing::is_end(command) => {
                self.shared.store.set_status_because(self.id, status, billing::TRIAL_ENDED).await?;
            }
            Operation::Stop | Operation::Suspend | Operation::Delete => {
                self.shared.store.set_status(self.id, status).await?;
            }
        }
        let because = billing::is_end(command).then_some(billing::TRIAL_ENDED);
        self.presence.send_replace(Presence { status: Some(status), because, ..Presence::default() });
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

    /// The row as it is now stored.
    pub(super) async fn row(&self) -> Result<Computer> {
        self.shared.store.computer(&ComputerRef::Id(self.id)).await?.ok_or_else(gone)
    }

    /// A step failed for good: the status says so.
    pub(super) async fn fail(&mut self, what: &str, error: &EngineError) -> Result<()> {
        self.rest(Status::Error).await?;
        Err(refused(what, error))
    }

    pub(super) async fn rest(&mut self, status: Status) -> Result<()> {
        self.conclude(status).await?;
        self.show(status, None, None);
        Ok(())
    }

    /// Stores what has become of the computer. That is so already: a store that fails is asked again, or a guest that runs would be
    /// reached by nobody.
    async fn conclude(&self, status: Status) -> Result<()> {
        for pause in STORE_AGAIN {
            match self.shared.store.set_status(self.id, status).await {
                Err(error) if !self.shared.tasks.stopping().is_cancelled() => {
                    tracing::warn!(computer = %self.id, status = status.name(), %error, "not stored yet");
                    tokio::time::sleep(pause).await;
                }
                stored => return stored,
            }
        }
        self.shared.store.set_status(self.id, status).await
    }

    fn shown(&self) -> Option<Status> {
        self.presence.borrow().status
    }

    pub(super) fn show(&self, status: Status, guest: Option<Guest>, address: Option<IpAddr>) {
        self.presence.send_modify(|now| {
            // Whoever hears of an end late is told why, too.
            let because = now.because.filter(|_| guest.is_none());
            *now = Presence { status: Some(status), guest, address, because };
        });
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
