//! What is a workspace on the wire? (wire.md 3)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::computer::Computer;

/// A workspace's record.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    /// UUID.
    pub id: String,
    /// Unique per account, whatever the case.
    pub name: String,
    /// The account that owns it.
    pub user_id: String,
    /// `active` or `inactive`.
    pub status: String,
    /// Where its picture is.
    pub icon_url: Option<String>,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub updated_at: String,
    /// What the caller is in it.
    pub role: String,
    /// How many people belong to it.
    pub member_count: u32,
    /// How many computers it holds.
    pub computer_count: u32,
    /// Its computers, without their passwords.
    pub desktops: Vec<Computer>,
}

/// `GET /workspaces`, under both keys that clients read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceList {
    /// The workspaces available to the key, oldest first.
    pub workspaces: Vec<Workspace>,
    /// The same list under its older name.
    pub projects: Vec<Workspace>,
}

/// `POST /workspaces`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "production"}))]
pub struct CreateWorkspace {
    /// 1 to 255 characters after trimming.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// Where its picture is: an http or https address.
    #[serde(default)]
    pub icon_url: Option<String>,
    /// `active` (default) or `inactive`.
    #[serde(default)]
    pub status: Option<String>,
}

/// `PATCH /workspaces/{id}`. Omitted fields stay.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "staging"}))]
pub struct UpdateWorkspace {
    /// A new name.
    #[serde(default)]
    pub name: Option<String>,
    /// A new picture; an empty string removes it.
    #[serde(default)]
    pub icon_url: Option<String>,
    /// `active` or `inactive`.
    #[serde(default)]
    pub status: Option<String>,
}

/// The answer to start, stop and restart of a whole workspace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceTransition {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// Every computer of the workspace with its status at the time of the answer.
    pub computers: Vec<ComputerStatus>,
}

/// One computer's status.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerStatus {
    /// UUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// As in the computer's record.
    pub status: String,
}
