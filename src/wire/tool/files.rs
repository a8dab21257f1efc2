//! Arguments and results of the tools for files of a computer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, Serialize)]
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
