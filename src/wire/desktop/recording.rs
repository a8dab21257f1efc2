//! What is sent to record a screen, and what is told of recordings and of what was done meanwhile?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::effect::{Area, WindowName};

/// `POST recordings`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"fps": 10, "max_seconds": 60}))]
pub struct StartRecording {
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Pictures per second; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 30)]
    pub fps: Option<u32>,
    /// Seconds after which it stops by itself; 600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub max_seconds: Option<u32>,
    /// Whether the actions on the screen are noted meanwhile; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<bool>,
}

/// A recording. It stays when the agent is started again; the oldest that have ended go when room is needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    /// Its handle.
    pub id: String,
    /// The screen that it is of.
    pub screen: String,
    /// `recording`, `stopped`, or `failed`: its encoder ended by itself, as it does when the screen gets smaller, or its
    /// agent was killed. Of one that failed, what there is can be watched as well.
    pub status: String,
    /// ISO 8601: the time of its first picture.
    pub started_at: String,
    /// ISO 8601; null while it goes on.
    pub ended_at: Option<String>,
    /// Seconds between the two, or until now.
    pub seconds: f64,
    /// Bytes of the video and the timeline so far.
    pub size_bytes: u64,
    /// Pixels across: the screen's when it began, made even as H.264 needs it.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Pictures per second.
    pub fps: u32,
    /// Whether it has a timeline.
    pub timeline: bool,
    /// Why it ended: `asked`, `max_seconds`, `quota`, `disk_full`, `screen_deleted`, `encoder_ended`, `agent_stopped` or
    /// `agent_restarted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET recordings`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RecordingList {
    /// Oldest first.
    pub recordings: Vec<Recording>,
}

/// A line of a recording's timeline: an action on its screen. It never holds text, keys that are characters, or values
/// that were typed; titles of windows and pictures show what the video shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimelineEntry {
    /// Its place, from 1; a number that is missing was lost because more came than could be written.
    pub number: u64,
    /// Seconds from the beginning of the video to the beginning of the action.
    pub at: f64,
    /// Seconds until it was answered.
    pub took: f64,
    /// The screen.
    pub screen: String,
    /// The action's name in a list of actions, for example `click`.
    pub action: String,
    /// Where, in pixels of the screen from its left edge; of a drag the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Pixels from the top edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// Where a drag ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_x: Option<f64>,
    /// Where a drag ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_y: Option<f64>,
    /// The button, of pointer actions that name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub button: Option<String>,
    /// How many clicks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u8>,
    /// Where to it was scrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// How many steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<f64>,
    /// How many characters were to be typed; never which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters: Option<u64>,
    /// Which keys were pressed; `*` stands for one that types a character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// Whether it was done.
    pub success: bool,
    /// The status of its refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of its refusal, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Which window had the keyboard after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_after: Option<WindowName>,
    /// What was painted until it was answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Area>,
    /// True when the screen was observed long enough and nothing was painted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_visible_change: Option<bool>,
    /// The screen before it: base64 of a JPEG of at most 160 by 90 pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The screen soon after it, or when the next action began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
