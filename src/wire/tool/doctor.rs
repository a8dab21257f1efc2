//! Arguments and result of the tool that examines the service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `doctor`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Examination {
    /// Also this computer: its id or instance_id. Its agent is asked if it runs.
    #[serde(default)]
    pub computer_id: Option<String>,
}

/// Result of `doctor`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ServiceReport {
    /// True when there are no problems.
    pub healthy: bool,
    /// Version of the service.
    pub version: String,
    /// What this connection or key reaches: workspace (one), or account (all of it).
    pub reach: String,
    /// Number of workspaces that it reaches.
    pub workspaces: u64,
    /// Number of their computers.
    pub computers: u64,
    /// Number of those that run.
    pub running: u64,
    /// The examined computer, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computer: Option<ComputerReport>,
    /// What is wrong, and what to do; at most 50 entries.
    pub problems: Vec<String>,
}

/// State of one computer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ComputerReport {
    /// Id of the computer.
    pub id: String,
    /// Its status.
    pub status: String,
    /// Version of its agent; absent when it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Time until its agent answered, in milliseconds; absent when it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_ms: Option<u64>,
}
