//! Arguments and results of the tools that see and act on a screen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::desktop::screenshot::ScreenshotFrame;

/// `screenshot`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Screenshot {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// jpeg (default), png or webp. A large png or webp may be smaller than the screen: then pass its frame
    /// to click.
    #[serde(default)]
    pub format: Option<String>,
    /// Scale factor for width and height, above 0 and at most 1 (default).
    #[serde(default)]
    pub scale: Option<f64>,
    /// Only this part of the screen: x,y,width,height in screen pixels.
    #[serde(default)]
    pub region: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// Metadata of a screenshot.
#[derive(Clone, Debug, Serialize)]
pub struct ScreenshotInfo {
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
    /// image/jpeg, image/png or image/webp.
    pub mime_type: String,
    /// Frame, scale and screen.
    #[serde(flatten)]
    pub shown: ScreenshotFrame,
}

/// `click`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ClickAt {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Distance from the left edge of the screen, in pixels.
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    pub y: f64,
    /// left (default), right, middle, back or forward.
    #[serde(default)]
    pub button: Option<String>,
    /// True for a double click.
    #[serde(default)]
    pub double: Option<bool>,
    /// Modifier keys to hold during the click: ctrl, shift, alt, super.
    #[serde(default)]
    pub modifiers: Option<Vec<String>>,
    /// Frame of the screenshot from which x and y were read: they are its pixels, for any scale and region.
    /// When absent, x and y are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `move`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct MoveTo {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Distance from the left edge of the screen, in pixels.
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    pub y: f64,
    /// Frame of the screenshot from which the coordinates were read: they are its pixels, for any scale and
    /// region. When absent, they are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `drag`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct DragBetween {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// X of the start point, in pixels.
    pub start_x: f64,
    /// Y of the start point, in pixels.
    pub start_y: f64,
    /// X of the end point, in pixels.
    pub end_x: f64,
    /// Y of the end point, in pixels.
    pub end_y: f64,
    /// left (default), right, middle, back or forward.
    #[serde(default)]
    pub button: Option<String>,
    /// Duration of the movement in seconds, at most 30; 0.5 when absent.
    #[serde(default)]
    pub duration: Option<f64>,
    /// Modifier keys to hold during the drag: ctrl, shift, alt, super.
    #[serde(default)]
    pub modifiers: Option<Vec<String>>,
    /// Frame of the screenshot from which the coordinates were read: they are its pixels, for any scale and
    /// region. When absent, they are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `scroll`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ScrollBy {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// up, down, left or right.
    pub direction: String,
    /// Number of wheel steps, at most 500; 3 when absent.
    #[serde(default)]
    pub amount: Option<f64>,
    /// X of the point at which to scroll, in pixels; the pointer's when absent.
    #[serde(default)]
    pub x: Option<f64>,
    /// Y of the point at which to scroll, in pixels; the pointer's when absent.
    #[serde(default)]
    pub y: Option<f64>,
    /// Modifier keys to hold during the scroll: ctrl, shift, alt, super.
    #[serde(default)]
    pub modifiers: Option<Vec<String>>,
    /// Frame of the screenshot from which the coordinates were read: they are its pixels, for any scale and
    /// region. When absent, they are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `wait`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct WaitFor {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Time to wait in seconds, at most 60.
    pub seconds: f64,
}

/// `type`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct TypeText {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Any text; a line break is Enter, a tab is Tab. {{secret:NAME}} types the value of a stored secret,
    /// which you do not need to know.
    pub text: String,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `key`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PressKey {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// A key or a combination: Enter, Page_Up, ctrl+c, ctrl+shift+Tab.
    pub key: String,
    /// Number of presses, 1 (default) to 100.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}
