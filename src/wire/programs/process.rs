//! Background processes: start, output, input and signals.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Response header with the offset of the first byte of output.
pub const OFFSET_HEADER: &str = "x-hotdesk-offset";
/// Response header with the number of requested bytes that are no longer stored.
pub const LOST_HEADER: &str = "x-hotdesk-lost";

/// `POST processes`. Exactly one of `command` and `argv` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"command": "sleep 60", "name": "pause"}))]
#[serde(deny_unknown_fields)]
pub struct StartProcess {
    /// Command line for bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Program and arguments, run without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Working directory, which must exist; a relative path is below the home folder, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Additional environment variables: at most 256, and at most 64 KiB together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Id of the screen for `DISPLAY`; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// `none` (default): standard input is empty. `pipe`: `POST processes/{id}/stdin` writes to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(pipe|none)$")]
    pub stdin: Option<String>,
    /// True for a client that stays: the process waits until its output was read with `stream=both`, so that none is
    /// lost. It is killed with everything that it started when nobody has followed its output for 10 s. It ends with
    /// its program; what the program left running continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<bool>,
    /// Name for people, at most 128 characters; it need not be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub name: Option<String>,
}

/// A background process. It ends when the computer or its agent restarts.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Id of the process in the API.
    pub id: String,
    /// Process id in the computer.
    pub pid: i32,
    /// Name, if it has one.
    pub name: Option<String>,
    /// Command, or the arguments joined by spaces; the first 4,096 characters.
    pub command: String,
    /// `running`, `exited` or `killed` (by a signal).
    pub status: String,
    /// Exit code, when it exited.
    pub exit_code: Option<i32>,
    /// Signal that ended it, for example `TERM`.
    pub signal: Option<String>,
    /// True while the process or one of its descendants runs.
    pub tree_running: bool,
    /// State of standard input: `none`, `open` or `closed`.
    pub stdin: String,
    /// Start time, ISO 8601.
    pub started_at: String,
    /// End time, ISO 8601; null while it runs.
    pub ended_at: Option<String>,
    /// Bytes written to standard output and standard error so far.
    pub output_bytes: u64,
    /// Bytes written to standard output so far.
    pub stdout_bytes: u64,
    /// Bytes written to standard error so far.
    pub stderr_bytes: u64,
    /// Number of readers that follow its output now.
    pub followers: u32,
}

/// `GET processes`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProcessList {
    /// Processes, oldest first.
    pub processes: Vec<Process>,
}

/// The query of `GET processes/{id}/output`. The answer is the bytes. Its header `X-Hotdesk-Offset` has the
/// offset of the first byte, and `X-Hotdesk-Lost` the number of requested bytes that are no longer stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OutputQuery {
    /// `both` (default; in the order in which they were written), `stdout` or `stderr`. Each has its own
    /// offsets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(both|stdout|stderr)$")]
    pub stream: Option<String>,
    /// Offset of the first byte; 0 when absent. A negative offset counts from the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// True to stream output until the process ends. A reader that is too slow for the buffer is disconnected
    /// and can continue from its last offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
    /// True, with `both`: each piece has a header of 8 bytes. The first byte is 1 for standard output and 2 for standard
    /// error, and three bytes are 0. Four bytes have the length of the piece, big-endian (Docker's stream format). Offsets do
    /// not count headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framed: Option<bool>,
    /// Timeout in seconds, 0 to 300: of the stream with `follow`, otherwise of the wait for the first byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 300)]
    pub wait_seconds: Option<f64>,
}

/// The query of `POST processes/{id}/stdin`; the body is the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StdinQuery {
    /// True to close standard input after these bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eof: Option<bool>,
}

/// The answer to `POST processes/{id}/stdin`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StdinWritten {
    /// Number of bytes that were written.
    pub written: u64,
    /// True when standard input was closed after them.
    pub eof: bool,
}

/// `POST processes/{id}/signal`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"signal": "TERM"}))]
#[serde(deny_unknown_fields)]
pub struct SendSignal {
    /// Name of the signal, for example `TERM`, `INT`, `KILL`, `STOP`, `USR1`.
    pub signal: String,
    /// True (default) to signal the process and its descendants; false to signal only the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<bool>,
}

/// The answer to `POST processes/{id}/signal`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Signalled)]
pub struct SignalResult {
    /// Name of the signal.
    pub signal: String,
    /// Number of processes that were signalled.
    pub processes: u32,
}
