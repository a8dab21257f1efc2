//! Arguments and results of the tools for files of a computer and of a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::files::workspace_file::File;

/// `list_files`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListFolder {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Folder: relative to the home folder, ~/..., or absolute; the desktop when absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Only names that sort after this one: next of the previous page.
    #[serde(default)]
    pub after: Option<String>,
}

/// `read_file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ReadText {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// File: relative to the home folder, ~/..., or absolute.
    pub path: String,
    /// First byte to read; 0 when absent.
    #[serde(default)]
    pub offset: Option<u64>,
}

/// Result of `read_file`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TextRead {
    /// At most 64 KiB of the file as text; invalid UTF-8 is replaced.
    pub text: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Offset of the next bytes; absent at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// `write_file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct WriteText {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// File: relative to the home folder, ~/..., or absolute. Missing folders are created.
    pub path: String,
    /// The whole content of the file.
    pub text: String,
    /// True to replace an existing file.
    #[serde(default)]
    pub overwrite: bool,
}

/// `list_workspace_files`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListStoredFiles {
    /// Id of the workspace; that of the connection or key when it has only one.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Only files that were uploaded to or exported from this computer.
    #[serde(default)]
    pub computer_id: Option<String>,
    /// Number of files to skip: the next_offset of the previous page.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// Result of `list_workspace_files`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoredFilePage {
    /// Files, newest first.
    pub files: Vec<File>,
    /// Total number of files.
    pub total: u64,
    /// The offset of the next page; null on the last.
    pub next_offset: Option<u64>,
}

/// `export_file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ExportFrom {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// File below the home folder: relative to it, ~/..., or absolute.
    pub path: String,
}

/// `upload_file`. Exactly one of text and base64 is required.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct UploadContent {
    /// Id of the workspace; that of the connection or key when it has only one.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// The only computer that gets the file; all running computers of the workspace when absent.
    #[serde(default)]
    pub computer_id: Option<String>,
    /// Name of the file, without a folder and without quotation marks.
    pub filename: String,
    /// Content, as text.
    #[serde(default)]
    pub text: Option<String>,
    /// Content, as base64.
    #[serde(default)]
    pub base64: Option<String>,
}

/// Argument of a tool that only needs a stored file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneStoredFile {
    /// Id of the file.
    pub file_id: String,
}
