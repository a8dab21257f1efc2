//! Fleet: commands to the runners of computers, and the live state of computers.

mod hosts;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

pub use super::runner::prepared::PreparedDesktops;
use super::runner::registry::{FleetState, stopping};
use super::runner::{CommandAck, Work, computer_not_found, suspend_unsupported};
use super::view;
use crate::audit::timeline::ActionTimelines;
use crate::config::Config;
use crate::data_dir::blobs::BlobStore;
use crate::data_dir::file_keys::FileKeys;
use crate::data_dir::pictures::RecordedPictures;
use crate::saved_state::StateArchive;
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing;
use hotdesk_domain::computer::isolation::{
    Isolation, IsolationChoice, check_offered, choose_isolation, parse_isolation,
};
use hotdesk_domain::computer::lifecycle::{Command, Decision, Status};
use hotdesk_domain::computer::prepared::services::ServiceStart;
use hotdesk_domain::computer::saved_state::CopyState;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::Engine;
use hotdesk_guest::Guest;
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::{Computer, NewComputer};
use hotdesk_store::identity::workspaces::Workspace;

/// Time in which an action waits for a computer that starts. Clients act right after create or start without
/// polling (docs/api/compatibility.md), and a boot takes seconds.
pub(super) const ACT_TIMEOUT: Duration = Duration::from_secs(45);
/// Time in which suspend and resume wait for their end before they respond `202`. Clients wait 60 s for a
/// response (docs/lifecycle.md).
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);
/// Time in which ensure-running waits for a boot that another request started. A boot may take slightly less.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(200);

/// All computers of this controller; cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    pub(super) shared: Arc<FleetState>,
    /// Whether reads also wake a suspended computer.
    pub(super) reads_wake: bool,
    /// Time in which an action waits for a computer that wakes.
    pub(super) wake_wait: Duration,
}

/// Command that was accepted: its intent is stored.
pub struct AcceptedCommand {
    /// The computer's status after acceptance: in transition, or already as requested.
    pub status: Status,
    /// Whether this command runs, and not an earlier one.
    pub begun: bool,
    finished: oneshot::Receiver<Result<()>>,
}

impl AcceptedCommand {
    /// Waits until the command ends.
    ///
    /// # Errors
    /// The command's error; `Unavailable` when the controller stops first.
    pub async fn finish(self) -> Result<()> {
        match self.finished.await {
            Ok(outcome) => outcome,
            Err(_) => Err(stopping()),
        }
    }
}

impl Fleet {
    /// Creates an empty fleet; [`Fleet::recover`] fills it.
    pub fn new(
        engine: Arc<dyn Engine>,
        store: Store,
        blobs: BlobStore,
        tasks: Tasks,
        config: &Config,
        archive: Option<Arc<StateArchive>>,
        prepared: PreparedDesktops,
    ) -> Self {
        let wake_wait = Duration::from_secs(config.suspension.wake_wait_seconds.into()).min(ACT_TIMEOUT);
        let reads_wake = config.suspension.reads_wake;
        let timelines = ActionTimelines::new(store.clone(), blobs.clone(), tasks.clone(), &config.timeline);
        let shared = FleetState::new(engine, store, blobs, tasks, archive, prepared, timelines);
        Self { shared: Arc::new(shared), reads_wake, wake_wait }
    }

    /// Returns the engine, which may offer several isolations.
    pub fn engine(&self) -> &dyn Engine {
        &*self.shared.engine
    }

    /// Notes the free bytes of the host's disk, as its guard has seen them.
    pub fn note_free_disk(&self, bytes: u64) {
        self.shared.free_disk.store(bytes, Ordering::Relaxed);
    }

    /// Returns every machine that has an owner: a row ([`Store::owned_machines`]), or a build or a save of a
    /// template that is in progress.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn owned_machines(&self) -> Result<BTreeSet<ComputerId>> {
        let mut owned = self.shared.store.owned_machines().await?;
        owned.extend(self.shared.temporary_machines.leased());
        Ok(owned)
    }

    /// Chooses the isolation of a new computer in a workspace, from the name in its request.
    ///
    /// # Errors
    /// `Invalid` for an unknown name, or for an isolation that the host does not offer (`isolation_not_offered`).
    pub fn choose_isolation(&self, requested: Option<&str>, workspace: &Workspace) -> Result<Isolation> {
        let offers = self.engine().offers();
        choose_isolation(&IsolationChoice {
            requested: requested.map(parse_isolation).transpose()?,
            of_workspace: workspace.isolation,
            configured: offers.default().isolation,
            offered: &offers.isolations(),
        })
    }

    /// Parses an isolation that the host offers.
    ///
    /// # Errors
    /// Those of [`Fleet::choose_isolation`].
    pub fn parse_offered(&self, name: &str) -> Result<Isolation> {
        check_offered(parse_isolation(name)?, "isolation", &self.engine().offers().isolations())
    }

    /// Changes the isolation of a stopped computer, for its next start.
    ///
    /// # Errors
    /// Those of [`hotdesk_domain::computer::isolation::check_isolation_change`]; `Unavailable` or `Internal` when the store fails.
    pub async fn change_isolation(&self, computer: &Computer, isolation: Isolation) -> Result<()> {
        let (_, finished) = self.shared.send(computer.id, Work::ChangeIsolation(isolation))?;
        finished.await.map_err(|_| stopping())?
    }

    /// Changes which destinations a computer reaches, at once where it runs.
    ///
    /// # Errors
    /// `Internal` when the engine fails, `Unavailable` or `Internal` when the store fails; the policy is as before.
    pub async fn set_egress(&self, computer: &Computer, policy: Option<EgressPolicy>) -> Result<()> {
        let (_, finished) = self.shared.send(computer.id, Work::SetEgress(policy.map(Box::new)))?;
        finished.await.map_err(|_| stopping())?
    }

    /// Returns the keys that encrypt files of computers.
    pub fn file_keys(&self) -> &FileKeys {
        &self.shared.file_keys
    }

    /// Returns the computers whose stream is being ended.
    pub fn ending_streams(&self) -> &KeyedSemaphore<ComputerId> {
        &self.shared.ending_streams
    }

    /// Returns the archive of saved states, where object storage is configured.
    pub fn state_archive(&self) -> Option<&Arc<StateArchive>> {
        self.shared.archive.as_ref()
    }

    /// Asks a computer's runner to complete work on the copy of its saved state. With `evict` it also frees
    /// the host's copy.
    pub fn check_copy(&self, id: ComputerId, evict: bool) {
        if let Err(error) = self.shared.send(id, Work::CheckCopy { evict }) {
            tracing::debug!(
                computer = %id,
                error = format_args!("{error:#}"),
                "the runner's mailbox is full; the copy is checked again later"
            );
        }
    }

    /// Whether a suspended computer's state is being copied in the background.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn is_saving(&self, id: ComputerId, status: Status) -> Result<bool> {
        if self.shared.archive.is_none() || status != Status::Suspended {
            return Ok(false);
        }
        let copy = self.shared.store.saved_copy(id).await?;
        Ok(copy.is_some_and(|copy| copy.state == CopyState::Saving))
    }

    /// Recovers all computers after a start of the controller: adopts running machines, completes or undoes
    /// interrupted commands, and removes machines without a row, T18 (docs/security.md).
    ///
    /// It returns once each computer has a runner; the runners continue.
    ///
    /// # Errors
    /// `Internal` when the database or the engine cannot be queried.
    pub async fn recover(&self) -> Result<()> {
        self.shared.file_keys.add_all().await?;
        self.shared.engine.watch_hosts().await;
        let rows = self.shared.store.all_computers().await?;
        for row in &rows {
            let _accepted = self.shared.send(row.id, Work::Recover)?;
        }
        let mut prepared = self.shared.recover_boot_snapshots().await;
        prepared.extend(self.shared.recover_pool().await);
        let machines = self.shared.engine.list().await.map_err(Error::internal)?;
        let known: HashSet<ComputerId> = rows.iter().map(|row| row.id).chain(prepared).collect();
        for orphan in machines.into_iter().filter(|id| !known.contains(id)) {
            tracing::warn!(computer = %orphan, "removing a machine that belongs to no computer");
            if let Err(error) = self.shared.engine.destroy(orphan).await {
                tracing::error!(
                    computer = %orphan,
                    error = format_args!("{error:#}"),
                    "could not remove a machine that belongs to no computer; it is retried at the next start"
                );
            }
        }
        Ok(())
    }

    /// Creates a computer and waits until it is usable. A failed one is removed. With `spread`, it begins on a host with few
    /// computers of its workspace, if there are several hosts.
    ///
    /// The work continues if the caller disconnects: a row without a runner would stay `creating` until the
    /// next start.
    ///
    /// # Errors
    /// The errors of [`Store::add_computer`]; `Internal` or `Unavailable` when the machine could not be
    /// created.
    pub async fn create(&self, new: NewComputer, services: ServiceStart, spread: bool) -> Result<Computer> {
        let shared = Arc::clone(&self.shared);
        let stored = async move {
            let stored = shared.store.add_computer(&new).await;
            shared.pool.end_claim(new.id);
            stored
        };
        self.create_machine(stored, Work::Create { services, spread }).await
    }

    /// Stores a new row and lets its runner create the machine. Both continue if the caller disconnects.
    pub(super) async fn create_machine(
        &self,
        stored: impl Future<Output = Result<Computer>> + Send + 'static,
        work: Work,
    ) -> Result<Computer> {
        let fleet = self.clone();
        let made = self.shared.tasks.spawn("create", async move {
            let stored = stored.await?;
            let (_, finished) = fleet.shared.send(stored.id, work)?;
            finished.await.map_err(|_| stopping())??;
            let made = fleet.shared.store.computer(&ComputerRef::Id(stored.id)).await?;
            made.ok_or_else(computer_not_found)
        });
        made.await.map_err(Error::internal)?.unwrap_or_else(|| Err(Error::internal("a create panicked")))
    }

    /// Sends a command to the computer's runner. Returns when its intent is stored; the work continues if the
    /// caller disconnects.
    ///
    /// # Errors
    /// The errors of [`billing::decide`], when the computer's status or billing forbids the command.
    pub async fn command(&self, computer: &Computer, command: Command) -> Result<AcceptedCommand> {
        self.shared.note_action(computer.id);
        self.check_not_moving(computer)?;
        // The stored status decides commands that change nothing. The runner decides again in its turn.
        let decision = billing::decide(
            computer.status,
            computer.status_reason,
            &computer.billing,
            command,
            clock::now(),
        )?;
        let (accepted, finished) = match decision {
            Decision::AlreadySo => {
                // The first stop may wait for a hook of the template, and the second one does not.
                if matches!(command, Command::Stop) {
                    self.shared.cut_hook_short(computer.id);
                }
                let (sender, finished) = oneshot::channel();
                let _ = sender.send(Ok(()));
                return Ok(AcceptedCommand { status: computer.status, begun: false, finished });
            }
            Decision::Do(_) => self.shared.send(computer.id, Work::Command(command))?,
        };
        let CommandAck { status, begun } = accepted.await.map_err(|_| stopping())??;
        Ok(AcceptedCommand { status, begun, finished })
    }

    /// Stops an idle computer by `command`. `judged` is the last action when it was found idle; a later
    /// action cancels the stop. Returns when the intent is stored, or when there is nothing to do.
    ///
    /// # Errors
    /// The errors of [`Fleet::command`].
    pub async fn stop_idle(&self, id: ComputerId, command: Command, judged: Instant) -> Result<()> {
        let Some(claimed) = self.shared.claim_auto_stop(id, judged) else { return Ok(()) };
        let (accepted, _finished) = self.shared.send(id, Work::AutoStop(command, claimed))?;
        accepted.await.map_err(|_| stopping())?.map(drop)
    }

    /// Starts or resumes a computer that does not run, and returns its row.
    ///
    /// # Errors
    /// The errors of [`Fleet::command`]; `Unavailable` when it does not run at the end.
    pub async fn ensure_running(&self, computer: &Computer) -> Result<Computer> {
        self.command(computer, Command::EnsureRunning).await?.finish().await?;
        let now = self.wait_settled(computer.id).await?;
        if now.status == Status::Running {
            return Ok(now);
        }
        let status = now.status.name();
        Err(Error::unavailable(format!("Computer is not running (status: {status})")).retry_after(5))
    }

    /// Suspends a computer. Returns `Suspending` when that takes longer than [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    /// `Invalid` (`suspend_unsupported`); the errors of [`Fleet::command`]; the engine's failure.
    pub async fn suspend(&self, computer: &Computer) -> Result<Status> {
        if !self.engine().offers().capabilities(computer.isolation).suspend {
            return Err(suspend_unsupported());
        }
        let suspension = self.command(computer, Command::Suspend).await?;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, suspension.finish()).await {
            outcome?;
        }
        // A computer that was woken again meanwhile had been suspended.
        let under_way = self.row(computer.id).await?.status == Status::Suspending;
        Ok(if under_way { Status::Suspending } else { Status::Suspended })
    }

    /// Resumes a suspended computer. Returns `Running`, or its status in transition when that takes longer
    /// than [`ANSWER_TIMEOUT`]; and whether its state came from object storage.
    ///
    /// # Errors
    /// The errors of [`Fleet::command`]; why it could not be resumed.
    pub async fn resume(&self, computer: &Computer) -> Result<(Status, bool)> {
        let wake = self.command(computer, Command::Resume).await?;
        if let Ok(outcome) = tokio::time::timeout(ANSWER_TIMEOUT, wake.finish()).await {
            outcome?;
        }
        let now = self.row(computer.id).await?;
        if now.status == Status::Deleting {
            return Err(computer_not_found());
        }
        Ok((now.status, now.instance != computer.instance))
    }

    /// Returns a computer's stored row.
    pub(super) async fn row(&self, id: ComputerId) -> Result<Computer> {
        self.shared.store.computer(&ComputerRef::Id(id)).await?.ok_or_else(computer_not_found)
    }

    /// Waits until a computer is not in transition (running, stopped, suspended or failed). After
    /// [`SETTLE_TIMEOUT`] returns it as it is.
    async fn wait_settled(&self, id: ComputerId) -> Result<Computer> {
        let is_settled =
            |status| [Status::Running, Status::Stopped, Status::Suspended, Status::Error].contains(&status);
        let mut presence = self.shared.presence(id).ok_or_else(computer_not_found)?;
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            // The live state follows the stored one: a row in transition is followed by a change of presence.
            presence.borrow_and_update();
            let row = self.row(id).await?;
            if is_settled(row.status) {
                return Ok(row);
            }
            match tokio::time::timeout_at(deadline, presence.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(computer_not_found()),
                Err(_) => return Ok(row),
            }
        }
    }

    /// Returns the live details for a computer's API record.
    pub fn live_details(&self, id: ComputerId) -> view::LiveDetails {
        let now = self.shared.presence(id).map(|presence| presence.borrow().clone()).unwrap_or_default();
        let unresponsive_since = now.guest.and_then(|guest| *guest.unresponsive_since().borrow());
        let frozen = self.engine().is_frozen(id);
        let outage = self.engine().host_outage(id);
        view::LiveDetails { address: now.address, unresponsive_since, frozen, outage }
    }

    /// Waits until a computer's agent is unresponsive since another time than `known`, and returns that;
    /// `None` when it answers, and when the computer does not run. It never returns without a change.
    pub async fn agent_change(&self, id: ComputerId, known: Option<UnixMillis>) -> Option<UnixMillis> {
        self.shared.agent_change(id, known).await
    }

    /// Returns the guest of a running computer.
    pub fn running_guest(&self, id: ComputerId) -> Option<Guest> {
        self.shared.presence(id).and_then(|presence| presence.borrow().guest.clone())
    }

    /// Returns the timelines of the actions on screens.
    pub fn timelines(&self) -> &ActionTimelines {
        &self.shared.timelines
    }

    /// Returns the pictures of snapshots.
    pub fn snapshot_pictures(&self) -> &RecordedPictures {
        &self.shared.snapshot_pictures
    }

    /// Returns the computers that run and have a guest, in no order.
    pub fn running_computers(&self) -> Vec<ComputerId> {
        self.shared.running_computers()
    }

    /// Returns the guests of running computers to which somebody's request went.
    pub fn used_guests(&self) -> Vec<(ComputerId, Guest)> {
        self.shared.used_guests()
    }

    /// Returns the last action on a computer over the API, commands included. Without one it is the start of
    /// its runner.
    pub fn last_action(&self, id: ComputerId) -> Option<Instant> {
        self.shared.last_action(id)
    }

    /// Waits until a computer runs. Returns false when it has no runner, for example because it was deleted.
    pub async fn wait_running(&self, id: ComputerId) -> bool {
        let Some(mut presence) = self.shared.presence(id) else { return false };
        let running = presence.wait_for(|now| now.guest.is_some()).await;
        running.is_ok()
    }

    /// Waits until a computer stops running. Returns why, if the service stopped it.
    pub async fn wait_ended(&self, id: ComputerId) -> Option<&'static str> {
        let mut presence = self.shared.presence(id)?;
        // A runner that ended is an end too.
        let end = presence.wait_for(|now| now.guest.is_none()).await;
        end.ok().and_then(|now| now.because).map(StatusReason::name)
    }
}
