//! What is sent to act on a desktop? The bodies of wire.md section 6, the same for the controller and the agent.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::effect::{Area, Options, Settle};
use super::object;
use super::screenshot::ScreenshotQuery;

/// `?screen=` of every action.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScreenQuery {
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "default")]
    pub screen: Option<String>,
}

/// `POST click`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360}))]
pub struct Click {
    /// Pixels from the left edge.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Pixels from the top edge.
    #[schema(minimum = 0)]
    pub y: f64,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// Two clicks instead of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double: Option<bool>,
    /// How many clicks, 1 to 3; wins over `double`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3)]
    pub count: Option<u8>,
    /// Held meanwhile: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Beside it.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST move`: moves the pointer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360}))]
pub struct Move {
    /// Pixels from the left edge.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Pixels from the top edge.
    #[schema(minimum = 0)]
    pub y: f64,
    /// Beside it.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST mouse_down` and `POST mouse_up`. Without `x` and `y` it is done where the pointer is. What is down comes up by
/// itself when the screen has had no action for a minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360, "button": "left"}))]
pub struct PointerButton {
    /// Pixels from the left edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Pixels from the top edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// Beside it.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST drag`: from a start to an end, or along a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"start_x": 10, "start_y": 10, "end_x": 200, "end_y": 120, "duration": 0.1}))]
pub struct Drag {
    /// Where the button goes down; needed unless there is a `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_x: Option<f64>,
    /// Where the button goes down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_y: Option<f64>,
    /// Where it comes up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_x: Option<f64>,
    /// Where it comes up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_y: Option<f64>,
    /// Points `[x, y]` that the pointer passes, the start and the end included; 2 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 2, max_items = 1000)]
    pub path: Option<Vec<[f64; 2]>>,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// Seconds that the movement takes; 0.5 when absent, at most 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub duration: Option<f64>,
    /// Held meanwhile: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Beside it.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST scroll`. Without `x` and `y` it scrolls where the pointer is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360, "direction": "down", "amount": 3}))]
pub struct Scroll {
    /// `up`, `down`, `left` or `right`.
    #[schema(pattern = "^(up|down|left|right)$")]
    pub direction: String,
    /// Wheel steps, above 0 and at most 500; 3 when absent. Fractions add up over requests until they make a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 500)]
    pub amount: Option<f64>,
    /// Pixels from the left edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Pixels from the top edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// Seconds over which the steps are spread, so that what scrolls can be followed; 0 when absent, at most 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub duration: Option<f64>,
    /// Held meanwhile: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Beside it.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST type`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"text": "hello"}))]
pub struct Type {
    /// Any Unicode text; `\n` is Enter and `\t` is Tab.
    pub text: String,
    /// `keys` (default): typed. `paste`: put into the program by its paste key (Shift+Insert); for long texts, up to 1 MiB.
    /// The clipboard gets back what it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(keys|paste)$")]
    pub mode: Option<String>,
    /// Stops when another window gets the keyboard, instead of typing on into that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_on_focus_change: Option<bool>,
    /// Beside it.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST key`, `POST key_down` and `POST key_up`. One of `key` and `keys` is needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"key": "ctrl+c"}))]
pub struct Key {
    /// A key name, or several joined by `+`: `Enter`, `ctrl+c`, `Page_Up`, `ctrl+shift+Tab`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Several, pressed one after another; at most 100. Not for `key_down` and `key_up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub keys: Option<Vec<String>>,
    /// How often the key or the sequence is pressed; once when absent, at most 100 times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub repeat: Option<u32>,
    /// Milliseconds for which each is held; 0 when absent, at most 10,000, and 30,000 in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10_000)]
    pub hold_ms: Option<u32>,
    /// Beside it.
    #[serde(flatten)]
    pub options: Options,
}

/// `POST wait_stable`: waits until the screen is quiet.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"quiet_ms": 200, "timeout_ms": 2000}))]
pub struct WaitStable {
    /// How.
    #[serde(flatten)]
    pub settle: Settle,
}

/// `POST wait_change`: waits until something is painted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"timeout_ms": 1000}))]
pub struct WaitChange {
    /// Milliseconds after which it is answered anyway; 5,000 when absent, at most 60,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60_000)]
    pub timeout_ms: Option<u32>,
    /// Only changes that touch this part of the screen count.
    #[serde(default, deserialize_with = "object::or_null", skip_serializing_if = "Option::is_none")]
    pub region: Option<Area>,
    /// Changes of at most this many pixels do not count; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_pixels: Option<u32>,
    /// With it, the answer holds a screenshot in this form, taken at the end.
    #[serde(default, deserialize_with = "object::or_null", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotQuery>,
}

/// `POST wait`. One of the two fields is needed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"seconds": 0.5}))]
pub struct Wait {
    /// Seconds to wait, 0 to 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60)]
    pub seconds: Option<f64>,
    /// Older name of `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
}

/// A screenshot as base64 (`response_format=base64`, and the agent's default).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenshotBase64 {
    /// Always true.
    pub success: bool,
    /// Raw base64, without a `data:` prefix.
    pub image: String,
    /// `image/png` or `image/jpeg`.
    pub mime_type: String,
    /// Pixels across, after scaling.
    pub width: u32,
    /// Pixels down, after scaling.
    pub height: u32,
}

/// `GET cursor_position`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CursorPosition {
    /// Pixels from the left edge.
    pub x: i32,
    /// Pixels from the top edge.
    pub y: i32,
    /// Buttons that are down.
    pub buttons: Vec<String>,
    /// Modifiers that are down.
    pub modifiers: Vec<String>,
}

/// A screen (wire.md 7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Screen {
    /// `default`, or `screen-100` to `screen-102`.
    pub id: String,
    /// X display, for example `:99`.
    pub display: String,
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// True for the boot screen.
    pub default: bool,
    /// Port of its VNC server where one is reachable, else null.
    pub vnc_port: Option<u16>,
    /// Port of its VNC WebSocket where one is reachable, else null.
    pub ws_port: Option<u16>,
}

/// `GET screens`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenList {
    /// The boot screen first.
    pub screens: Vec<Screen>,
}

/// `POST screens` and `PATCH screens/{id}`. With only one side given, a new screen has the boot screen's size.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"width": 1280, "height": 720}))]
pub struct ScreenSize {
    /// Pixels across.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Pixels down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
}

/// `{success: true}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Always true; a failure is an error body.
    pub success: bool,
}
