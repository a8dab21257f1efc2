//! Arguments of the tools for workspaces, computers and screens.

use schemars::JsonSchema;
use serde::Deserialize;

/// Argument of a tool that needs nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NoArguments {}

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

/// `create_computer`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewComputer {
    /// Name, 1 to 255 characters, unique in the workspace.
    pub name: String,
    /// Number of vCPUs: 0.5, 1 (default), 2, 4, 8 or 16.
    #[serde(default)]
    pub cpu: Option<f64>,
    /// RAM in GB: 4 (default), 8, 16, 32 or 64.
    #[serde(default)]
    pub ram: Option<f64>,
    /// Disk in GB; 8 when absent.
    #[serde(default)]
    pub disk_size_gb: Option<f64>,
    /// The kernel behind its programs: sandbox, shared or vm; the default of the workspace when absent.
    #[serde(default)]
    pub isolation: Option<String>,
    /// Resolution of the boot screen, WIDTHxHEIGHTxDEPTH; 1280x720x24 when absent.
    #[serde(default)]
    pub resolution: Option<String>,
    /// Idle minutes after which it is suspended, 0 (never, default) to 43200.
    #[serde(default)]
    pub auto_stop_minutes: Option<i64>,
}

/// `clone_computer`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct CloneOf {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Name of the clone; derived from the computer's name when absent.
    #[serde(default)]
    pub name: Option<String>,
}

/// `resize_computer`. At least one size is required.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewSize {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Number of vCPUs: 0.5, 1, 2, 4, 8 or 16.
    #[serde(default)]
    pub vcpus: Option<f64>,
    /// RAM in GB: 4, 8, 16 or 32.
    #[serde(default)]
    pub mem_gb: Option<f64>,
    /// Disk in GB; a disk never shrinks.
    #[serde(default)]
    pub disk_size_gb: Option<f64>,
}

/// `create_screen`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewScreen {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Width in pixels; 1280 when width and height are absent.
    #[serde(default)]
    pub width: Option<u32>,
    /// Height in pixels; 720 when width and height are absent.
    #[serde(default)]
    pub height: Option<u32>,
}

/// `delete_screen`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneScreen {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the screen.
    pub screen: String,
}
