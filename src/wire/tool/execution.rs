//! Arguments and results of the tools that run commands and code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `bash`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct RunBash {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Command line for bash.
    pub command: String,
    /// Timeout in seconds, at most 300; 200 when absent. The command and all processes that it started are
    /// then killed.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// Working directory; the home folder when absent.
    #[serde(default)]
    pub cwd: Option<String>,
}

/// Result of `bash`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BashOutput {
    /// False when the command was killed at the timeout.
    pub success: bool,
    /// Exit code of the shell.
    pub exit_code: i32,
    /// Standard output and standard error in the order in which they were written; the middle is omitted when
    /// it is long.
    pub output: String,
    /// Number of omitted bytes.
    pub omitted_bytes: u64,
    /// True when the command was killed at the timeout.
    pub timeout: bool,
}

/// `exec`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct RunPython {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Python source.
    pub code: String,
    /// Timeout in seconds, 1 to 300; 10 when absent. The code and all processes that it started are then
    /// killed.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// Name of a session: a Python process whose variables remain between calls. It is started when it does
    /// not exist.
    #[serde(default)]
    pub session: Option<String>,
}

/// Result of `exec`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PythonOutput {
    /// False after an uncaught exception, another exit status than 0, or the timeout.
    pub success: bool,
    /// Standard output and standard error in the order in which they were written; the middle is omitted when
    /// it is long.
    pub output: String,
    /// Number of omitted bytes.
    pub omitted_bytes: u64,
    /// True when the code was killed at the timeout.
    pub timeout: bool,
    /// Message of the uncaught exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Class of the uncaught exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
}
