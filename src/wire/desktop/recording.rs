//! Screen recordings and their timelines.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::desktop::action::timeline::ActionRecord;
use crate::field;

/// `POST recordings`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"fps": 10, "max_seconds": 60}))]
#[serde(deny_unknown_fields)]
pub struct StartRecording {
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Frames per second; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 30)]
    pub fps: Option<u32>,
    /// Length after which it stops, in seconds; 600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub max_seconds: Option<u32>,
    /// Whether a timeline of actions is recorded; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<bool>,
}

/// A recording. It survives a restart of the agent. The oldest ended recordings are removed when space is
/// needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    /// Id of the recording, for the routes below `recordings/{id}`.
    pub id: String,
    /// Id of the screen.
    pub screen: String,
    /// `recording`, `stopped` or `failed`. It fails when its encoder ends by itself, for example because the
    /// screen became smaller, or when its agent is killed. The recorded part of a failed recording can be
    /// played.
    pub status: String,
    /// Time of the first frame, ISO 8601.
    pub started_at: String,
    /// End time, ISO 8601; null while it is in progress.
    pub ended_at: Option<String>,
    /// Length in seconds.
    #[serde(serialize_with = "field::number")]
    pub seconds: f64,
    /// Size of video and timeline in bytes.
    pub size_bytes: u64,
    /// Width in pixels: that of the screen at the start, rounded to an even number for H.264.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
    /// Frames per second.
    pub fps: u32,
    /// Whether it has a timeline.
    pub timeline: bool,
    /// Reason of its end: `asked`, `max_seconds`, `quota`, `disk_full`, `screen_deleted`, `encoder_ended`,
    /// `agent_stopped` or `agent_restarted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET recordings`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RecordingList {
    /// Recordings, oldest first.
    pub recordings: Vec<Recording>,
}

/// An entry of a recording's timeline: an action on its screen. It never contains typed text, character keys
/// or values. Window titles and images show what the video shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimelineEntry {
    /// Number, from 1. Missing numbers are entries that were dropped because they came faster than they could
    /// be written.
    pub number: u64,
    /// Start of the action, in seconds from the start of the video.
    #[serde(serialize_with = "field::number")]
    pub at: f64,
    /// The action.
    #[serde(flatten)]
    pub record: ActionRecord,
    /// Thumbnail of the screen before the action: JPEG of at most 160 by 90 pixels, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Thumbnail of the screen shortly after the action, or at the start of the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
