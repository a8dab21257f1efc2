//! How do events reach the clients of a computer? By a hub per computer, which is there only while it has clients.
//!
//! However many clients there are, the computer's agent is asked once, for the union of what they want. Agents and
//! screens that start again cost no client its connection: the hub asks anew (issue 4).

mod upstream;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::{CancellationToken, DropGuard};

use super::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::channel::{self, Channel, Failure, GOING_AWAY};
use hotdesk_domain::event::Kind;
use hotdesk_http::feed::{self, Feed};
use hotdesk_http::socket::{Closing, Receiver, Sender};
use hotdesk_store::computers::Computer;

/// The hubs of all computers; cheap to clone.
#[derive(Clone)]
pub struct Events {
    fleet: Fleet,
    tasks: Tasks,
    hubs: Arc<Mutex<Hubs>>,
}

type Hubs = HashMap<ComputerId, Weak<Hub>>;

/// What the clients of one computer share; it ends with the last of them.
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
    /// No hub yet.
    pub fn new(fleet: Fleet, tasks: Tasks) -> Self {
        Self { fleet, tasks, hubs: Arc::default() }
    }

    /// One client's conversation with a computer that it may listen to, until it leaves, the computer stops or the
    /// controller shuts down.
    pub async fn join(&self, computer: &Computer, sender: Sender, receiver: Receiver) -> Closing {
        if self.fleet.guest_awake(computer).await.is_err() {
            return Closing::new(Channel::Events.close_code(Failure::NotRunning), "computer not running");
        }
        let (stopping, ended) = (self.tasks.stopping(), self.fleet.ended(computer.id));
        let stop = async {
            tokio::select! {
                // First: a controller that shuts down lets go of its computers as well.
                biased;
                () = stopping.cancelled() => Closing::new(GOING_AWAY, "server shutting down"),
                because = ended => Closing::new(GOING_AWAY, channel::stopping(because)),
            }
        };
        let hub = self.hub(computer.id);
        feed::converse(&hub.feed, sender, receiver, stop).await
    }

    /// How many computers are listened to.
    pub fn hubs(&self) -> usize {
        lock(&self.hubs).len()
    }

    /// A computer's hub, made where there is none.
    fn hub(&self, computer: ComputerId) -> Arc<Hub> {
        let mut hubs = lock(&self.hubs);
        if let Some(hub) = hubs.get(&computer).and_then(Weak::upgrade) {
            return hub;
        }
        let (feed, stop) = (Feed::new(), CancellationToken::new());
        // Until the agent says that it tells them, which each client's subscription waits for.
        feed.set_watched(Kind::ALL.into_iter().collect(), false);
        let upstream = upstream::run(feed.clone(), self.fleet.clone(), computer);
        let (left, stopping) = (stop.clone(), self.tasks.stopping());
        let _task = self.tasks.spawn("events", async move {
            tokio::select! {
                () = left.cancelled() => {}
                () = stopping.cancelled() => {}
                never = upstream => match never {},
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
        // A client that came in this moment may have made the next hub already.
        if hubs.get(&self.computer).is_some_and(|hub| hub.strong_count() == 0) {
            hubs.remove(&self.computer);
        }
    }
}

fn lock(hubs: &Mutex<Hubs>) -> MutexGuard<'_, Hubs> {
    hubs.lock().unwrap_or_else(PoisonError::into_inner)
}
