//! Files of a workspace: upload, list, export and download (docs/api/files.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A stored file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// Id of the file, a UUID.
    pub id: String,
    /// Name of the file, without a folder.
    pub filename: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Media type of the content.
    pub content_type: String,
    /// `upload` or `export`.
    pub source: String,
    /// Time of creation, ISO 8601.
    pub created_at: String,
}

/// Result of copying an upload to one computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// Id of the computer.
    pub computer_id: String,
    /// `created`; `exists` when a file with that name existed and was not changed; `failed`, then the copy is
    /// retried at the next start.
    pub outcome: String,
    /// Path of the file on the computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /files/upload`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Uploaded)]
pub struct UploadResult {
    /// The stored file.
    pub file: File,
    /// Result for each running computer.
    pub deliveries: Vec<Delivery>,
}

/// Form of `POST /files/upload`.
#[derive(Clone, Debug, ToSchema)]
pub struct UploadForm {
    /// The file, at most 10 MB, with its filename.
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    pub file: String,
    /// The workspace (also `workspaceId`, `workspace_id`, `project_id`).
    #[schema(rename = "projectId", min_length = 1)]
    pub project_id: String,
    /// Copy the file only to this computer (also `computerId`, `computer_id`).
    #[schema(rename = "desktopId")]
    pub desktop_id: Option<String>,
}

/// `GET /files`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// Files, newest first.
    pub files: Vec<File>,
}

/// The query of `GET /files`; one of the names of the workspace parameter is required.
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
    /// Only files that were uploaded to or exported from this computer.
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
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The computer: UUID or instance id.
    #[serde(rename = "desktopId", alias = "computerId", alias = "computer_id", alias = "desktop_id")]
    pub desktop_id: String,
    /// Path below `/root` or `/home/user`: relative to the home folder, absolute, or beginning with `~/`.
    pub path: String,
}

/// The answer to `POST /files/export`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Exported)]
pub struct ExportResult {
    /// Always true.
    pub success: bool,
    /// The stored copy.
    pub file: File,
    /// URL of the file; it needs no key and is valid for an hour.
    pub url: String,
}

/// `GET /files/download`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Download {
    /// URL of the file; it needs no key and is valid for an hour.
    pub url: String,
}
