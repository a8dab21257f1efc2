//! Event hubs, one for each computer while it has clients; watches of screens; live records of the console.
//!
//! However many clients a computer has, its agent gets one subscription for the union of what they want.
//! Restarts of agents and screens do not disconnect clients, because the hub subscribes again.

pub mod live;
mod liveness;
pub mod screens;
mod upstream;

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::channel::{self, Channel, Failure, GOING_AWAY};
use hotdesk_domain::desktop::event::{EventKind, EventKinds};
use hotdesk_http::feed::{self, Feed, Listener};
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

    /// Subscribes the controller itself to events of a computer. It neither wakes the computer nor counts as
    /// its use.
    fn subscribe(&self, computer: ComputerId, kinds: EventKinds) -> HubSubscription {
        let hub = self.hub(computer);
        let (detected, listener) = (hub.feed.watched(), hub.feed.listen());
        listener.add(kinds);
        HubSubscription { kinds, detected, listener, _hub: hub }
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

/// Subscription of the controller itself to events of a computer.
struct HubSubscription {
    kinds: EventKinds,
    /// The types that the agent publishes now.
    detected: watch::Receiver<EventKinds>,
    listener: Listener,
    _hub: Arc<Hub>,
}

impl HubSubscription {
    /// Waits until the agent publishes these events: what happens from then on is not missed.
    async fn begun(&mut self) {
        let kinds = self.kinds;
        // The hub has the sender, so the channel is open.
        let _ = self.detected.wait_for(|all| kinds.without(*all).is_empty()).await;
    }

    /// Waits for the next event, or until some may have been missed since [`HubSubscription::begun`].
    async fn next(&mut self) {
        let Self { detected, listener, .. } = self;
        let interrupted = async {
            if detected.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            _event = listener.next() => {}
            () = interrupted => {}
        }
    }

    /// Drops the events that wait.
    fn skip(&self) {
        while self.listener.next().now_or_never().is_some() {}
    }
}

fn lock(hubs: &Mutex<Hubs>) -> MutexGuard<'_, Hubs> {
    hubs.lock().unwrap_or_else(PoisonError::into_inner)
}
