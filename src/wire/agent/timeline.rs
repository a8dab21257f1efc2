//! Timeline of an agent: the newest actions on its screens, for the controller.

use serde::{Deserialize, Serialize};

use crate::desktop::action::timeline::ActionRecord;

/// The query of `GET /timeline` of an agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuestTimelineQuery {
    /// `series` of the last answer. All entries are new in another series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Number of the last entry that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Longest wait for the end and the pictures of actions that have begun, in seconds, at most 5; no wait
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u32>,
}

/// `GET /timeline` of an agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuestTimeline {
    /// Random name of the series of numbers. A start of the agent and a renewal of its identity begin another
    /// one.
    pub series: String,
    /// Entries after the known one, in the order of their numbers. Missing numbers are lost entries.
    pub entries: Vec<GuestTimelineEntry>,
    /// Whether more entries wait.
    pub more: bool,
    /// Number of actions that have begun and have no entry yet.
    pub in_progress: u32,
}

/// An entry of an agent's timeline.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuestTimelineEntry {
    /// Number in the series, from 1.
    pub number: u64,
    /// Milliseconds since the start of the action: an age, because the clock of a guest may be wrong.
    pub age_ms: u64,
    /// Who acted, as the controller named it, for example `key:<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The action.
    pub record: ActionRecord,
    /// Thumbnail of the screen before the action: JPEG in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Thumbnail of the screen after the action: JPEG in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
