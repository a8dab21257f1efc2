//! Windows of a screen.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A window that the window manager of the screen manages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// X id, for example `0x1400003`; it does not change while the window exists.
    pub id: String,
    /// Title of the window.
    pub title: String,
    /// Class of the program, for example `XTerm` or `Chromium`.
    pub class: String,
    /// Instance name of the program, for example `xterm` or `chromium`.
    pub instance: String,
    /// Process id of its program, if it is known.
    pub pid: Option<u32>,
    /// Id of the screen.
    pub screen: String,
    /// Left edge of the content without the frame, in screen pixels; negative when it is outside of the
    /// screen.
    pub x: i32,
    /// Top edge of the content without the title bar, in screen pixels.
    pub y: i32,
    /// Width of the content, in pixels.
    pub width: u32,
    /// Height of the content, in pixels.
    pub height: u32,
    /// Frame that the window manager draws around the content.
    pub frame: Frame,
    /// True for the window with the keyboard focus.
    pub focused: bool,
    /// True when it is minimized.
    pub minimized: bool,
    /// True when it is maximized in both directions.
    pub maximized: bool,
    /// True when it fills the screen without a frame.
    pub fullscreen: bool,
    /// Number of its workspace in the window manager, from 0; null when it is on all of them.
    pub desktop: Option<u32>,
    /// `normal`, `dialog`, `dock` (a panel), `desktop` (the background), `splash`, `utility`, `menu`,
    /// `toolbar`, `notification` or `other`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Width of a window's frame on each side, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Frame {
    /// Width of the left side, in pixels.
    pub left: u32,
    /// Width of the right side, in pixels.
    pub right: u32,
    /// Height of the top with the title bar, in pixels.
    pub top: u32,
    /// Height of the bottom, in pixels.
    pub bottom: u32,
}

/// `GET windows`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WindowList {
    /// Windows, topmost first.
    pub windows: Vec<Window>,
}

/// `PATCH windows/{window_id}`: position and size of the content, as in `Window`. Absent fields are
/// unchanged; at least one is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 0, "y": 0, "width": 800, "height": 600}))]
#[serde(deny_unknown_fields)]
pub struct WindowPlace {
    /// Distance from the left edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -16384, maximum = 16384)]
    pub x: Option<i32>,
    /// Distance from the top edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -16384, maximum = 16384)]
    pub y: Option<i32>,
    /// Width, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16384)]
    pub width: Option<u32>,
    /// Height, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16384)]
    pub height: Option<u32>,
}

/// `POST windows/{window_id}/close`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"force": false}))]
#[serde(deny_unknown_fields)]
pub struct CloseWindow {
    /// True to disconnect the window's program from the display, which closes all its windows and loses
    /// unsaved data. Otherwise the window is asked to close.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// The answer to a close request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WindowClosed {
    /// False when the window still exists after two seconds, for example because its program asks whether to
    /// save.
    pub closed: bool,
}
