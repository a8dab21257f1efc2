//! Event hubs: one for each computer, while it has clients.
//!
//! However many clients a computer has, its agent gets one subscription for the union of what they want.
//! Restarts of agents and screens do not disconnect clients, because the hub subscribes again.

mod liveness;
mod upstream;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::channel::{self, Channel, Failure, GOING_AWAY};
use hotdesk_domain::desktop::event::{EventKind, EventKinds};
use hotdesk_http::feed::{self, Feed, Listener, QueuedEvent};
use hotdesk_http::socket::{CloseReason, Receiver, Sender};
use hotdesk_store::fleet::computers::Computer;

/// Hubs of all computers; cheap to clone.
#[derive(Clone)]
pub struct Events {
    fleet: Fleet,
    tasks: Tasks,
    hubs: Arc<Mutex<Hubs>>,
}

type Hubs = HashMap<ComputerId, Weak<Hub>>;

/// Hub that the clients of one computer share; it ends with the last of them.
struct Hub {
    computer: ComputerId,
    feed: Feed,
    hubs: Arc<Mutex<Hubs>>,
    _upstream: DropGuard,
}

/// Listener at a computer's hub within the controller; it counts as a client.
pub struct HubListener {
    listener: Listener,
    _hub: Arc<Hub>,
}

impl HubListener {
    /// Waits for the next event. Cancel-safe.
    pub async fn next(&self) -> QueuedEvent {
        self.listener.next().await
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("hubs", &lock(&self.hubs).len()).finish_non_exhaustive()
    }
}

impl Events {
    /// Creates an empty set of hubs.
    pub fn new(fleet: Fleet, tasks: Tasks) -> Self {
        Self { fleet, tasks, hubs: Arc::default() }
    }

    /// Serves one client until it leaves, the computer stops or the controller shuts down. The caller has
    /// checked access.
    pub async fn join(&self, computer: &Computer, sender: Sender, receiver: Receiver) -> CloseReason {
        if self.fleet.guest_awake(computer).await.is_err() {
            return CloseReason::new(Channel::Events.close_code(Failure::NotRunning), "computer not running");
        }
        let (stopping, ended) = (self.tasks.stopping(), self.fleet.wait_ended(computer.id));
        let stop = async {
            tokio::select! {
                // First, because a controller that shuts down also releases its computers.
                biased;
                () = stopping.cancelled() => CloseReason::new(GOING_AWAY, "server shutting down"),
                because = ended => CloseReason::new(GOING_AWAY, channel::stopping(because)),
            }
        };
        let hub = self.hub(computer.id);
        feed::serve_client(&hub.feed, sender, receiver, stop).await
    }

    /// Listens to events of a computer, also while it does not run. The caller has checked access.
    pub fn listen(&self, computer: ComputerId, kinds: EventKinds) -> HubListener {
        let hub = self.hub(computer);
        let listener = hub.feed.listen();
        listener.add(kinds);
        HubListener { listener, _hub: hub }
    }

    /// Returns how many computers have event clients.
    pub fn hubs(&self) -> usize {
        lock(&self.hubs).len()
    }

    /// Returns a computer's hub, and creates it if there is none.
    fn hub(&self, computer: ComputerId) -> Arc<Hub> {
        let mut hubs = lock(&self.hubs);
        if let Some(hub) = hubs.get(&computer).and_then(Weak::upgrade) {
            return hub;
        }
        let (feed, stop) = (Feed::new(), CancellationToken::new());
        // Until the agent confirms its subscription, which each client's subscription awaits.
        feed.set_watched(upstream::from_agent(EventKind::ALL.into_iter().collect()), false);
        let upstream = upstream::run(feed.clone(), self.fleet.clone(), computer);
        let liveness = liveness::run(feed.clone(), self.fleet.clone(), computer);
        let (left, stopping) = (stop.clone(), self.tasks.stopping());
        let _task = self.tasks.spawn("events", async move {
            tokio::select! {
                () = left.cancelled() => {}
                () = stopping.cancelled() => {}
                never = upstream => match never {},
                never = liveness => match never {},
            }
        });
        let hubs_of_all = Arc::clone(&self.hubs);
        let hub = Arc::new(Hub { computer, feed, hubs: hubs_of_all, _upstream: stop.drop_guard() });
        hubs.insert(computer, Arc::downgrade(&hub));
        hub
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let mut hubs = lock(&self.hubs);
        // A new client may have created the next hub in this moment.
        if hubs.get(&self.computer).is_some_and(|hub| hub.strong_count() == 0) {
            hubs.remove(&self.computer);
        }
    }
}

fn lock(hubs: &Mutex<Hubs>) -> MutexGuard<'_, Hubs> {
    hubs.lock().unwrap_or_else(PoisonError::into_inner)
}
