//! Commands and Python code that run to their end, and Python sessions (docs/api/actions.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer to `POST bash`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BashResult {
    /// True when the command ran to its end, with any exit code; false when it was killed at the timeout.
    pub success: bool,
    /// `bash`.
    pub action: String,
    /// The command as sent.
    pub command: String,
    /// Standard output and standard error in the order in which they were written. Invalid UTF-8 is
    /// replaced. The middle is omitted when it is longer than 1 MiB.
    pub output: String,
    /// Standard output alone; the middle is omitted when it is longer than 256 KiB.
    #[serde(default)]
    pub stdout: String,
    /// Standard error alone; the middle is omitted when it is longer than 256 KiB.
    #[serde(default)]
    pub stderr: String,
    /// Exit code of the shell; 128 + signal when a signal ended it; 124 at the timeout (like `timeout(1)`).
    pub exit_code: i32,
    /// True when the command was killed at the timeout.
    #[serde(default)]
    pub timeout: bool,
    /// Number of bytes that are omitted from `output`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// Number of bytes that are omitted from `stdout`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stdout_omitted_bytes: u64,
    /// Number of bytes that are omitted from `stderr`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stderr_omitted_bytes: u64,
}

/// `POST exec`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"code": "print(6 * 7)"}))]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// Python source that is run.
    pub code: String,
    /// Timeout in seconds, 1 to 300; 10 when absent. The code and all processes that it started are then
    /// killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 300)]
    pub timeout: Option<f64>,
    /// Name of a session: a Python process whose variables remain between calls. A session that does not
    /// exist is started. 1 to 64 letters, digits, `_`, `.` or `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    pub session: Option<String>,
    /// Working directory, which must exist; a relative path is below the home folder, which is the default. A
    /// session uses `cwd`, `env` and `screen` of its first call; a later call can repeat but not change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Additional environment variables: at most 256, and at most 64 KiB together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Text for standard input; empty when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Id of the screen for `DISPLAY`; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// The answer to `POST exec`; the HTTP status is 200 also when the code failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExecResult {
    /// True when the code ran to its end without an uncaught exception and with exit status 0.
    pub success: bool,
    /// `exec`.
    pub action: String,
    /// Standard output and standard error in the order in which they were written.
    pub output: String,
    /// Standard output alone; the middle is omitted when it is longer than 256 KiB.
    #[serde(default)]
    pub stdout: String,
    /// Standard error alone; the middle is omitted when it is longer than 256 KiB.
    #[serde(default)]
    pub stderr: String,
    /// True when the code was killed at the timeout.
    pub timeout: bool,
    /// Message of the uncaught exception.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Class of the uncaught exception, for example `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// Number of bytes that are omitted from `output`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// Number of bytes that are omitted from `stdout`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stdout_omitted_bytes: u64,
    /// Number of bytes that are omitted from `stderr`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stderr_omitted_bytes: u64,
    /// Name of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// True when this call started the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_started: Option<bool>,
    /// True when the session ended in this call, at the timeout or by itself; its variables are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ended: Option<bool>,
}

/// A Python session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PythonSession {
    /// Name of the session, as in its calls.
    pub name: String,
    /// Process id in the computer; null while it starts.
    pub pid: Option<i32>,
    /// True while a call runs in it.
    pub busy: bool,
    /// Number of calls.
    pub calls: u64,
    /// Start time, ISO 8601.
    pub started_at: String,
    /// Start or end of the last call, ISO 8601. A session ends after 30 minutes without a call.
    pub used_at: String,
}

/// `GET sessions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// Sessions, sorted by name.
    pub sessions: Vec<PythonSession>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
