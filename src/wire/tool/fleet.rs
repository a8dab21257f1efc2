//! Arguments and results of the tools for workspaces, computers, screens and snapshots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::computer::Computer;
use crate::identity::workspace::Workspace;

/// Argument of a tool that needs nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NoArguments {}

/// Result of `list_workspaces`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VisibleWorkspaces {
    /// Workspaces that this connection or key reaches, oldest first.
    pub workspaces: Vec<Workspace>,
}

/// Argument of a tool that only needs a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneWorkspace {
    /// Id of the workspace.
    pub workspace_id: String,
}

/// `workspace_by_name`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NamedWorkspace {
    /// Name of the workspace, ignoring case.
    pub name: String,
}

/// `create_workspace`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewWorkspace {
    /// Name, 1 to 255 characters.
    pub name: String,
}

/// `list_computers`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListComputers {
    /// Only computers of this workspace; all that this connection or key reaches when absent.
    #[serde(default)]
    pub workspace_id: Option<String>,
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

/// Result of `list_computers`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ComputerPage {
    /// Computers, oldest first.
    pub computers: Vec<Computer>,
    /// Total number of computers.
    pub total: u64,
    /// The offset of the next page; null on the last.
    pub next_offset: Option<u64>,
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
    /// Id of the workspace; that of the connection or key when it has only one.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Name, 1 to 255 characters, unique in the workspace.
    pub name: String,
    /// Template to launch, namespace/name@version, as in list_templates; the plain desktop when absent.
    #[serde(default)]
    pub template_ref: Option<String>,
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

/// `fork_computer`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ForkOf {
    /// The running computer: its id or instance_id.
    pub computer_id: String,
    /// Name of the fork; derived from the computer's name when absent.
    #[serde(default)]
    pub name: Option<String>,
}

/// `move_computer`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct MoveTarget {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the workspace to move it to.
    pub workspace_id: String,
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

/// `list_snapshots`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListSnapshots {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Number of snapshots to skip: the next_offset of the previous page.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// `create_snapshot`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewSnapshotOf {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Name, 1 to 255 characters; it need not be unique.
    #[serde(default)]
    pub name: Option<String>,
    /// True to include the memory: running programs and windows. Not every computer supports it.
    #[serde(default)]
    pub memory: bool,
}

/// Argument of a tool that only needs a snapshot.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneSnapshot {
    /// The computer of the snapshot: its id or instance_id.
    pub computer_id: String,
    /// Id of the snapshot.
    pub snapshot_id: String,
}

/// `launch_snapshot`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct LaunchSnapshot {
    /// The computer of the snapshot: its id or instance_id. It may be in any state.
    pub computer_id: String,
    /// Id of a snapshot with memory.
    pub snapshot_id: String,
    /// Name of the new computer; derived from the computer's name when absent.
    #[serde(default)]
    pub name: Option<String>,
}
