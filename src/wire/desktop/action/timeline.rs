//! Timelines of the screens of computers: who did what, with what effect (docs/api/timeline.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::control::ActorName;
use crate::desktop::effect::{Area, WindowName};
use crate::field;

/// Record of an action on a screen. It never contains typed text, character keys or values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionRecord {
    /// Duration until the answer, in seconds.
    #[serde(serialize_with = "field::number")]
    pub took: f64,
    /// Id of the screen.
    pub screen: String,
    /// Name of the action in a batch, for example `click`; `element_click`, `element_set_value` or
    /// `element_focus` for an action on an element. Of a viewer's input also `set_clipboard` for a content that it
    /// brought, and `not_recorded` for what was not recorded.
    pub action: String,
    /// `vnc` for the input of a viewer; absent for actions of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// X position in screen pixels; the start of a drag.
    #[serde(serialize_with = "field::number_or_null", default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Y position in screen pixels; the start of a drag.
    #[serde(serialize_with = "field::number_or_null", default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// X position of the end of a drag.
    #[serde(serialize_with = "field::number_or_null", default, skip_serializing_if = "Option::is_none")]
    pub end_x: Option<f64>,
    /// Y position of the end of a drag.
    #[serde(serialize_with = "field::number_or_null", default, skip_serializing_if = "Option::is_none")]
    pub end_y: Option<f64>,
    /// Pointer button, if the action has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub button: Option<String>,
    /// Number of clicks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u8>,
    /// Direction of a scroll action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Number of scroll steps.
    #[serde(serialize_with = "field::number_or_null", default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<f64>,
    /// Number of typed characters, or of characters for the clipboard; never the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters: Option<u64>,
    /// Pressed keys; `*` replaces a key that types a character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// Number of presses of buttons and keys, and contents of the clipboard, that were not recorded; absent
    /// when they cannot be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<u64>,
    /// Whether it succeeded.
    pub success: bool,
    /// HTTP status of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Code of its error, if it has one; `unanswered` when the client left before the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Window with the keyboard focus after the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_after: Option<WindowName>,
    /// Rectangles that changed until the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Area>,
    /// True when the screen was observed long enough and nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_visible_change: Option<bool>,
}

/// Who acted, as the reader may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineActor {
    /// Kind and id.
    #[serde(flatten)]
    pub actor: ActorName,
    /// Name of the key or of the MCP client, e-mail address of the person, or title of the thread. Absent
    /// when it was removed, and for keys and clients of other accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An action on a screen of a computer. What it says comes from the computer, whose root can invent it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScreenTimelineEntry {
    /// Id of the entry.
    pub id: String,
    /// Start of the action, ISO 8601.
    pub at: String,
    /// Who acted; null when nobody was named.
    pub by: Option<TimelineActor>,
    /// The action.
    #[serde(flatten)]
    pub record: ActionRecord,
    /// Whether there is a picture of the screen before the action.
    pub before: bool,
    /// Whether there is a picture of the screen after the action.
    pub after: bool,
    /// Number of entries that were lost before this one, because they came faster than they were fetched;
    /// absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_before: Option<u64>,
    /// The newest snapshot with memory from before the action, to which `go_back` rolls back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
}

/// Filter of a timeline.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScreenTimelineFilter {
    /// Only actions on this screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Only actions by this actor, `<kind>:<id>`, or by this kind of actor: `key`, `person`, `connection`,
    /// `thread`, `password` or `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^((key|person|connection)(:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?\
        |thread(:thr_[0-9a-f]{32})?|password|template)$")]
    pub by: Option<String>,
    /// Only actions at or after this time; ISO 8601 with a time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(format = DateTime)]
    pub from: Option<String>,
    /// Only actions at or before this time; ISO 8601 with a time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(format = DateTime)]
    pub to: Option<String>,
}

/// Page of a timeline, besides its filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScreenTimelinePaging {
    /// `next_cursor` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[0-9]{1,18}$")]
    pub cursor: Option<String>,
    /// Largest number of entries, 1 to 200; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<u32>,
}

/// `GET timeline`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenTimelinePage {
    /// Entries, newest first.
    pub entries: Vec<ScreenTimelineEntry>,
    /// Cursor of the next page; null on the last.
    pub next_cursor: Option<String>,
}

/// A line of `GET timeline/export`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TimelineExportLine {
    /// The entry.
    #[serde(flatten)]
    pub entry: ScreenTimelineEntry,
    /// The picture before the action: JPEG in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_jpeg: Option<String>,
    /// The picture after the action: JPEG in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_jpeg: Option<String>,
}

/// The answer to `POST timeline/{entry_id}/go_back`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WentBack {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// Status of the computer at the time of the answer.
    pub status: String,
    /// The restored snapshot.
    pub snapshot_id: String,
    /// Number of entries between the snapshot and the entry: their actions are undone too.
    pub entries_between: i64,
}
