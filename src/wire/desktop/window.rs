//! What is said about the windows of a screen?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A window that the screen's window manager manages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// Its X id, the same for as long as it exists: `0x1400003`.
    pub id: String,
    /// What its title bar says.
    pub title: String,
    /// The program's class: `XTerm`, `Chromium`.
    pub class: String,
    /// The program's own name for the window: `xterm`, `chromium`.
    pub instance: String,
    /// Process id of its program, where it can be known.
    pub pid: Option<u32>,
    /// Id of its screen.
    pub screen: String,
    /// Pixels from the screen's left edge to the content, without the frame; negative when it reaches beyond.
    pub x: i32,
    /// Pixels from the screen's top edge to the content, without the title bar.
    pub y: i32,
    /// Pixels across of the content.
    pub width: u32,
    /// Pixels down of the content.
    pub height: u32,
    /// What the window manager draws around the content.
    pub frame: Frame,
    /// True for the window that receives keys.
    pub focused: bool,
    /// True when it is iconified.
    pub minimized: bool,
    /// True when it is maximized both ways.
    pub maximized: bool,
    /// True when it fills the screen without a frame.
    pub fullscreen: bool,
    /// Which workspace of the window manager it is on, from 0; null when it is on all.
    pub desktop: Option<u32>,
    /// `normal`, `dialog`, `dock` (a panel), `desktop` (the background), `splash`, `utility`, `menu`, `toolbar`,
    /// `notification` or `other`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Width of a window's frame on each side, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Frame {
    /// At the left.
    pub left: u32,
    /// At the right.
    pub right: u32,
    /// At the top, title bar included.
    pub top: u32,
    /// At the bottom.
    pub bottom: u32,
}

/// `GET windows`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WindowList {
    /// The topmost first.
    pub windows: Vec<Window>,
}

/// `PATCH windows/{window_id}`: the place and size of the content, in the terms of the window's record. What is absent
/// stays; one at least is needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 0, "y": 0, "width": 800, "height": 600}))]
pub struct WindowPlace {
    /// Pixels from the screen's left edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -16384, maximum = 16384)]
    pub x: Option<i32>,
    /// Pixels from the screen's top edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -16384, maximum = 16384)]
    pub y: Option<i32>,
    /// Pixels across.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16384)]
    pub width: Option<u32>,
    /// Pixels down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16384)]
    pub height: Option<u32>,
}

/// `POST windows/{window_id}/close`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"force": false}))]
pub struct CloseWindow {
    /// Ends the connection of the window's program, which loses what is not saved in all its windows. Without it the
    /// window is asked to close.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// What became of a window that was to close.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WindowClosed {
    /// False when it is still there after two seconds: its program may be asking whether to save.
    pub closed: bool,
}
