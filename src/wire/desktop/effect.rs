//! What does an action answer? Its result, what could be observed of it, and the settled screen if that was asked for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::object;
use super::screenshot::{ScreenshotBase64, ScreenshotQuery};
use hotdesk_domain::area;

/// A part of a screen, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Area {
    /// Pixels from the left edge.
    pub x: i32,
    /// Pixels from the top edge.
    pub y: i32,
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
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

/// Waits until a screen is quiet, instead of sleeping.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Settle {
    /// Milliseconds without a change that count as quiet; 250 when absent, 10 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 10_000)]
    pub quiet_ms: Option<u32>,
    /// Milliseconds after which it is answered anyway; 5,000 when absent, at most 60,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60_000)]
    pub timeout_ms: Option<u32>,
    /// Only changes that touch this part of the screen count.
    #[serde(default, deserialize_with = "object::or_null", skip_serializing_if = "Option::is_none")]
    pub region: Option<Area>,
    /// Changes of at most this many pixels do not count: a blinking caret (about 40), a panel's clock (about 2,000).
    /// 100 when absent; 0 counts everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_pixels: Option<u32>,
    /// With it, the answer holds a screenshot in this form, taken at the end.
    #[serde(default, deserialize_with = "object::or_null", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotQuery>,
}

/// What any action may ask for beside its own fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Options {
    /// Waits after the action until the screen is quiet, and answers with what changed.
    #[serde(default, deserialize_with = "object::or_null", skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
    /// The `frame` of the screenshot that the coordinates were read from: they are its pixels, whatever its scale and
    /// region. Coordinates are screen pixels when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// Refuses the action with 409 `stale_frame` when something was painted within 8 pixels of its target since that frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse_stale: Option<bool>,
}

/// How waiting for the screen ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Watched {
    /// True when what was waited for came; false at the time-out.
    pub reached: bool,
    /// Milliseconds that it took.
    pub waited_ms: u64,
    /// What was painted meanwhile: a few areas that hold all of it, the small ones included.
    pub changed: Vec<Area>,
}

/// A window, as far as an action needs to tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WindowName {
    /// Its id on the screen, for example `0x1400003`.
    pub id: String,
    /// Its title, where it has one.
    pub title: Option<String>,
}

/// What could be observed of an action until it was answered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Effect {
    /// Which window had the keyboard before; null when none had.
    pub window_before: Option<WindowName>,
    /// Which window has it now.
    pub window_after: Option<WindowName>,
    /// What was painted: a few areas that hold all of it.
    pub changed: Vec<Area>,
    /// Milliseconds for which it was observed. Programs need some to react: `settle` observes until they have.
    pub observed_ms: f64,
    /// Present when the screen was observed until it was quiet, or at least as long as programs take: true when nothing
    /// was painted, so that the action had no visible effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_visible_change: Option<bool>,
}

/// The result of an action.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ActionResult {
    /// True when the input was delivered to the X server.
    pub success: bool,
    /// `click`, `double_click`, `triple_click`, `move`, `mouse_down`, `mouse_up`, `drag`, `scroll`, `type`, `key_press`,
    /// `key_down`, `key_up`, `wait`, `wait_stable`, `wait_change`, `screenshot` or `cursor_position`.
    pub action: String,
    /// What was done, in the request's terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Value>,
    /// What could be observed of it; absent for what only looks or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// How the waiting that was asked for ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Watched>,
    /// The screen at the end, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotBase64>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::action::{Click, WaitChange};

    #[test]
    fn objects_are_objects_wherever_they_stand() {
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
