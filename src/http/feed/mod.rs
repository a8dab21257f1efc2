//! Who hears of an event? Everybody who subscribed to its type, each at a pace of their own.
//!
//! Publishing never waits. Each listener has a bounded queue; one that is full loses an old event and counts it
//! (interface.md "Delivery rules"). A source that can wait does so for a moment before ([`Feed::room`]), and whoever reads
//! misses nothing of a burst. What nobody subscribed to is not even written down, and [`Feed::wanted`] tells those who
//! look for events what to look for.

mod converse;
mod queue;
mod request;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use hotdesk_domain::event::{Kind, Kinds};
use hotdesk_wire::event::Event;

pub use converse::converse;
pub use queue::{MAX_WAITING, MAX_WAITING_BYTES};
use queue::{Missed, Published, Queue};

/// The events of one computer on their way to those who subscribed; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Feed(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    listeners: Mutex<Listeners>,
    /// Somebody who had much before them has nothing any more: for tasks that wait for it, and for threads.
    room: Notify,
    room_for_threads: Condvar,
    wanted: watch::Sender<Kinds>,
    /// The types whose events would come here now; all, unless somebody says otherwise.
    watched: watch::Sender<Kinds>,
}

impl Default for Shared {
    fn default() -> Self {
        let watched = watch::Sender::new(Kind::ALL.into_iter().collect());
        let (listeners, wanted) = (Mutex::default(), watch::Sender::default());
        Self { listeners, room: Notify::new(), room_for_threads: Condvar::new(), wanted, watched }
    }
}

#[derive(Debug, Default)]
struct Listeners {
    next_id: u64,
    queues: HashMap<u64, Queue>,
}

impl Listeners {
    /// How much longer a source that can wait so long should, so that nothing is lost.
    fn crowded_for(&self, patience: Duration) -> Option<Duration> {
        self.queues.values().filter_map(|queue| queue.crowded_for(patience)).max()
    }
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
        for queue in self.lock().queues.values_mut().filter(|queue| queue.kinds().contains(kind)) {
            queue.push(Arc::clone(&event));
        }
    }

    /// Tells those who subscribed to a type that events of it were lost before they came here; all who subscribed to
    /// anything where it is not known of which type they were.
    pub fn missed(&self, kind: Option<Kind>, count: u64) {
        for queue in self.lock().queues.values_mut() {
            queue.miss(kind, count);
        }
    }

    /// Waits until nobody has much before them; for a listener that does not take it in so long only once. For sources
    /// that can wait: what they would publish meanwhile stays where it is.
    pub async fn room(&self, patience: Duration) {
        loop {
            // From now on, so that nothing between the look and the wait is missed.
            let room = self.0.room.notified();
            let Some(left) = self.lock().crowded_for(patience) else { return };
            // Whoever takes nothing in that time is waited for no longer.
            let _ = tokio::time::timeout(left, room).await;
        }
    }

    /// The same for a thread that may block.
    pub fn block_for_room(&self, patience: Duration) {
        let mut listeners = self.lock();
        while let Some(left) = listeners.crowded_for(patience) {
            let waited = self.0.room_for_threads.wait_timeout(listeners, left);
            listeners = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell_room(&self) {
        self.0.room.notify_waiters();
        self.0.room_for_threads.notify_all();
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
        let union = listeners.queues.values().fold(Kinds::NONE, |all, queue| all.union(queue.kinds()));
        self.0.wanted.send_if_modified(|wanted| std::mem::replace(wanted, union) != union);
        self.tell_room();
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
    missed: Missed,
}

impl News {
    /// How many events this listener has missed until now.
    pub fn dropped(&self) -> u64 {
        self.missed.total
    }

    /// The whole message to a client: as [`hotdesk_wire::event::ServerMessage::Event`] is written.
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
    pub fn add(&self, kinds: Kinds) {
        self.change(|queue| queue.add(kinds));
    }

    /// Unsubscribes from types. What waits of them is not delivered any more, and was not missed.
    pub fn remove(&self, kinds: Kinds) {
        self.change(|queue| queue.remove(kinds));
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
        let was_crowded = queue.is_crowded();
        let (event, missed) = queue.pop()?;
        if was_crowded && !queue.is_crowded() {
            self.feed.tell_room();
        }
        Some(News { event, missed })
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
