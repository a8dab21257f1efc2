//! Workspaces (docs/api/workspaces.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::computer::Computer;

/// A workspace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    /// Id of the workspace, a UUID.
    pub id: String,
    /// Name, unique per account ignoring case.
    pub name: String,
    /// Id of the account that owns it.
    pub user_id: String,
    /// `active` or `inactive`.
    pub status: String,
    /// URL of its icon.
    pub icon_url: Option<String>,
    /// Whether viewers may read the files of its computers. By default files are for members.
    pub viewers_read_files: bool,
    /// Isolation of its new computers: `sandbox`, `shared` or `vm`; null: the default of the service.
    pub isolation: Option<String>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last change, ISO 8601.
    pub updated_at: String,
    /// Role of the caller.
    pub role: String,
    /// Number of members.
    pub member_count: u32,
    /// Number of computers.
    pub computer_count: u32,
    /// Its computers, without their passwords.
    pub desktops: Vec<Computer>,
}

/// `GET /workspaces`. The list has two names, because clients read both.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceList {
    /// Workspaces that the key can access, oldest first.
    pub workspaces: Vec<Workspace>,
    /// The same list under its older name.
    pub projects: Vec<Workspace>,
}

/// `POST /workspaces`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "production"}))]
#[serde(deny_unknown_fields)]
pub struct CreateWorkspace {
    /// Name, 1 to 255 characters after trimming.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// URL of its icon: http or https.
    #[serde(default)]
    #[schema(pattern = "^https?://", max_length = 2048)]
    pub icon_url: Option<String>,
    /// `active` (default) or `inactive`.
    #[serde(default)]
    #[schema(pattern = "^(active|inactive)$")]
    pub status: Option<String>,
}

/// `PATCH /workspaces/{id}`. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "staging"}))]
#[serde(deny_unknown_fields)]
pub struct UpdateWorkspace {
    /// The new name.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// URL of the new icon; an empty string removes it.
    #[serde(default)]
    #[schema(pattern = "^(https?://.*)?$", max_length = 2048)]
    pub icon_url: Option<String>,
    /// `active` or `inactive`.
    #[serde(default)]
    #[schema(pattern = "^(active|inactive)$")]
    pub status: Option<String>,
    /// Whether viewers may read the files of its computers.
    #[serde(default)]
    pub viewers_read_files: Option<bool>,
    /// Isolation of its new computers: `sandbox`, `shared` or `vm`; an empty string removes it.
    #[serde(default)]
    #[schema(pattern = "^(sandbox|shared|vm)?$")]
    pub isolation: Option<String>,
}

/// The answer to start, stop and restart of all computers of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceTransition {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// Every computer of the workspace with its status at the time of the answer.
    pub computers: Vec<ComputerStatus>,
}

/// One computer's status.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerStatus {
    /// Id of the computer, a UUID.
    pub id: String,
    /// Name of the computer.
    pub name: String,
    /// Status, as in `Computer`.
    pub status: String,
}
