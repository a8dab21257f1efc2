//! What is a file on the wire? (wire.md 9)

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A file's record.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// UUID.
    pub id: String,
    /// Its base name.
    pub filename: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Media type.
    pub content_type: String,
    /// `upload` or `export`.
    pub source: String,
    /// ISO 8601.
    pub created_at: String,
}

/// What became of an upload on one computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// The computer.
    pub computer_id: String,
    /// `created`; `exists` when a file of that name was there and was left alone; `failed`, then it is tried again
    /// at the next start.
    pub outcome: String,
    /// Where the file is on the computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /files/upload`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Uploaded {
    /// The stored file.
    pub file: File,
    /// What became of it on each computer that was running.
    pub deliveries: Vec<Delivery>,
}

/// `POST /files/upload`'s form.
#[derive(Clone, Debug, ToSchema)]
pub struct UploadForm {
    /// The file, at most 10 MB, with its filename.
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    pub file: String,
    /// The workspace (also `workspaceId`, `workspace_id`, `project_id`).
    #[schema(rename = "projectId")]
    pub project_id: String,
    /// Only this computer (also `computerId`, `computer_id`).
    #[schema(rename = "desktopId")]
    pub desktop_id: Option<String>,
}

/// `GET /files`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// Newest first.
    pub files: Vec<File>,
}

/// The query of `GET /files`; one name of the workspace is needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FilesQuery {
    /// The workspace.
    #[serde(
        default,
        rename = "projectId",
        alias = "workspaceId",
        alias = "workspace_id",
        alias = "project_id"
    )]
    pub project_id: Option<String>,
    /// Only files for or from this computer.
    #[serde(
        default,
        rename = "desktopId",
        alias = "computerId",
        alias = "computer_id",
        alias = "desktop_id"
    )]
    pub desktop_id: Option<String>,
}

/// `?id=` of download and delete.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FileQuery {
    /// The file's UUID.
    pub id: String,
}

/// `POST /files/export`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"desktopId": "00000000-0000-4000-8000-000000000000", "path": "/root/Desktop/a.txt"}))]
pub struct Export {
    /// The computer: UUID or instance id.
    #[serde(rename = "desktopId", alias = "computerId", alias = "computer_id", alias = "desktop_id")]
    pub desktop_id: String,
    /// Relative to the home folder, absolute, or `~/`; below `/root` or `/home/user`.
    pub path: String,
}

/// `POST /files/export`'s answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Exported {
    /// Always true.
    pub success: bool,
    /// The stored copy.
    pub file: File,
    /// Where it can be fetched for an hour, without a key.
    pub url: String,
}

/// `GET /files/download`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Download {
    /// Where the file can be fetched for an hour, without a key.
    pub url: String,
}
