//! Screens of a computer: selection, list, size and pointer position.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `?screen=` of every action.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ScreenQuery {
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "default")]
    pub screen: Option<String>,
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

/// `POST screens`. The screen has the size of the boot screen unless both fields are present.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"width": 1280, "height": 720}))]
#[serde(deny_unknown_fields)]
pub struct ScreenSize {
    /// Width, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 64, maximum = 7680)]
    pub width: Option<u32>,
    /// Height, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 64, maximum = 7680)]
    pub height: Option<u32>,
}

/// `PATCH screens/{id}`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"width": 1280, "height": 720}))]
#[serde(deny_unknown_fields)]
pub struct ResizeScreen {
    /// The new width, in pixels.
    #[schema(minimum = 64, maximum = 7680)]
    pub width: u32,
    /// The new height, in pixels.
    #[schema(minimum = 64, maximum = 7680)]
    pub height: u32,
}
