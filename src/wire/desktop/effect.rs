//! Results of actions: what was done, what could be observed, and the settled screen if it was requested.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::desktop::screenshot::{ScreenshotBase64, ScreenshotQuery};
use crate::field;
use hotdesk_domain::desktop::area;
use hotdesk_domain::limits::{self, DEFAULT_WATCH_MS, MAX_WAIT_SECONDS};

/// A rectangle of a screen, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Area {
    /// Distance from the left edge of the screen, in pixels.
    pub x: i32,
    /// Distance from the top edge of the screen, in pixels.
    pub y: i32,
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
}

impl From<area::Area> for Area {
    fn from(area: area::Area) -> Self {
        Self { x: area.x, y: area.y, width: area.width, height: area.height }
    }
}

impl From<Area> for area::Area {
    fn from(area: Area) -> Self {
        Self { x: area.x, y: area.y, width: area.width, height: area.height }
    }
}

/// Conditions of a wait until the screen stops changing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// Time without a change in milliseconds, 10 to 10,000; 250 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 10_000)]
    pub quiet_ms: Option<u32>,
    /// Time in milliseconds, 10 to 10,000, after which the wait ends if nothing has changed since the action; `quiet_ms`
    /// when absent or longer. Programs react later to clicks and keys than to moves of the pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 10_000)]
    pub unchanged_ms: Option<u32>,
    /// Timeout in milliseconds, at most 60,000; 5,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60_000)]
    pub timeout_ms: Option<u32>,
    /// Only changes that overlap this part of the screen count.
    #[serde(default, deserialize_with = "field::or_null", skip_serializing_if = "Option::is_none")]
    pub region: Option<Area>,
    /// Changes of at most this number of pixels are ignored, for example a blinking caret (about 40) or a
    /// panel's clock (about 2,000). 100 when absent; 0 ignores nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_pixels: Option<u32>,
    /// Options for a screenshot at the end, which is part of the answer; no screenshot when absent.
    #[serde(default, deserialize_with = "field::or_null", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotQuery>,
}

impl Settle {
    /// Returns how long the wait takes at most.
    pub fn duration(&self) -> Duration {
        watch_duration(self.timeout_ms)
    }
}

/// Returns how long a wait for the screen with this timeout takes at most.
pub(super) fn watch_duration(timeout_ms: Option<u32>) -> Duration {
    limits::bounded_seconds(f64::from(timeout_ms.unwrap_or(DEFAULT_WATCH_MS)) / 1000.0, MAX_WAIT_SECONDS)
}

/// Options that every action accepts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Options {
    /// Wait after the action until the screen stops changing, and return what changed.
    #[serde(default, deserialize_with = "field::or_null", skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
    /// `frame` of the screenshot from which the coordinates were read: they are its pixels, for any scale and
    /// region. Without it, coordinates are screen pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// True to refuse the action with 409 `stale_frame` when the screen changed within 8 pixels of its target
    /// since that frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse_stale: Option<bool>,
}

/// Result of a wait for the screen.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Watched)]
pub struct ScreenObservation {
    /// True when the condition was reached; false at the timeout.
    pub reached: bool,
    /// Duration of the wait in milliseconds.
    pub waited_ms: u64,
    /// Rectangles that together contain all changes, including ignored ones.
    pub changed: Vec<Area>,
}

/// Id and title of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WindowName {
    /// X id, for example `0x1400003`.
    pub id: String,
    /// Title, if it has one.
    pub title: Option<String>,
}

/// Observed effect of an action until its answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Effect {
    /// Window with the keyboard focus before the action; null when there was none.
    pub window_before: Option<WindowName>,
    /// Window with the keyboard focus after the action.
    pub window_after: Option<WindowName>,
    /// Rectangles that together contain all changes.
    pub changed: Vec<Area>,
    /// Duration of the observation in milliseconds. Programs need time to react; use `settle` to wait for
    /// them.
    #[serde(serialize_with = "field::number")]
    pub observed_ms: f64,
    /// True when nothing changed, so that the action had no visible effect. Present when the screen was
    /// observed until it stopped changing, or for long enough that programs can react.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_visible_change: Option<bool>,
}

/// The result of an action.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ActionResult {
    /// True when the input was delivered to the X server.
    pub success: bool,
    /// `click`, `double_click`, `triple_click`, `move`, `mouse_down`, `mouse_up`, `drag`, `scroll`, `type`,
    /// `key_press`, `key_down`, `key_up`, `wait`, `wait_stable`, `wait_change`, `screenshot`, `zoom` or
    /// `cursor_position`.
    pub action: String,
    /// Values of the action, with the names of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Value>,
    /// Observed effect; absent for actions that only observe or wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Result of the requested wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<ScreenObservation>,
    /// Screenshot at the end, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotBase64>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::desktop::action::{Click, WaitChange};

    #[test]
    fn arrays_are_refused_for_objects() {
        let area = json!({"x": 1, "y": 2, "width": 3, "height": 4});
        let click = |settle: Value| json!({"x": 0, "y": 0, "settle": settle});
        let read = |body: Value| serde_json::from_value::<Click>(body).map(|click| click.options.settle);
        let settle = read(click(json!({"quiet_ms": 10, "region": area, "screenshot": {}}))).unwrap().unwrap();
        assert_eq!(settle.region, Some(Area { x: 1, y: 2, width: 3, height: 4 }));
        assert!(settle.screenshot.is_some());
        assert!(read(click(Value::Null)).unwrap().is_none());
        assert!(read(click(json!({"region": null}))).unwrap().unwrap().region.is_none());
        let list = json!([1, 2, 3, 4]);
        for bad in
            [json!([10, 20, null, null, null]), json!({"region": list}), json!({"screenshot": []}), json!(7)]
        {
            let error = read(click(bad.clone())).unwrap_err().to_string();
            assert!(error.contains("expected an object"), "{bad}: {error}");
        }
        assert!(serde_json::from_value::<WaitChange>(json!({"region": list})).is_err());
    }
}
