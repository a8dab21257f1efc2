//! Runner of one computer: the only writer of its status.
//!
//! It takes one piece of work after another: it stores the intent, acts, and stores the outcome. After a
//! crash the same steps complete or undo what was stored.

mod agent_health;
pub(super) mod boot_screen;
mod creation;
mod egress;
mod isolation;
mod memory;
pub(super) mod power;
pub(super) mod prepared;
mod recovery;
pub(super) mod registry;
pub(super) mod resize;
mod saved_state;
pub(super) mod stream_end;
pub(super) mod template;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use self::creation::MachineSource;
use self::memory::log_renewal_failures;
pub(super) use self::memory::{NewIdentity, suspend_unsupported};
use self::registry::{FleetState, Presence};
use self::resize::ResizeJob;
use self::saved_state::CopyJob;
use self::template::requests::{TemplateRequests, hook_before};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, ComputerRef, SnapshotId};
use hotdesk_domain::billing;
use hotdesk_domain::computer::Hardware;
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::lifecycle::{Command, Decision, Operation, Status};
use hotdesk_domain::computer::prepared::services::ServiceStart;
use hotdesk_domain::computer::saved_state::check_converged;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_engine::{Boot, EngineError, MachineSpec};
use hotdesk_guest::Guest;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::snapshots::NewSnapshot;

/// Time in which a guest may shut down before it is killed.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(10);
/// Pauses before an outcome is stored again that could not be stored. They cover another process that locks
/// the database, and a full disk that somebody frees. The store itself retries for some seconds each time.
const STORE_RETRY_PAUSES: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];
/// Bytes in a GB of RAM or disk.
pub(super) const GB: u64 = 1024 * 1024 * 1024;

/// Work of a runner.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Create the machine of a new row.
    Create {
        /// Start of the services of its template.
        services: ServiceStart,
        /// Whether a host with few computers of the same workspace is preferred.
        spread: bool,
    },
    /// Create the machine of a clone's row with this computer's disk.
    Clone(ComputerId),
    /// Copy the disk to this clone.
    CopyTo(ComputerId),
    /// Copy the disk to this machine of a save as a template.
    CopyForTemplate(ComputerId),
    /// Create the machine of a fork's row with this computer's disk and memory, current or of a snapshot.
    Fork(ComputerId, Option<SnapshotId>),
    /// Copy disk and memory to this fork.
    ForkTo(ComputerId),
    /// Create this fork from a snapshot.
    Launch(SnapshotId, ComputerId),
    /// Create a snapshot.
    Snapshot(Arc<NewSnapshot>),
    /// Remove a snapshot.
    RemoveSnapshot(SnapshotId),
    /// Roll back to a snapshot.
    Rollback {
        /// The snapshot.
        snapshot: SnapshotId,
        /// Allowance of the owner.
        allowance: Allowance,
    },
    /// Change the hardware.
    Resize(Arc<ResizeJob>),
    /// Change which destinations it reaches.
    SetEgress(Option<Box<EgressPolicy>>),
    /// Change the isolation of the stopped computer.
    ChangeIsolation(Isolation),
    /// A client's command.
    Command(Command),
    /// Stop the idle computer by this command, unless an action came since this instant.
    AutoStop(Command, Instant),
    /// Move the computer to this host.
    Move(String),
    /// Complete or undo a move that was interrupted.
    FinishMove,
    /// Recover after a start of the controller.
    Recover,
    /// Stop the computer, because its host is gone.
    HostGone,
    /// Complete work on the copy of its saved state; with `evict` also free the host's copy.
    CheckCopy { evict: bool },
}

/// Reply of a runner once an intent is stored, or once it is clear that there is nothing to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandAck {
    /// The computer's status after it.
    pub(super) status: Status,
    /// Whether this work has begun; else the computer was already as requested.
    pub(super) begun: bool,
}

/// One piece of work with two replies: the stored intent, and the end.
pub(super) struct Message {
    pub(super) work: Work,
    pub(super) accepted: oneshot::Sender<Result<CommandAck>>,
    pub(super) finished: oneshot::Sender<Result<()>>,
}

pub(super) struct Runner {
    pub(super) id: ComputerId,
    pub(super) shared: Arc<FleetState>,
    inbox: mpsc::Receiver<Message>,
    pub(super) presence: watch::Sender<Presence>,
    /// Task that works on the copy of its saved state.
    copy_job: Option<CopyJob>,
    template: TemplateRequests,
    /// Whether the computer is recovered once its host answers.
    waits_for_host: bool,
}

/// Reaction when a computer is to resume but its memory is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutMemory {
    /// It becomes `stopped`, and the caller gets an error: a boot must not be taken for a resume.
    Refuse,
    /// It boots from its disk, because the memory was already in use when the controller ended.
    Boot,
}

/// Whether the runner continues after a piece of work.
#[derive(PartialEq, Eq)]
enum AfterWork {
    Continue,
    Exit,
}

impl Runner {
    pub(super) fn new(
        id: ComputerId,
        shared: Arc<FleetState>,
        inbox: mpsc::Receiver<Message>,
        presence: watch::Sender<Presence>,
    ) -> Self {
        Self {
            id,
            shared,
            inbox,
            presence,
            copy_job: None,
            template: TemplateRequests::default(),
            waits_for_host: false,
        }
    }

    pub(super) async fn run(mut self) {
        let stop = self.shared.tasks.stopping();
        loop {
            let watch_machine = self.machine_end();
            let watch_agent = self.watch_agent();
            let watch_template = self.watch_template();
            let watch_host = self.host_return();
            let message = tokio::select! {
                () = stop.cancelled() => break,
                message = self.inbox.recv() => message,
                never = watch_agent => match never {},
                requests = watch_template => {
                    self.handle_template_requests(requests).await;
                    continue;
                }
                () = watch_machine => {
                    self.machine_ended().await;
                    continue;
                }
                () = watch_host => {
                    if self.host_returned().await == AfterWork::Exit {
                        self.end();
                        break;
                    }
                    continue;
                }
                outcome = CopyJob::ended(&mut self.copy_job) => {
                    self.copy_job_ended(outcome).await;
                    continue;
                }
            };
            let Some(message) = message else { break };
            let evict = matches!(message.work, Work::CheckCopy { evict: true });
            let next = self.handle(message).await;
            // Also for a change of its agent that was not watched meanwhile.
            self.shared.note_live_change(self.id);
            if next == AfterWork::Exit {
                self.end();
                break;
            }
            self.start_copy_task(evict).await;
        }
    }

    /// Ends the runner of a computer that is removed.
    fn end(&mut self) {
        self.shared.forget(self.id);
        self.refuse_waiting();
    }

    /// Refuses the waiting work because the computer is gone.
    fn refuse_waiting(&mut self) {
        while let Ok(Message { accepted, finished, .. }) = self.inbox.try_recv() {
            let _ = accepted.send(Err(computer_not_found()));
            let _ = finished.send(Err(computer_not_found()));
        }
    }

    async fn handle(&mut self, message: Message) -> AfterWork {
        let Message { work, accepted, finished } = message;
        let row = match self.shared.store.computer(&ComputerRef::Id(self.id)).await {
            Ok(Some(row)) => row,
            Ok(None) => {
                let _ = accepted.send(Err(computer_not_found()));
                let _ = finished.send(Err(computer_not_found()));
                return AfterWork::Exit;
            }
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                let _ = finished.send(Err(error));
                return AfterWork::Continue;
            }
        };
        if let Some(error) = self.refuse_during_outage(&work, &row) {
            let _ = accepted.send(Err(error.clone()));
            let _ = finished.send(Err(error));
            return AfterWork::Continue;
        }
        let (outcome, next) = match &work {
            Work::Create { services, spread } => {
                let from = MachineSource::Empty { services: *services, spread: *spread };
                self.create(&row, from).await
            }
            Work::Clone(source) => self.create(&row, MachineSource::Disk(*source)).await,
            Work::Fork(source, at) => self.create(&row, MachineSource::Memory(*source, *at)).await,
            Work::CopyTo(clone) => (self.copy_disk(&row, *clone).await, AfterWork::Continue),
            Work::CopyForTemplate(machine) => {
                (self.copy_for_template(&row, *machine).await, AfterWork::Continue)
            }
            Work::ForkTo(fork) => (self.copy_memory(&row, *fork).await, AfterWork::Continue),
            Work::Launch(snapshot, fork) => (self.launch(*snapshot, *fork).await, AfterWork::Continue),
            Work::Snapshot(new) => (self.snapshot(&row, new, accepted).await, AfterWork::Continue),
            Work::RemoveSnapshot(snapshot) => (self.remove_snapshot(*snapshot).await, AfterWork::Continue),
            Work::Rollback { snapshot, allowance } => {
                (self.roll_back(&row, *snapshot, allowance, accepted).await, AfterWork::Continue)
            }
            Work::Resize(job) => (self.resize(&row, job).await, AfterWork::Continue),
            Work::SetEgress(policy) => (self.set_egress(&row, policy.as_deref()).await, AfterWork::Continue),
            Work::ChangeIsolation(to) => (self.change_isolation(&row, *to).await, AfterWork::Continue),
            Work::Move(to) => (self.move_to(&row, to, accepted).await, AfterWork::Continue),
            Work::FinishMove => (self.finish_move(&row).await, AfterWork::Continue),
            Work::Recover => self.recover(&row).await,
            Work::HostGone => (self.host_gone(&row).await, AfterWork::Continue),
            // `start_copy_task` runs after every piece of work.
            Work::CheckCopy { .. } => (Ok(()), AfterWork::Continue),
            Work::AutoStop(_, claimed) if self.shared.last_action(self.id) != Some(*claimed) => {
                let _ = accepted.send(Ok(CommandAck { status: row.status, begun: false }));
                (Ok(()), AfterWork::Continue)
            }
            Work::AutoStop(command, _) => {
                self.command(&row, *command, Some(StatusReason::AutoStop), accepted).await
            }
            Work::Command(command) => {
                let reason = billing::is_trial_end(*command).then_some(StatusReason::TrialEnded);
                self.command(&row, *command, reason, accepted).await
            }
        };
        if let Err(error) = &outcome {
            tracing::warn!(computer = %self.id, ?work, error = format_args!("{error:#}"), "work failed");
        }
        // The receiver is gone when the caller disconnected.
        let _ = finished.send(outcome);
        next
    }

    async fn command(
        &mut self,
        row: &Computer,
        command: Command,
        reason: Option<StatusReason>,
        accepted: oneshot::Sender<Result<CommandAck>>,
    ) -> (Result<()>, AfterWork) {
        let decided = billing::decide(row.status, row.status_reason, &row.billing, command, clock::now());
        let decided = decided.and_then(|decision| match decision {
            Decision::Do(Operation::Suspend) => check_converged(row.converging).map(|()| decision),
            Decision::Do(_) | Decision::AlreadySo => Ok(decision),
        });
        let operation = match decided {
            Err(error) => {
                let _ = accepted.send(Err(error.clone()));
                return (Err(error), AfterWork::Continue);
            }
            Ok(Decision::AlreadySo) => {
                let _ = accepted.send(Ok(CommandAck { status: row.status, begun: false }));
                return (Ok(()), AfterWork::Continue);
            }
            Ok(Decision::Do(operation)) => operation,
        };
        let checked = match self.check_isolation(operation, row) {
            Ok(()) => self.check_host(operation, row).await,
            refused @ Err(_) => refused,
        };
        let checked = match checked {
            Ok(()) => self.check_capacity(operation, row.status).await,
            refused @ Err(_) => refused,
        };
        if let Err(error) = checked {
            let _ = accepted.send(Err(error.clone()));
            return (Err(error), AfterWork::Continue);
        }
        self.cancel_copy_job().await;
        // The intent hides it from everybody else.
        let guest = self.presence.borrow().guest.clone();
        if let Err(error) = self.store_intent(operation, reason).await {
            let _ = accepted.send(Err(error.clone()));
            return (Err(error), AfterWork::Continue);
        }
        let _ = accepted.send(Ok(CommandAck { status: operation.status(), begun: true }));
        if let Some(hook) = hook_before(operation) {
            self.run_hook(row, guest.as_ref(), hook).await;
        }
        match operation {
            Operation::Stop | Operation::Restart | Operation::Suspend => {
                self.shared.timelines.fetch_before_end(self.id, guest.as_ref()).await;
            }
            // The timeline goes with the computer, and one that starts has no agent yet.
            Operation::Delete | Operation::Start | Operation::Resume => {}
        }
        self.execute(operation, row).await
    }

    /// Stores the intent. After a crash from here on the same operation runs again. `reason` is that of a
    /// suspend or a stop by the service.
    async fn store_intent(&mut self, operation: Operation, reason: Option<StatusReason>) -> Result<()> {
        let status = operation.status();
        match operation {
            Operation::Start | Operation::Restart => self.shared.store.begin_boot(self.id, status).await?,
            Operation::Resume if self.is_in_storage().await? => {
                self.shared.store.begin_wake_from_storage(self.id).await?;
            }
            Operation::Resume => self.shared.store.begin_resume(self.id).await?,
            Operation::Stop | Operation::Suspend => {
                self.shared.store.set_status_because(self.id, status, reason).await?;
            }
            Operation::Delete => self.shared.store.set_status(self.id, status).await?,
        }
        self.presence.send_replace(Presence { status: Some(status), because: reason, ..Presence::default() });
        Ok(())
    }

    async fn execute(&mut self, operation: Operation, row: &Computer) -> (Result<()>, AfterWork) {
        let outcome = match operation {
            // After a failed stop the machine of the earlier boot may still run.
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
        (outcome, AfterWork::Continue)
    }

    /// Returns the stored row.
    pub(super) async fn row(&self) -> Result<Computer> {
        self.shared.store.computer(&ComputerRef::Id(self.id)).await?.ok_or_else(computer_not_found)
    }

    /// Stores the status `error` and returns the client's error.
    pub(super) async fn fail(&mut self, what: &str, error: &EngineError) -> Result<()> {
        self.settle_as(Status::Error).await?;
        self.notes_outage();
        Err(refused(what, error))
    }

    pub(super) async fn settle_as(&mut self, status: Status) -> Result<()> {
        self.store_status(status).await?;
        self.show(status, None, None);
        Ok(())
    }

    /// [`Self::settle_as`], with the reason when the service ended the computer.
    pub(super) async fn settle_because(
        &mut self,
        status: Status,
        reason: Option<StatusReason>,
    ) -> Result<()> {
        self.settle_as(status).await?;
        match reason {
            Some(_) => self.shared.store.set_status_because(self.id, status, reason).await,
            None => Ok(()),
        }
    }

    /// Stores a status that is already true. A failing database is retried, because otherwise a running guest
    /// would be unreachable.
    async fn store_status(&self, status: Status) -> Result<()> {
        for pause in STORE_RETRY_PAUSES {
            match self.shared.store.set_status(self.id, status).await {
                Err(error) if !self.shared.tasks.stopping().is_cancelled() => {
                    tracing::warn!(
                        computer = %self.id,
                        status = status.name(),
                        error = format_args!("{error:#}"),
                        "could not store the status; it is retried"
                    );
                    tokio::time::sleep(pause).await;
                }
                stored => return stored,
            }
        }
        self.shared.store.set_status(self.id, status).await
    }

    fn shown_status(&self) -> Option<Status> {
        self.presence.borrow().status
    }

    pub(super) fn show(&self, status: Status, guest: Option<Guest>, address: Option<IpAddr>) {
        self.presence.send_modify(|now| {
            // The reason stays for those that read it late.
            let because = now.because.filter(|_| guest.is_none());
            *now = Presence { status: Some(status), guest, address, because, is_moving: false };
        });
        self.shared.note_live_change(self.id);
    }
}

/// The computer does not exist any more.
pub(super) fn computer_not_found() -> Error {
    Error::not_found("Desktop not found")
}

pub(super) fn machine_spec(row: &Computer) -> MachineSpec {
    MachineSpec {
        layers: row.layers.clone(),
        egress: row.egress.clone(),
        ..hardware_spec(row.id, row.isolation, &row.hardware)
    }
}

/// Returns the spec of a machine with this isolation and hardware, without layers and egress policy.
pub(super) fn hardware_spec(id: ComputerId, isolation: Isolation, hardware: &Hardware) -> MachineSpec {
    MachineSpec {
        id,
        isolation,
        cpu: hardware.cpu,
        memory_bytes: u64::from(hardware.ram_gb) * GB,
        disk_bytes: u64::from(hardware.disk_gb) * GB,
        bandwidth_mbps: hardware.bandwidth_mbps,
        layers: Vec::new(),
        egress: None,
    }
}

pub(super) fn boot_spec(row: &Computer) -> Boot {
    Boot { generation: row.generation, token: row.agent_token.clone(), resolution: row.hardware.resolution }
}

/// Converts an engine's failure to a client's error with the message `what`. The step is only logged.
pub(super) fn refused(what: &str, error: &EngineError) -> Error {
    match error {
        EngineError::NoCapacity(short, _) => {
            Error::unavailable(format!("{what}: the host is short of {short}"))
                .code(ErrorCode::NoCapacity)
                .retry_after(30)
                .context(error)
        }
        EngineError::Unsupported(_) => Error::invalid(format!("{what}: {error}")),
        EngineError::Absent
        | EngineError::MemoryInUse { .. }
        | EngineError::Damaged(_)
        | EngineError::Failed { .. } => {
            let mut failed = Error::internal(error);
            what.clone_into(&mut failed.message);
            failed
        }
    }
}
