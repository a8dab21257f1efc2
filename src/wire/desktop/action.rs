//! Bodies and answers of desktop actions, the same for the controller and the agent (docs/api/actions.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::desktop::effect::{Area, Options, Settle};
use crate::desktop::screenshot::ScreenshotQuery;
use crate::object;

/// `?screen=` of every action.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScreenQuery {
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "default")]
    pub screen: Option<String>,
}

/// `POST click`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360}))]
pub struct Click {
    /// Distance from the left edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub y: f64,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// True for a double click.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double: Option<bool>,
    /// Number of clicks, 1 to 3; it takes precedence over `double`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3)]
    pub count: Option<u8>,
    /// Modifier keys to hold during the action: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST move`: moves the pointer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360}))]
pub struct Move {
    /// Distance from the left edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub y: f64,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST mouse_down` and `POST mouse_up`. Without `x` and `y` the position is that of the pointer. Pressed
/// buttons are released when the screen has had no action for a minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360, "button": "left"}))]
pub struct PointerButton {
    /// Distance from the left edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Distance from the top edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST drag`: from a start point to an end point, or along a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"start_x": 10, "start_y": 10, "end_x": 200, "end_y": 120, "duration": 0.1}))]
pub struct Drag {
    /// X of the start point, in pixels; required without `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_x: Option<f64>,
    /// Y of the start point, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_y: Option<f64>,
    /// X of the end point, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_x: Option<f64>,
    /// Y of the end point, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_y: Option<f64>,
    /// Points `[x, y]` of the path in pixels, with start and end; 2 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 2, max_items = 1000)]
    pub path: Option<Vec<[f64; 2]>>,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// Duration of the movement in seconds, at most 30; 0.5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub duration: Option<f64>,
    /// Modifier keys to hold during the action: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST scroll`. Without `x` and `y` the position is that of the pointer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360, "direction": "down", "amount": 3}))]
pub struct Scroll {
    /// `up`, `down`, `left` or `right`.
    #[schema(pattern = "^(up|down|left|right)$")]
    pub direction: String,
    /// Number of wheel steps, above 0 and at most 500; 3 when absent. Fractions accumulate over requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 500)]
    pub amount: Option<f64>,
    /// Distance from the left edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Distance from the top edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// Duration over which the steps are spread, in seconds, at most 30; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub duration: Option<f64>,
    /// Modifier keys to hold during the action: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST type`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"text": "hello"}))]
pub struct Type {
    /// Any Unicode text; `\n` is Enter and `\t` is Tab.
    pub text: String,
    /// `keys` (default): the text is typed. `paste`: the text is pasted with Shift+Insert, for long texts up
    /// to 1 MiB; the clipboard is restored afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(keys|paste)$")]
    pub mode: Option<String>,
    /// True to stop when the keyboard focus moves to another window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_on_focus_change: Option<bool>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST key`, `POST key_down` and `POST key_up`. One of `key` and `keys` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"key": "ctrl+c"}))]
#[schema(as = Key)]
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

/// `POST wait_stable`: waits until the screen stops changing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"quiet_ms": 200, "timeout_ms": 2000}))]
pub struct WaitStable {
    /// Conditions.
    #[serde(flatten)]
    pub settle: Settle,
}

/// `POST wait_change`: waits until the screen changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"timeout_ms": 1000}))]
pub struct WaitChange {
    /// Timeout in milliseconds, at most 60,000; 5,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60_000)]
    pub timeout_ms: Option<u32>,
    /// Only changes that overlap this part of the screen count.
    #[serde(default, deserialize_with = "object::or_null", skip_serializing_if = "Option::is_none")]
    pub region: Option<Area>,
    /// Changes of at most this number of pixels are ignored; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_pixels: Option<u32>,
    /// Options for a screenshot at the end, which is part of the answer; no screenshot when absent.
    #[serde(default, deserialize_with = "object::or_null", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotQuery>,
}

/// `POST wait`. One of the two fields is required.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"seconds": 0.5}))]
pub struct Wait {
    /// Time to wait in seconds, 0 to 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60)]
    pub seconds: Option<f64>,
    /// Older name of `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
}

/// `GET cursor_position`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CursorPosition {
    /// Distance from the left edge of the screen, in pixels.
    pub x: i32,
    /// Distance from the top edge of the screen, in pixels.
    pub y: i32,
    /// Buttons that are down.
    pub buttons: Vec<String>,
    /// Modifiers that are down.
    pub modifiers: Vec<String>,
}

/// A screen of a computer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Screen {
    /// `default`, or `screen-100` to `screen-102`.
    pub id: String,
    /// X display, for example `:99`.
    pub display: String,
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
    /// True for the boot screen.
    pub default: bool,
    /// Port of its VNC server if clients can reach it, else null.
    pub vnc_port: Option<u16>,
    /// Port of its VNC WebSocket if clients can reach it, else null.
    pub ws_port: Option<u16>,
}

/// `GET screens`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenList {
    /// Screens, the boot screen first.
    pub screens: Vec<Screen>,
}

/// `POST screens` and `PATCH screens/{id}`. A new screen has the size of the boot screen unless both fields
/// are present.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"width": 1280, "height": 720}))]
pub struct ScreenSize {
    /// Width, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
}

/// The answer to a successful request without a result: `{success: true}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Done)]
pub struct Acknowledgement {
    /// Always true; a failure has an error body.
    pub success: bool,
}
