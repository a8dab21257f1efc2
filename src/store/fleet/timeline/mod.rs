//! Timelines of computers: actions on their screens, fetched from their agents.
//!
//! Methods that remove entries return the ids of their pictures. The caller removes the blobs; a sweep
//! removes those that a crash leaves.

mod additions;
mod listing;
mod pictures;

#[cfg(test)]
mod fixture;

use uuid::Uuid;

use hotdesk_base::time::UnixMillis;
use hotdesk_domain::identity::access::actor::{Actor, ActorFilter};

/// Bounds of one computer's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineBounds {
    /// Most entries.
    pub entries: i64,
    /// Most bytes, with pictures.
    pub bytes: i64,
}

/// What is stored of an agent's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineCursor {
    /// The agent's series of numbers.
    pub series: String,
    /// The last number of it.
    pub number: u64,
}

/// An entry to store.
#[derive(Clone, Debug)]
pub struct NewTimelineEntry {
    /// Number in the agent's series.
    pub series_number: u64,
    /// Start of the action.
    pub at: UnixMillis,
    /// Who acted.
    pub by: Option<Actor>,
    /// Id of the screen.
    pub screen: String,
    /// The action, as JSON.
    pub record: String,
    /// Blob of the screen before it, and its bytes.
    pub before: Option<(Uuid, i64)>,
    /// Blob of the screen after it, and its bytes.
    pub after: Option<(Uuid, i64)>,
}

/// A stored entry.
#[derive(Clone, Debug)]
pub struct TimelineEntry {
    /// Its number in the computer's timeline; later entries have higher numbers.
    pub number: i64,
    /// Start of the action.
    pub at: UnixMillis,
    /// Number of entries that were lost before it.
    pub lost_before: i64,
    /// Who acted.
    pub by: Option<Actor>,
    /// Blob of the screen before it.
    pub before: Option<Uuid>,
    /// Blob of the screen after it.
    pub after: Option<Uuid>,
    /// The action, as JSON.
    pub record: String,
}

/// Filter of a listing of a computer's timeline.
#[derive(Clone, Debug, Default)]
pub struct TimelineFilter {
    /// Only entries with a smaller number.
    pub before: Option<i64>,
    /// Only entries with a higher number.
    pub after: Option<i64>,
    /// Only entries of this screen.
    pub screen: Option<String>,
    /// Only entries of these actors.
    pub by: Option<ActorFilter>,
    /// Only actions since this time.
    pub from: Option<UnixMillis>,
    /// Only actions up to and including this time.
    pub to: Option<UnixMillis>,
    /// Whether the oldest entries are first.
    pub oldest_first: bool,
    /// Most entries to return.
    pub limit: u32,
}
