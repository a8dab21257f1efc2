//! Event feed of one computer: sources publish, listeners subscribe to types and read at their own pace.
//!
//! ```text
//!   source -- publish --> one bounded queue per listener -- next --> client
//!     ^                        |-- full: drop the oldest event of the largest type, count it
//!     |-- wait_for_space: back-pressure, bounded in time
//! ```
//! Publishing never waits. A full queue drops an old event and counts it (docs/api/events.md). A source that
//! can wait does so before ([`Feed::wait_for_space`]), so that an active reader misses nothing of a burst.
//! Events without a subscriber are not even serialized; [`Feed::wanted`] tells sources which types to detect.

mod client;
mod queue;
mod request;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use hotdesk_domain::desktop::event::{EventKind, EventKinds};
use hotdesk_wire::desktop::event::Event;

pub use client::serve_client;
pub use queue::{MAX_WAITING, MAX_WAITING_BYTES};
use queue::{MissedCounts, PublishedEvent, Queue};

/// The event feed of one computer; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Feed(Arc<FeedState>);

#[derive(Debug)]
struct FeedState {
    listeners: Mutex<Listeners>,
    /// Signals that a congested queue was emptied, to tasks and to threads.
    space: Notify,
    space_for_threads: Condvar,
    wanted: watch::Sender<EventKinds>,
    /// The types that sources detect now; all, unless a source says otherwise.
    watched: watch::Sender<EventKinds>,
}

impl Default for FeedState {
    fn default() -> Self {
        let watched = watch::Sender::new(EventKind::ALL.into_iter().collect());
        let (listeners, wanted) = (Mutex::default(), watch::Sender::default());
        Self { listeners, space: Notify::new(), space_for_threads: Condvar::new(), wanted, watched }
    }
}

#[derive(Debug, Default)]
struct Listeners {
    next_id: u64,
    queues: HashMap<u64, Queue>,
}

impl Listeners {
    /// How much longer a source should wait that can wait for `timeout`; `None` when it need not.
    fn remaining_wait(&self, timeout: Duration) -> Option<Duration> {
        self.queues.values().filter_map(|queue| queue.remaining_wait(timeout)).max()
    }
}

impl Feed {
    /// A feed without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues an event for every listener that subscribed to its type. Never waits.
    pub fn publish(&self, event: Event) {
        let kind = event.kind();
        if !self.0.wanted.borrow().contains(kind) {
            return;
        }
        let json = match serde_json::to_string(&event) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(%error, kind = kind.name(), "could not serialize an event");
                return;
            }
        };
        let event = Arc::new(PublishedEvent { kind, json });
        for queue in self.lock().queues.values_mut().filter(|queue| queue.kinds().contains(kind)) {
            queue.push(Arc::clone(&event));
        }
    }

    /// Counts events that were lost before they reached this feed, for the subscribers of their type; for all
    /// subscribers when the type is not known.
    pub fn report_missed(&self, kind: Option<EventKind>, count: u64) {
        for queue in self.lock().queues.values_mut() {
            queue.miss(kind, count);
        }
    }

    /// Waits until no queue is congested. A listener that does not empty its queue within `timeout` is waited
    /// for only once. For sources that can hold their events back meanwhile.
    pub async fn wait_for_space(&self, timeout: Duration) {
        loop {
            // Registered before the check, so that a signal between the check and the wait is not lost.
            let space = self.0.space.notified();
            let Some(left) = self.lock().remaining_wait(timeout) else { return };
            // On a timeout the next check returns.
            let _ = tokio::time::timeout(left, space).await;
        }
    }

    /// [`Self::wait_for_space`] for a thread that may block.
    pub fn block_for_space(&self, timeout: Duration) {
        let mut listeners = self.lock();
        while let Some(left) = listeners.remaining_wait(timeout) {
            let waited = self.0.space_for_threads.wait_timeout(listeners, left);
            listeners = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn signal_space(&self) {
        self.0.space.notify_waiters();
        self.0.space_for_threads.notify_all();
    }

    /// Adds a listener without subscriptions.
    pub fn listen(&self) -> Listener {
        let queue = Queue::default();
        let news = Arc::clone(&queue.news);
        let mut listeners = self.lock();
        let id = listeners.next_id;
        listeners.next_id += 1;
        listeners.queues.insert(id, queue);
        Listener { feed: self.clone(), id, news }
    }

    /// The types with a subscriber, and each change of them. Sources detect only these.
    pub fn wanted(&self) -> watch::Receiver<EventKinds> {
        self.0.wanted.subscribe()
    }

    /// Reports that a source detects events of these types from now on, or no longer.
    pub fn set_watched(&self, kinds: EventKinds, watched: bool) {
        self.0.watched.send_modify(|all| *all = if watched { all.union(kinds) } else { all.without(kinds) });
    }

    /// The types that sources detect now, and each change of them.
    pub fn watched(&self) -> watch::Receiver<EventKinds> {
        self.0.watched.subscribe()
    }

    /// Waits until sources detect all these types, so that a confirmed subscription misses nothing; at most
    /// for `timeout`, because a source may be down.
    pub async fn wait_watched(&self, kinds: EventKinds, timeout: Duration) {
        let mut watched = self.0.watched.subscribe();
        // The subscription is confirmed in any case.
        let _ = tokio::time::timeout(timeout, watched.wait_for(|all| kinds.without(*all).is_empty())).await;
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the listeners and updates the wanted types.
    fn change(&self, work: impl FnOnce(&mut Listeners)) {
        let mut listeners = self.lock();
        work(&mut listeners);
        let union = listeners.queues.values().fold(EventKinds::NONE, |all, queue| all.union(queue.kinds()));
        self.0.wanted.send_if_modified(|wanted| std::mem::replace(wanted, union) != union);
        self.signal_space();
    }
}

/// One listener; dropping it removes its queue.
#[derive(Debug)]
pub struct Listener {
    feed: Feed,
    id: u64,
    news: Arc<Notify>,
}

/// An event from a listener's queue, with its count of missed events.
#[derive(Clone, Debug)]
pub struct QueuedEvent {
    event: Arc<PublishedEvent>,
    missed: MissedCounts,
}

impl QueuedEvent {
    /// The number of events that this listener has missed so far.
    pub fn dropped(&self) -> u64 {
        self.missed.total
    }

    /// The message to a client, in the JSON form of
    /// [`hotdesk_wire::desktop::event::EventServerMessage::Event`].
    pub fn message(&self) -> String {
        let event = &self.event.json;
        if self.missed.total == 0 {
            return format!(r#"{{"type":"event","event":{event}}}"#);
        }
        let counts: Vec<String> =
            self.missed.by_type().map(|(name, count)| format!(r#""{name}":{count}"#)).collect();
        let by_type = match counts.is_empty() {
            true => String::new(),
            false => format!(r#","dropped_by_type":{{{}}}"#, counts.join(",")),
        };
        format!(r#"{{"type":"event","dropped":{}{by_type},"event":{event}}}"#, self.missed.total)
    }
}

impl Listener {
    /// Subscribes to more types.
    pub fn add(&self, kinds: EventKinds) {
        self.change(|queue| queue.add(kinds));
    }

    /// Unsubscribes from types. Queued events of them are discarded and not counted as missed.
    pub fn remove(&self, kinds: EventKinds) {
        self.change(|queue| queue.remove(kinds));
    }

    /// The oldest queued event, or the next one. Cancel-safe.
    pub async fn next(&self) -> QueuedEvent {
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            self.news.notified().await;
        }
    }

    fn take(&self) -> Option<QueuedEvent> {
        let mut listeners = self.feed.lock();
        let queue = listeners.queues.get_mut(&self.id)?;
        let was_congested = queue.is_congested();
        let (event, missed) = queue.pop()?;
        if was_congested && !queue.is_congested() {
            self.feed.signal_space();
        }
        Some(QueuedEvent { event, missed })
    }

    fn change(&self, work: impl FnOnce(&mut Queue)) {
        self.feed.change(|listeners| {
            if let Some(queue) = listeners.queues.get_mut(&self.id) {
                work(queue);
            }
        });
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.feed.change(|listeners| {
            listeners.queues.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests;
