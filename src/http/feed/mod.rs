//! Who hears of an event? Everybody who subscribed to its type, each at a pace of their own.
//!
//! Publishing never waits. Each listener has a bounded queue; one that is full loses its oldest event and counts it
//! (interface.md "Delivery rules"). What nobody subscribed to is not even written down, and [`Feed::wanted`] tells those
//! who look for events what to look for.

mod converse;
mod request;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::domain::event::{Kind, Kinds};
use crate::wire::event::Event;

pub use converse::converse;

/// Events that wait for one listener (interface.md "Limits").
pub const MAX_WAITING: usize = 256;
/// Bytes that wait for one listener: sixty large clipboards, so that what a slow reader costs stays below what any
/// connection may make us keep for other reasons.
pub const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// The events of one computer on their way to those who subscribed; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Feed(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    listeners: Mutex<Listeners>,
    wanted: watch::Sender<Kinds>,
    /// The types whose events would come here now; all, unless somebody says otherwise.
    watched: watch::Sender<Kinds>,
}

impl Default for Shared {
    fn default() -> Self {
        let watched = watch::Sender::new(Kind::ALL.into_iter().collect());
        Self { listeners: Mutex::default(), wanted: watch::Sender::default(), watched }
    }
}

#[derive(Debug, Default)]
struct Listeners {
    next_id: u64,
    queues: HashMap<u64, Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    kinds: Kinds,
    waiting: VecDeque<Arc<Published>>,
    bytes: usize,
    dropped: u64,
    news: Arc<Notify>,
}

/// An event, written down once for all.
#[derive(Debug)]
struct Published {
    kind: Kind,
    json: String,
}

impl Feed {
    /// A feed that nobody listens to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives an event to all who subscribed to its type. Never waits.
    pub fn publish(&self, event: Event) {
        let kind = event.kind();
        if !self.0.wanted.borrow().contains(kind) {
            return;
        }
        let json = match serde_json::to_string(&event) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(%error, kind = kind.name(), "an event could not be written down");
                return;
            }
        };
        let event = Arc::new(Published { kind, json });
        for queue in self.lock().queues.values_mut().filter(|queue| queue.kinds.contains(kind)) {
            queue.push(Arc::clone(&event));
        }
    }

    /// Tells all who subscribed to anything that events were lost before they came here.
    pub fn missed(&self, count: u64) {
        for queue in self.lock().queues.values_mut().filter(|queue| !queue.kinds.is_empty()) {
            queue.dropped = queue.dropped.saturating_add(count);
        }
    }

    /// A new listener, subscribed to nothing.
    pub fn listen(&self) -> Listener {
        let queue = Queue::default();
        let news = Arc::clone(&queue.news);
        let mut listeners = self.lock();
        let id = listeners.next_id;
        listeners.next_id += 1;
        listeners.queues.insert(id, queue);
        Listener { feed: self.clone(), id, news }
    }

    /// The types that anybody is subscribed to, and each change of it. Whoever detects events runs for these alone.
    pub fn wanted(&self) -> watch::Receiver<Kinds> {
        self.0.wanted.subscribe()
    }

    /// Says that events of these types would come here from now on, or would not.
    pub fn set_watched(&self, kinds: Kinds, watched: bool) {
        self.0.watched.send_modify(|all| *all = if watched { all.union(kinds) } else { all.without(kinds) });
    }

    /// Waits until events of all these types would come here, so that what happens after a subscription was confirmed is
    /// told; at most so long, because a source may be down.
    pub async fn watched(&self, kinds: Kinds, patience: Duration) {
        let mut watched = self.0.watched.subscribe();
        // Whether they are makes no difference to who waits.
        let _ = tokio::time::timeout(patience, watched.wait_for(|all| kinds.without(*all).is_empty())).await;
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is listened to, and what is wanted with it.
    fn change(&self, work: impl FnOnce(&mut Listeners)) {
        let mut listeners = self.lock();
        work(&mut listeners);
        let union = listeners.queues.values().fold(Kinds::NONE, |all, queue| all.union(queue.kinds));
        self.0.wanted.send_if_modified(|wanted| std::mem::replace(wanted, union) != union);
    }
}

impl Queue {
    fn push(&mut self, event: Arc<Published>) {
        self.bytes += event.json.len();
        self.waiting.push_back(event);
        while self.waiting.len() > MAX_WAITING || (self.bytes > MAX_WAITING_BYTES && self.waiting.len() > 1) {
            self.pop();
            self.dropped = self.dropped.saturating_add(1);
        }
        self.news.notify_one();
    }

    fn pop(&mut self) -> Option<Arc<Published>> {
        let event = self.waiting.pop_front()?;
        self.bytes -= event.json.len();
        Some(event)
    }
}

/// One listener; its place is free again when it is dropped.
#[derive(Debug)]
pub struct Listener {
    feed: Feed,
    id: u64,
    news: Arc<Notify>,
}

/// An event that was waiting.
#[derive(Clone, Debug)]
pub struct News {
    event: Arc<Published>,
    /// How many events this listener has missed until now.
    pub dropped: u64,
}

impl News {
    /// The whole message to a client: as [`crate::wire::event::ServerMessage::Event`] is written.
    pub fn message(&self) -> String {
        let event = &self.event.json;
        match self.dropped {
            0 => format!(r#"{{"type":"event","event":{event}}}"#),
            dropped => format!(r#"{{"type":"event","dropped":{dropped},"event":{event}}}"#),
        }
    }
}

impl Listener {
    /// Subscribes to more types.
    pub fn add(&self, kinds: Kinds) {
        self.change(|queue| queue.kinds = queue.kinds.union(kinds));
    }

    /// Unsubscribes from types. What waits of them is not delivered any more, and was not missed.
    pub fn remove(&self, kinds: Kinds) {
        self.change(|queue| {
            queue.kinds = queue.kinds.without(kinds);
            queue.waiting.retain(|event| !kinds.contains(event.kind));
            queue.bytes = queue.waiting.iter().map(|event| event.json.len()).sum();
        });
    }

    /// The oldest event that waits, or the next one. Nothing is lost when the wait is broken off.
    pub async fn next(&self) -> News {
        loop {
            if let Some(news) = self.take() {
                return news;
            }
            self.news.notified().await;
        }
    }

    fn take(&self) -> Option<News> {
        let mut listeners = self.feed.lock();
        let queue = listeners.queues.get_mut(&self.id)?;
        queue.pop().map(|event| News { event, dropped: queue.dropped })
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
