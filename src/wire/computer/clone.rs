//! What are a clone, a fork and a move on the wire? (interface.md "Clone", wire.md 5.2)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /computers/{id}/clone`; the body may be left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "copy"}))]
pub struct CloneComputer {
    /// The clone's name, 1 to 255 characters after trimming, unique in its workspace; made of the source's when absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// The workspace that shall hold it; the source's when absent.
    #[serde(default, rename = "targetProjectId")]
    pub target_project_id: Option<String>,
}

/// `POST /computers/{id}/fork`; the body may be left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "copy"}))]
pub struct ForkComputer {
    /// The fork's name, 1 to 255 characters after trimming, unique in its workspace; made of the source's when absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// The snapshot with memory that the fork goes on from; the source as it is when absent.
    #[serde(default)]
    pub snapshot_id: Option<String>,
}

/// `PATCH /computers/{id}/move`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"workspace_id": "00000000-0000-4000-8000-000000000000"}))]
pub struct MoveComputer {
    /// The workspace that shall hold it (this or `project_id` is needed).
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Older name of `workspace_id`.
    #[serde(default)]
    pub project_id: Option<String>,
}

/// A computer that has moved.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerMoved {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// The workspace that holds it.
    pub workspace_id: String,
    /// Older name of `workspace_id`.
    pub project_id: String,
}
