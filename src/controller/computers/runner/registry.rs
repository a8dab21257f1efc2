//! Registry of runners, one per computer, and the state that they share.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::prepared::{BootSnapshots, Pool, PreparedDesktops};
use super::template::requests::WebhookQueue;
use super::{CommandAck, Message, Runner, Work};
use crate::audit::timeline::ActionTimelines;
use crate::data_dir::blobs::{BlobStore, PictureKind};
use crate::data_dir::file_keys::FileKeys;
use crate::data_dir::pictures::RecordedPictures;
use crate::saved_state::StateArchive;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::revocation_registry::RevocationRegistry;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::lifecycle::{Command, Status};
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::migration::migrating;
use hotdesk_engine::{Engine, HostObservation};
use hotdesk_guest::Guest;
use hotdesk_store::Store;
use hotdesk_store::fleet::changes::RecordChange;

/// Most commands that wait for one computer. Further ones are refused.
const MAILBOX: usize = 16;
/// Machines that start concurrently. Boots are CPU-bound; more would only slow each other down.
pub(in crate::computers) const STARTS_AT_ONCE: usize = 4;

/// Live state of one computer. Only its runner writes it.
#[derive(Clone, Debug, Default)]
pub(in crate::computers) struct Presence {
    pub(in crate::computers) status: Option<Status>,
    pub(in crate::computers) guest: Option<Guest>,
    pub(in crate::computers) address: Option<std::net::IpAddr>,
    /// Why it does not run, if the service stopped it.
    pub(in crate::computers) because: Option<StatusReason>,
    /// Whether it is being moved to another host.
    pub(in crate::computers) is_moving: bool,
}

struct RunnerHandle {
    mailbox: mpsc::Sender<Message>,
    presence: watch::Receiver<Presence>,
    /// Last action on it; initially the start of its runner.
    last_action: Instant,
    /// Number of commands that end it, since the start of its runner.
    endings: watch::Sender<u64>,
}

/// State that runners share.
pub(in crate::computers) struct FleetState {
    pub(in crate::computers) engine: Arc<dyn Engine>,
    pub(in crate::computers) store: Store,
    pub(in crate::computers) file_keys: FileKeys,
    pub(in crate::computers) blobs: BlobStore,
    pub(in crate::computers) tasks: Tasks,
    pub(in crate::computers) starts: Semaphore,
    pub(in crate::computers) boot_snapshots: BootSnapshots,
    pub(in crate::computers) pool: Pool,
    /// Copies saved states to object storage, where that is configured.
    pub(in crate::computers) archive: Option<Arc<StateArchive>>,
    /// Computers whose stream is being ended. A second stop could hit a new stream of an authorized user.
    pub(in crate::computers) ending_streams: KeyedSemaphore<ComputerId>,
    /// Computers whose replica is being refreshed, or whose move is about to be stored: one excludes the other.
    pub(in crate::computers) refreshing: KeyedSemaphore<ComputerId>,
    /// Timelines of the actions on screens.
    pub(in crate::computers) timelines: ActionTimelines,
    /// Small pictures of the screens in snapshots.
    pub(in crate::computers) snapshot_pictures: RecordedPictures,
    /// Webhooks that runners hand over.
    pub(in crate::computers) webhooks: WebhookQueue,
    /// Free bytes of the host's disk, as its guard saw them last.
    pub(in crate::computers) free_disk: AtomicU64,
    /// Machines without a row: of builds and saves of templates in progress. Nothing is revoked.
    pub(in crate::computers) temporary_machines: RevocationRegistry<ComputerId>,
    /// The hosts of the engine and when they were seen. Locked during a placement.
    pub(in crate::computers) placement: tokio::sync::Mutex<Option<(Instant, Vec<HostObservation>)>>,
    runners: Mutex<HashMap<ComputerId, RunnerHandle>>,
}

impl FleetState {
    /// Creates the state of a fleet without runners.
    pub(in crate::computers) fn new(
        engine: Arc<dyn Engine>,
        store: Store,
        blobs: BlobStore,
        tasks: Tasks,
        archive: Option<Arc<StateArchive>>,
        prepared: PreparedDesktops,
        timelines: ActionTimelines,
    ) -> Self {
        let file_keys = FileKeys::new(Arc::clone(&engine), store.clone());
        let snapshot_pictures = RecordedPictures::new(PictureKind::Snapshot, store.clone(), blobs.clone());
        let PreparedDesktops { boot_snapshots, pool } = prepared;
        Self {
            boot_snapshots,
            pool,
            engine,
            store,
            file_keys,
            blobs,
            tasks,
            starts: Semaphore::new(STARTS_AT_ONCE),
            archive,
            ending_streams: KeyedSemaphore::default(),
            refreshing: KeyedSemaphore::default(),
            timelines,
            snapshot_pictures,
            webhooks: WebhookQueue::default(),
            free_disk: AtomicU64::new(u64::MAX),
            temporary_machines: RevocationRegistry::default(),
            placement: tokio::sync::Mutex::default(),
            runners: Mutex::default(),
        }
    }

    pub(in crate::computers) fn forget(&self, id: ComputerId) {
        self.runners.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Notes that a computer's record changed by something that is not stored: its address, or whether its
    /// agent answers.
    pub(in crate::computers) fn note_live_change(&self, id: ComputerId) {
        self.store.changes.send(RecordChange::Computer(id));
    }

    /// Returns the last action on a computer; see `Fleet::last_action`.
    pub(in crate::computers) fn last_action(&self, id: ComputerId) -> Option<Instant> {
        let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        runners.get(&id).map(|handle| handle.last_action)
    }

    /// Records an auto-stop as an action, so that it is not repeated immediately. `None` when another action
    /// came since `judged`.
    pub(in crate::computers) fn claim_auto_stop(&self, id: ComputerId, judged: Instant) -> Option<Instant> {
        let mut runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = runners.get_mut(&id).filter(|handle| handle.last_action == judged)?;
        handle.last_action = Instant::now();
        Some(handle.last_action)
    }

    /// Records an action on a computer.
    pub(in crate::computers) fn note_action(&self, id: ComputerId) {
        let mut runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = runners.get_mut(&id) {
            handle.last_action = Instant::now();
        }
    }

    /// Returns the live state of a computer with a runner.
    pub(in crate::computers) fn presence(&self, id: ComputerId) -> Option<watch::Receiver<Presence>> {
        let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        runners.get(&id).map(|handle| handle.presence.clone())
    }

    /// Returns the computers that have a runner.
    pub(in crate::computers) fn with_runner(&self) -> Vec<ComputerId> {
        let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        runners.keys().copied().collect()
    }

    /// Returns the computers with a guest; see `Fleet::running_computers`.
    pub(in crate::computers) fn running_computers(&self) -> Vec<ComputerId> {
        let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        let running = runners.iter().filter(|(_, handle)| handle.presence.borrow().guest.is_some());
        running.map(|(id, _)| *id).collect()
    }

    /// Returns the guests to which somebody's request went; see `Fleet::used_guests`.
    pub(in crate::computers) fn used_guests(&self) -> Vec<(ComputerId, Guest)> {
        let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        let used = runners.iter().filter_map(|(id, handle)| {
            let now = handle.presence.borrow();
            let guest = now.guest.as_ref().filter(|guest| guest.last_acted().is_some())?;
            Some((*id, guest.clone()))
        });
        used.collect()
    }

    /// Sends work to a computer's runner, and starts the runner if there is none. Work that a client asks for is refused while
    /// the computer is being moved to another host.
    #[allow(clippy::type_complexity)] // two reply channels, named where they are created
    pub(in crate::computers) fn send(
        self: &Arc<Self>,
        id: ComputerId,
        work: Work,
    ) -> Result<(oneshot::Receiver<Result<CommandAck>>, oneshot::Receiver<Result<()>>)> {
        let (accepted, was_accepted) = oneshot::channel();
        let (finished, has_finished) = oneshot::channel();
        let ends = ends_machine(&work);
        let message = Message { work, accepted, finished };
        let mut runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        let is_moving = runners.get(&id).is_some_and(|handle| handle.presence.borrow().is_moving);
        if is_moving && is_refused_during_move(&message.work) {
            return Err(migrating());
        }
        let message = match runners.get(&id) {
            None => message,
            Some(handle) => match handle.mailbox.try_send(message) {
                Ok(()) => {
                    if ends {
                        handle.endings.send_modify(|count| *count += 1);
                    }
                    return Ok((was_accepted, has_finished));
                }
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(
                        Error::unavailable("The computer has too many commands waiting").retry_after(5)
                    );
                }
                // Its runner has ended; a new one is started.
                Err(mpsc::error::TrySendError::Closed(message)) => message,
            },
        };
        let (mailbox, inbox) = mpsc::channel(MAILBOX);
        let (presence, watched) = watch::channel(Presence::default());
        // The channel is new and empty, so the message fits.
        let _ = mailbox.try_send(message);
        runners.insert(
            id,
            RunnerHandle {
                mailbox,
                presence: watched,
                last_action: Instant::now(),
                endings: watch::Sender::new(0),
            },
        );
        let runner = Runner::new(id, Arc::clone(self), inbox, presence);
        let _task = self.tasks.spawn("runner", runner.run());
        Ok((was_accepted, has_finished))
    }

    /// Ends the wait for a hook before the end of a computer's machine, if there is one.
    pub(in crate::computers) fn cut_hook_short(&self, id: ComputerId) {
        let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = runners.get(&id) {
            handle.endings.send_modify(|count| *count += 1);
        }
    }

    /// Returns how many commands that end a computer its runner has got.
    pub(super) fn endings(&self, id: ComputerId) -> u64 {
        let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        runners.get(&id).map_or(0, |handle| *handle.endings.borrow())
    }

    /// Waits for another command that ends a computer, after `before` of them: it does not wait for a hook.
    pub(super) async fn hook_cut_short(&self, id: ComputerId, before: u64) {
        let watched = {
            let runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
            runners.get(&id).map(|handle| handle.endings.subscribe())
        };
        let Some(mut watched) = watched else { return std::future::pending().await };
        if watched.wait_for(|count| *count > before).await.is_err() {
            std::future::pending().await
        }
    }
}

/// The controller stops before the work is done.
pub(in crate::computers) fn stopping() -> Error {
    Error::unavailable("The service is shutting down").retry_after(5)
}

/// Whether work ends a computer's machine, and so does not wait for a hook of its template that runs already.
fn ends_machine(work: &Work) -> bool {
    use Command::{Delete, EndByStop, EndBySuspend, Stop};
    matches!(work, Work::Command(Stop | Delete | EndBySuspend | EndByStop))
}

/// Whether work is refused while its computer is being moved. The rest is the controller's own, and waits.
fn is_refused_during_move(work: &Work) -> bool {
    match work {
        Work::CopyTo(_)
        | Work::CopyForTemplate(_)
        | Work::ForkTo(_)
        | Work::Launch(..)
        | Work::Snapshot(_)
        | Work::RemoveSnapshot(_)
        | Work::Rollback { .. }
        | Work::Resize(_)
        | Work::SetEgress(_)
        | Work::ChangeIsolation(_)
        | Work::Command(_)
        | Work::AutoStop(..)
        | Work::Move(_) => true,
        Work::Create { .. }
        | Work::Clone(_)
        | Work::Fork(..)
        | Work::Recover
        | Work::FinishMove
        | Work::HostGone
        | Work::CheckCopy { .. } => false,
    }
}
