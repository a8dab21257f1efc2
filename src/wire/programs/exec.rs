//! What is sent to run a command, or Python code, to its end? (wire.md 6) And which Python sessions are there?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST bash`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"command": "ls -l ~/Desktop", "timeout": 30}))]
pub struct Bash {
    /// What bash runs.
    pub command: String,
    /// Seconds after which it is killed with all that it started; 200 when absent, at most 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 300)]
    pub timeout: Option<f64>,
    /// The folder it starts in, which must exist; the home folder when absent, and what a relative one is below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Further environment variables: at most 256, and 64 KiB together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// What it reads from standard input; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The id of the screen that `DISPLAY` names; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// `POST bash`'s result.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BashResult {
    /// True whenever the command was run, whatever its exit code; false when it had to be killed at its time-out.
    pub success: bool,
    /// `bash`.
    pub action: String,
    /// The command as sent.
    pub command: String,
    /// Standard output and standard error in the order in which they were written, invalid UTF-8 replaced; the middle
    /// is left out when it is longer than 1 MiB.
    pub output: String,
    /// Standard output alone; the middle is left out when it is longer than 256 KiB.
    #[serde(default)]
    pub stdout: String,
    /// Standard error alone; the middle is left out when it is longer than 256 KiB.
    #[serde(default)]
    pub stderr: String,
    /// The shell's exit code; 128 + signal when a signal ended it; 124 at the time-out (as `timeout(1)`).
    pub exit_code: i32,
    /// True when the command was killed at its time-out.
    #[serde(default)]
    pub timeout: bool,
    /// How many bytes were left out of `output`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// How many bytes were left out of `stdout`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stdout_omitted_bytes: u64,
    /// How many bytes were left out of `stderr`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stderr_omitted_bytes: u64,
}

/// `POST exec`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"code": "print(6 * 7)"}))]
pub struct Exec {
    /// Python source.
    pub code: String,
    /// Seconds after which it is killed with all that it started; 10 when absent, 1 to 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 300)]
    pub timeout: Option<f64>,
    /// Name of a session: a Python process that keeps its variables between calls. One that is not there yet is
    /// started. 1 to 64 letters, digits, `_`, `.` or `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    pub session: Option<String>,
    /// The folder it starts in, which must exist; the home folder when absent, and what a relative one is below. A
    /// session takes this, `env` and `screen` when it starts; a later call may repeat them, not change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Further environment variables: at most 256, and 64 KiB together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// What it reads from standard input; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The id of the screen that `DISPLAY` names; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// `POST exec`'s result; the HTTP status is 200 whatever the code did.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExecResult {
    /// True when the code ran to its end without an uncaught exception and exit status 0.
    pub success: bool,
    /// `exec`.
    pub action: String,
    /// Standard output and standard error in the order in which they were written.
    pub output: String,
    /// Standard output alone; the middle is left out when it is longer than 256 KiB.
    #[serde(default)]
    pub stdout: String,
    /// Standard error alone; the middle is left out when it is longer than 256 KiB.
    #[serde(default)]
    pub stderr: String,
    /// True when the code was killed at its time-out.
    pub timeout: bool,
    /// The uncaught exception's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The uncaught exception's class, for example `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// How many bytes were left out of `output`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// How many bytes were left out of `stdout`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stdout_omitted_bytes: u64,
    /// How many bytes were left out of `stderr`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stderr_omitted_bytes: u64,
    /// The session that it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// True when this call started the session: nothing of an earlier one is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_started: Option<bool>,
    /// True when the session ended in this call, at the time-out or by its own doing: its variables are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ended: Option<bool>,
}

/// A Python session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PythonSession {
    /// Its name.
    pub name: String,
    /// The process id in the computer; null while it starts.
    pub pid: Option<i32>,
    /// True while a call runs in it.
    pub busy: bool,
    /// How many calls have run in it.
    pub calls: u64,
    /// When it was started, ISO 8601.
    pub started_at: String,
    /// When a call in it last began or ended, ISO 8601. After 30 minutes without one it is ended.
    pub used_at: String,
}

/// `GET sessions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// By name.
    pub sessions: Vec<PythonSession>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
