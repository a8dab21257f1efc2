//! What waits for one listener, and what goes when it is too much?
//!
//! The oldest event goes, of the type that takes up the most: so a flood of one type costs the others nothing, and each
//! type can count on its share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use hotdesk_domain::event::{Kind, Kinds};

/// Events that wait for one listener (interface.md "Limits").
pub const MAX_WAITING: usize = 256;
/// Bytes that wait for one listener: sixty large clipboards, so that what a slow reader costs stays below what any
/// connection may make us keep for other reasons.
pub const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;
/// An event, written down once for all.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) kind: Kind,
    pub(super) json: String,
}

/// How many events a listener has missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    /// In all.
    pub(super) total: u64,
    by_kind: [u64; Kind::COUNT],
}

impl Missed {
    /// Adds to it; without a type where it is not known of which they were.
    fn add(&mut self, kind: Option<Kind>, count: u64) {
        self.total = self.total.saturating_add(count);
        if let Some(kind) = kind {
            let of_it = &mut self.by_kind[kind as usize];
            *of_it = of_it.saturating_add(count);
        }
    }

    /// The types that any was missed of, and how many.
    pub(super) fn by_type(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |kind: Kind| (kind.name(), self.by_kind[kind as usize]);
        Kind::ALL.into_iter().map(count).filter(|(_, count)| *count > 0)
    }
}

/// The events of one listener.
#[derive(Debug, Default)]
pub(super) struct Queue {
    kinds: Kinds,
    waiting: VecDeque<Arc<Published>>,
    bytes: usize,
    missed: Missed,
    /// Since when half of its places are taken; until none is.
    crowded: Option<Instant>,
    pub(super) news: Arc<Notify>,
}

impl Queue {
    pub(super) fn kinds(&self) -> Kinds {
        self.kinds
    }

    pub(super) fn add(&mut self, kinds: Kinds) {
        self.kinds = self.kinds.union(kinds);
    }

    /// What waits of these types goes, and was not missed.
    pub(super) fn remove(&mut self, kinds: Kinds) {
        self.kinds = self.kinds.without(kinds);
        self.waiting.retain(|event| !kinds.contains(event.kind));
        self.bytes = self.waiting.iter().map(|event| event.json.len()).sum();
        self.clear_when_empty();
    }

    /// Takes in an event of a type that is subscribed to.
    pub(super) fn push(&mut self, event: Arc<Published>) {
        self.bytes += event.json.len();
        self.waiting.push_back(event);
        while self.waiting.len() > MAX_WAITING {
            self.lose(|_| 1);
        }
        while self.bytes > MAX_WAITING_BYTES && self.waiting.len() > 1 {
            self.lose(|event| event.json.len());
        }
        if self.waiting.len() >= MAX_WAITING / 2 || self.bytes >= MAX_WAITING_BYTES / 2 {
            self.crowded.get_or_insert_with(Instant::now);
        }
        self.news.notify_one();
    }

    /// The oldest event, and what has been missed until now.
    pub(super) fn pop(&mut self) -> Option<(Arc<Published>, Missed)> {
        let event = self.waiting.pop_front()?;
        self.bytes -= event.json.len();
        self.clear_when_empty();
        Some((event, self.missed))
    }

    /// Events of this type were lost before they came here; of any type that is subscribed to where it is not known.
    pub(super) fn miss(&mut self, kind: Option<Kind>, count: u64) {
        if kind.map_or(!self.kinds.is_empty(), |kind| self.kinds.contains(kind)) {
            self.missed.add(kind, count);
        }
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.crowded.is_some()
    }

    /// How much longer a source that can wait so long should, so that nothing is lost. Who takes all of it in that time is
    /// waited for, who does not is not until it has.
    pub(super) fn crowded_for(&self, patience: Duration) -> Option<Duration> {
        patience.checked_sub(self.crowded?.elapsed()).filter(|left| !left.is_zero())
    }

    /// Drops the oldest event of the type that has the most of what is scarce.
    fn lose(&mut self, size: impl Fn(&Published) -> usize) {
        let mut held = [0; Kind::COUNT];
        for event in &self.waiting {
            held[event.kind as usize] += size(event);
        }
        let most = Kind::ALL.into_iter().max_by_key(|kind| held[*kind as usize]);
        let oldest = self.waiting.iter().position(|event| Some(event.kind) == most);
        if let Some(event) = oldest.and_then(|at| self.waiting.remove(at)) {
            self.bytes -= event.json.len();
            self.missed.add(Some(event.kind), 1);
        }
    }

    fn clear_when_empty(&mut self) {
        if self.waiting.is_empty() {
            self.crowded = None;
        }
    }
}
