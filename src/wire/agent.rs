//! What do the controller and an agent say to each other beyond the public actions?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /health` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` once the boot screen has a window manager, else `starting`.
    pub status: String,
    /// The agent's version.
    pub version: String,
    /// Milliseconds since the agent started.
    pub uptime_ms: u64,
    /// Screens that exist.
    pub screens: u32,
    /// Logical processors that the computer sees.
    pub cpu_count: u32,
    /// Memory in bytes.
    pub memory_total_bytes: u64,
    /// Memory in use, in bytes.
    pub memory_used_bytes: u64,
}

/// What became of a file put on the desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PutOutcome {
    /// It is there now.
    Created,
    /// A file of that name was there already and was left alone (interface.md "Files" rule 4).
    Exists,
}

/// `PUT /files/desktop/{filename}` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PutResult {
    /// Where the file is, for example `/root/Desktop/report.pdf`.
    pub path: String,
    /// What became of it.
    pub outcome: PutOutcome,
}
