//! Requests to clone, fork and move a computer (docs/lifecycle.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /computers/{id}/clone`; the body is optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "copy"}))]
#[serde(deny_unknown_fields)]
pub struct CloneComputer {
    /// Name of the clone, 1 to 255 characters after trimming, unique in its workspace; derived from the
    /// source's name when absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Workspace of the clone; that of the source when absent.
    #[serde(default, rename = "targetProjectId")]
    pub target_project_id: Option<String>,
}

/// `POST /computers/{id}/fork`; the body is optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "copy"}))]
#[serde(deny_unknown_fields)]
pub struct ForkComputer {
    /// Name of the fork, 1 to 255 characters after trimming, unique in its workspace; derived from the
    /// source's name when absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Snapshot with memory from which the fork continues; the running source when absent.
    #[serde(default)]
    pub snapshot_id: Option<String>,
}

/// `PATCH /computers/{id}/move`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"workspace_id": "00000000-0000-4000-8000-000000000000"}))]
#[serde(deny_unknown_fields)]
pub struct MoveComputer {
    /// The target workspace; this or `project_id` is required.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Older name of `workspace_id`.
    #[serde(default)]
    pub project_id: Option<String>,
}

/// The answer to a move.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerMoved {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// New workspace of the computer.
    pub workspace_id: String,
    /// Older name of `workspace_id`.
    pub project_id: String,
}
