//! Arguments and results of the MCP tools (docs/api/mcp.md). The docs of the fields are sent to models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::desktop::screenshot::ScreenshotFrame;

/// `list_computers`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListComputers {
    /// Only computers with this status: running, stopped, suspended, starting, stopping, suspending or error.
    #[serde(default)]
    pub status: Option<String>,
    /// Only computers whose name contains this text, ignoring case.
    #[serde(default)]
    pub name: Option<String>,
    /// Number of computers to skip: the next_offset of the previous page.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// Argument of a tool that only needs a computer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneComputer {
    /// The computer: its id or instance_id.
    pub computer_id: String,
}

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

/// `type`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct TypeText {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Any text; a line break is Enter, a tab is Tab.
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

/// `bash`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct RunBash {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Command line for bash.
    pub command: String,
    /// Timeout in seconds, at most 300; 200 when absent. The command and all processes that it started are
    /// then killed.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// Working directory; the home folder when absent.
    #[serde(default)]
    pub cwd: Option<String>,
}

/// Result of `bash`.
#[derive(Clone, Debug, Serialize)]
pub struct BashOutput {
    /// False when the command was killed at the timeout.
    pub success: bool,
    /// Exit code of the shell.
    pub exit_code: i32,
    /// Standard output and standard error in the order in which they were written; the middle is omitted when
    /// it is long.
    pub output: String,
    /// Number of omitted bytes.
    pub omitted_bytes: u64,
    /// True when the command was killed at the timeout.
    pub timeout: bool,
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
