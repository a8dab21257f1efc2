//! What is sent to run programs in the background, to read them and to steer them?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The header of output that tells the offset of its first byte.
pub const OFFSET: &str = "x-hotdesk-offset";
/// The header of output that tells how many bytes that were asked for are no longer kept.
pub const LOST: &str = "x-hotdesk-lost";

/// `POST processes`. Exactly one of `command` and `argv` is needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"command": "sleep 60", "name": "pause"}))]
pub struct StartProcess {
    /// What bash runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, run without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The folder it starts in, which must exist; the home folder when absent, and what a relative one is below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Further environment variables: at most 256, and 64 KiB together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The id of the screen that `DISPLAY` names; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// `none` (default): standard input is empty. `pipe`: it is what `POST processes/{id}/stdin` sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(pipe|none)$")]
    pub stdin: Option<String>,
    /// A name for people, at most 128 characters; need not be the only one of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub name: Option<String>,
}

/// A background process. It ends with the agent: none outlives a restart of the computer or of its agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Its handle here.
    pub id: String,
    /// The process id in the computer.
    pub pid: i32,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// The command, or the arguments joined by spaces; its first 4,096 characters.
    pub command: String,
    /// `running`, `exited` or `killed` (by a signal).
    pub status: String,
    /// The exit code of one that exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, for example `TERM`.
    pub signal: Option<String>,
    /// True while it or anything that it started runs.
    pub tree_running: bool,
    /// `none`, `open` or `closed`.
    pub stdin: String,
    /// ISO 8601.
    pub started_at: String,
    /// ISO 8601.
    pub ended_at: Option<String>,
    /// Bytes written so far to standard output and standard error.
    pub output_bytes: u64,
    /// Bytes written so far to standard output.
    pub stdout_bytes: u64,
    /// Bytes written so far to standard error.
    pub stderr_bytes: u64,
    /// How many readers follow its output now.
    pub followers: u32,
}

/// `GET processes`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProcessList {
    /// Oldest first.
    pub processes: Vec<Process>,
}

/// `GET processes/{id}/output`'s query. The answer is the bytes; its header `X-Hotdesk-Offset` is the offset of the
/// first, and `X-Hotdesk-Lost` how many that were asked for are no longer kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OutputQuery {
    /// `both` (default; in the order in which they were written), `stdout` or `stderr`. Each counts its own bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(both|stdout|stderr)$")]
    pub stream: Option<String>,
    /// The first byte wanted, counted from the process's first; 0 when absent. Below 0 it counts from the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// True: the bytes keep coming until the process has ended. A reader that falls behind what is kept is broken
    /// off and may ask again from where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
    /// Seconds, 0 to 300. With `follow`, how long at most; else how long to wait for the first byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 300)]
    pub wait_seconds: Option<f64>,
}

/// `POST processes/{id}/stdin`'s query; the body is the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StdinQuery {
    /// True: standard input ends after these bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eof: Option<bool>,
}

/// `POST processes/{id}/stdin`'s result.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Written {
    /// Bytes that the process can read now, or has read.
    pub written: u64,
    /// True when standard input ended after them.
    pub eof: bool,
}

/// `POST processes/{id}/signal`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"signal": "TERM"}))]
pub struct SendSignal {
    /// Its name, for example `TERM`, `INT`, `KILL`, `STOP`, `USR1`.
    pub signal: String,
    /// True (default): to the process and everything that it started. False: to the process alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<bool>,
}

/// `POST processes/{id}/signal`'s result.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Signalled {
    /// The signal's name.
    pub signal: String,
    /// How many processes it was sent to.
    pub processes: u32,
}
