//! What is sent to act on a desktop? The bodies of wire.md section 6, the same for the controller and the agent.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `?screen=` of every action.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScreenQuery {
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "default")]
    pub screen: Option<String>,
}

/// `GET screenshot`'s query (wire.md 6.1).
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScreenshotQuery {
    /// `url` (default), `base64` or `binary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(url|base64|binary)$")]
    pub response_format: Option<String>,
    /// `png` (default) or `jpeg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(png|jpeg)$")]
    pub format: Option<String>,
    /// JPEG quality, 1 to 100; 80 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 100)]
    pub quality: Option<u8>,
    /// Factor on both sides, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(exclusive_minimum = 0, maximum = 1)]
    pub scale: Option<f64>,
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// `POST click`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Click {
    /// Pixels from the left edge.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Pixels from the top edge.
    #[schema(minimum = 0)]
    pub y: f64,
    /// `left` (default), `right` or `middle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle)$")]
    pub button: Option<String>,
    /// Two clicks instead of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double: Option<bool>,
}

/// `POST move`: moves the pointer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Move {
    /// Pixels from the left edge.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Pixels from the top edge.
    #[schema(minimum = 0)]
    pub y: f64,
}

/// `POST drag`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Drag {
    /// Where the button goes down.
    pub start_x: f64,
    /// Where the button goes down.
    pub start_y: f64,
    /// Where it comes up.
    pub end_x: f64,
    /// Where it comes up.
    pub end_y: f64,
    /// `left` (default), `right` or `middle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle)$")]
    pub button: Option<String>,
    /// Seconds that the movement takes; 0.5 when absent, at most 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub duration: Option<f64>,
}

/// `POST scroll`. Without `x` and `y` it scrolls where the pointer is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Scroll {
    /// `up`, `down`, `left` or `right`.
    #[schema(pattern = "^(up|down|left|right)$")]
    pub direction: String,
    /// Wheel steps; 3 when absent, 1 to 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    pub amount: Option<u32>,
    /// Pixels from the left edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Pixels from the top edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
}

/// `POST type`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Type {
    /// Any Unicode text; `\n` is Enter and `\t` is Tab.
    pub text: String,
}

/// `POST key`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// A key name, or several joined by `+`: `Enter`, `ctrl+c`, `Page_Up`, `ctrl+shift+Tab`.
    pub key: String,
}

/// `POST wait`. One of the two fields is needed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Wait {
    /// Seconds to wait, 0 to 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60)]
    pub seconds: Option<f64>,
    /// Older name of `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
}

/// The result of pointer, keyboard and wait actions.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActionResult {
    /// True when the input was delivered to the X server.
    pub success: bool,
    /// `click`, `double_click`, `move`, `drag`, `scroll`, `type`, `key_press` or `wait`.
    pub action: String,
    /// What was done, in the request's terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Value>,
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
