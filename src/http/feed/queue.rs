//! Bounded queue of one listener.
//!
//! A full queue drops the oldest event of the type that takes the most space. So a flood of one type costs
//! the others nothing, and each type has its share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use hotdesk_domain::desktop::event::{EventKind, EventKinds};

/// Most events in one queue (docs/api/limits.md).
pub const MAX_WAITING: usize = 256;
/// Most bytes in one queue: sixty large clipboards, which is less than the other buffers of a connection.
pub const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// An event, serialized once for all listeners.
#[derive(Debug)]
pub(super) struct PublishedEvent {
    pub(super) kind: EventKind,
    pub(super) json: String,
}

/// Counts of the events that a listener has missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MissedCounts {
    /// All of them, those of unknown type included.
    pub(super) total: u64,
    by_kind: [u64; EventKind::COUNT],
}

impl MissedCounts {
    /// Adds missed events; without a type when it is not known.
    fn add(&mut self, kind: Option<EventKind>, count: u64) {
        self.total = self.total.saturating_add(count);
        if let Some(kind) = kind {
            let of_it = &mut self.by_kind[kind as usize];
            *of_it = of_it.saturating_add(count);
        }
    }

    /// The types with missed events and their counts, in the order of the types.
    pub(super) fn by_type(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |kind: EventKind| (kind.name(), self.by_kind[kind as usize]);
        EventKind::ALL.into_iter().map(count).filter(|(_, count)| *count > 0)
    }
}

/// The queue of one listener.
#[derive(Debug, Default)]
pub(super) struct Queue {
    kinds: EventKinds,
    waiting: VecDeque<Arc<PublishedEvent>>,
    bytes: usize,
    missed: MissedCounts,
    /// When it became congested: from half full until empty.
    congested_since: Option<Instant>,
    pub(super) news: Arc<Notify>,
}

impl Queue {
    pub(super) fn kinds(&self) -> EventKinds {
        self.kinds
    }

    pub(super) fn add(&mut self, kinds: EventKinds) {
        self.kinds = self.kinds.union(kinds);
    }

    /// Removes the types and discards their queued events, which do not count as missed.
    pub(super) fn remove(&mut self, kinds: EventKinds) {
        self.kinds = self.kinds.without(kinds);
        self.waiting.retain(|event| !kinds.contains(event.kind));
        self.bytes = self.waiting.iter().map(|event| event.json.len()).sum();
        self.clear_congestion_when_empty();
    }

    /// Adds an event of a subscribed type.
    pub(super) fn push(&mut self, event: Arc<PublishedEvent>) {
        self.bytes += event.json.len();
        self.waiting.push_back(event);
        while self.waiting.len() > MAX_WAITING {
            self.drop_one(|_| 1);
        }
        while self.bytes > MAX_WAITING_BYTES && self.waiting.len() > 1 {
            self.drop_one(|event| event.json.len());
        }
        if self.waiting.len() >= MAX_WAITING / 2 || self.bytes >= MAX_WAITING_BYTES / 2 {
            self.congested_since.get_or_insert_with(Instant::now);
        }
        self.news.notify_one();
    }

    /// Takes the oldest event, with the counts of missed events so far.
    pub(super) fn pop(&mut self) -> Option<(Arc<PublishedEvent>, MissedCounts)> {
        let event = self.waiting.pop_front()?;
        self.bytes -= event.json.len();
        self.clear_congestion_when_empty();
        Some((event, self.missed))
    }

    /// Counts lost events of a subscribed type, or of any type when it is not known.
    pub(super) fn miss(&mut self, kind: Option<EventKind>, count: u64) {
        if kind.map_or(!self.kinds.is_empty(), |kind| self.kinds.contains(kind)) {
            self.missed.add(kind, count);
        }
    }

    pub(super) fn is_congested(&self) -> bool {
        self.congested_since.is_some()
    }

    /// How much longer a source should wait that can wait for `timeout`. A listener that does not empty its
    /// queue in that time is not waited for again before it has.
    pub(super) fn remaining_wait(&self, timeout: Duration) -> Option<Duration> {
        timeout.checked_sub(self.congested_since?.elapsed()).filter(|left| !left.is_zero())
    }

    /// Drops the oldest event of the type with the largest sum of `size`.
    fn drop_one(&mut self, size: impl Fn(&PublishedEvent) -> usize) {
        let mut sizes = [0; EventKind::COUNT];
        for event in &self.waiting {
            sizes[event.kind as usize] += size(event);
        }
        let most = EventKind::ALL.into_iter().max_by_key(|kind| sizes[*kind as usize]);
        let oldest = self.waiting.iter().position(|event| Some(event.kind) == most);
        if let Some(event) = oldest.and_then(|at| self.waiting.remove(at)) {
            self.bytes -= event.json.len();
            self.missed.add(Some(event.kind), 1);
        }
    }

    fn clear_congestion_when_empty(&mut self) {
        if self.waiting.is_empty() {
            self.congested_since = None;
        }
    }
}
