//! What is sent to use a tool of the MCP server? What its REST twin takes, as far as a model needs it (wire.md 15).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::screenshot::Shown;

/// `list_computers`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListComputers {
    /// Only those with this status: running, stopped, suspended, starting, stopping, suspending or error.
    #[serde(default)]
    pub status: Option<String>,
    /// Only those whose name holds this text, whatever the case.
    #[serde(default)]
    pub name: Option<String>,
    /// After so many; the next_offset of the page before.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// A tool that takes a computer alone.
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
    /// jpeg (default), png or webp. A large png or webp may come smaller than the screen: then quote its frame in click.
    #[serde(default)]
    pub format: Option<String>,
    /// Factor on both sides, above 0 and at most 1 (default).
    #[serde(default)]
    pub scale: Option<f64>,
    /// Only this part of the screen: x,y,width,height in screen pixels.
    #[serde(default)]
    pub region: Option<String>,
    /// Screen id; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `click`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ClickAt {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Pixels from the left edge.
    pub x: f64,
    /// Pixels from the top edge.
    pub y: f64,
    /// left (default), right, middle, back or forward.
    #[serde(default)]
    pub button: Option<String>,
    /// Two clicks instead of one.
    #[serde(default)]
    pub double: Option<bool>,
    /// Held meanwhile: ctrl, shift, alt, super.
    #[serde(default)]
    pub modifiers: Option<Vec<String>>,
    /// The frame of the screenshot that x and y were read from: they are its pixels, whatever its scale and region. Screen
    /// pixels when absent.
    #[serde(default)]
    pub frame: Option<String>,
    /// Screen id; the boot screen when absent.
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
    /// Screen id; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `key`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PressKey {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// A key, or several held together: Enter, Page_Up, ctrl+c, ctrl+shift+Tab.
    pub key: String,
    /// How often, 1 (default) to 100.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// Screen id; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `bash`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct RunBash {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// What bash runs.
    pub command: String,
    /// Seconds after which it is killed with all that it started; 200 when absent, at most 300.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// The folder it starts in; the home folder when absent.
    #[serde(default)]
    pub cwd: Option<String>,
}

/// What `bash` came to.
#[derive(Clone, Debug, Serialize)]
pub struct BashRan {
    /// False when it had to be killed at its time-out.
    pub success: bool,
    /// The shell's exit code.
    pub exit_code: i32,
    /// Both streams in the order in which they were written; the middle is left out when it is long.
    pub output: String,
    /// How many bytes were left out.
    pub omitted_bytes: u64,
    /// True when it was killed at its time-out.
    pub timeout: bool,
}

/// What a screenshot shows, beside its image.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// image/jpeg, image/png or image/webp.
    pub mime_type: String,
    /// Its name, its scale, its screen.
    #[serde(flatten)]
    pub shown: Shown,
}
