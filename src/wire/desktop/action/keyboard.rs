//! Bodies of the actions of the keyboard.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::ActionBody;
use super::timeline::ActionRecord;
use crate::desktop::effect::Options;
use hotdesk_domain::limits::{MAX_HOLDS_MS, SLOWEST_TYPING};

/// Most key presses that a duration counts; the agent refuses more.
const MAX_PRESSES: u64 = 10_000;
/// Most keys in a timeline entry; no action has more.
const MAX_RECORDED_KEYS: usize = 100;

/// `POST type`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"text": "hello"}))]
#[serde(deny_unknown_fields)]
pub struct Type {
    /// Any Unicode text; `\n` is Enter and `\t` is Tab. `{{secret:NAME}}` types the value of a secret, and
    /// `{{{{secret:` types the braces.
    pub text: String,
    /// `keys` (default): the text is typed. `paste`: the text is pasted with Shift+Insert, for long texts up
    /// to 1 MiB; the clipboard is restored afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(keys|paste)$")]
    pub mode: Option<String>,
    /// True to stop when the keyboard focus moves to another window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_on_focus_change: Option<bool>,
    /// True when the text is confidential: the answer and the timelines of recordings have neither its length
    /// nor titles of windows, which may show it. Always true for a text with a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidential: Option<bool>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

impl ActionBody for Type {
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn duration(&self) -> Duration {
        let typed = typing(self.text.chars().count() as u64);
        if self.mode.as_deref() == Some("paste") { typed.min(MAX_PASTE) } else { typed }
    }

    fn record(&self, entry: &mut ActionRecord) {
        let is_confidential = self.confidential.unwrap_or(false);
        entry.characters = (!is_confidential).then(|| self.text.chars().count() as u64);
    }
}

/// `POST key`, `POST key_down` and `POST key_up`. One of `key` and `keys` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"key": "ctrl+c"}))]
#[serde(deny_unknown_fields)]
pub struct KeyPress {
    /// A key name, or several joined by `+`: `Enter`, `ctrl+c`, `Page_Up`, `ctrl+shift+Tab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Several keys, pressed one after another; at most 100. Not for `key_down` and `key_up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub keys: Option<Vec<String>>,
    /// Number of times to press the key or the sequence, at most 100; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub repeat: Option<u32>,
    /// Time to hold each key in milliseconds, at most 10,000 and 30,000 in total; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10_000)]
    pub hold_ms: Option<u32>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

impl ActionBody for KeyPress {
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn duration(&self) -> Duration {
        let presses = self.keys.as_ref().map_or(1, Vec::len) as u64 * u64::from(self.repeat.unwrap_or(1));
        let holds = presses.saturating_mul(self.hold_ms.unwrap_or(0).into()).min(MAX_HOLDS_MS);
        // Each press may need a spare key, as a typed character does.
        typing(presses.min(MAX_PRESSES)) + Duration::from_millis(holds)
    }

    fn record(&self, entry: &mut ActionRecord) {
        let keys = self.keys.iter().flatten().chain(&self.key);
        entry.keys = Some(keys.take(MAX_RECORDED_KEYS).cloned().collect());
    }
}

/// Longest duration of a paste: the program takes the text in one piece, and the clipboard is restored.
const MAX_PASTE: Duration = Duration::from_secs(10);

/// Longest duration of typing this number of characters.
fn typing(characters: u64) -> Duration {
    Duration::from_secs_f64(characters as f64 / SLOWEST_TYPING)
}
