//! Services, programs of the desktop, hooks and files that a computer has from its template.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::template::health::HealthProbe;
use crate::template::trigger::Trigger;

/// Programs that a computer runs for its template. The build of the template writes it as JSON to
/// [`PROGRAMS_FILE`](hotdesk_domain::computer::template::build::PROGRAMS_FILE) of the computer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplatePrograms {
    /// Programs that run in the background.
    #[serde(default)]
    pub services: Vec<ServiceProgram>,
    /// Programs that start with the desktop.
    #[serde(default)]
    pub autostart: Vec<AutostartProgram>,
    /// Health checks.
    #[serde(default)]
    pub health: Vec<HealthProgram>,
    /// Triggers, with the references to variables replaced.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// Scripts of bash by the name of their hook.
    #[serde(default)]
    pub hooks: BTreeMap<String, String>,
    /// Environment variables of all of them by their name, each with the name of a secret.
    #[serde(default)]
    pub secret_env: BTreeMap<String, String>,
    /// Files that each boot writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RuntimeFile>,
    /// Sessions of tmux that each boot starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terminals: Vec<TerminalProgram>,
    /// Measurements that are sent to an OpenTelemetry collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryProgram>,
    /// Servers that the screen can be streamed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamProgram>,
}

/// Query of the agent's `POST template/prepare`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareTemplate {
    /// Whether also the services with `prestart` start, and must be up and healthy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prestart: bool,
}

/// Query of the agent's `POST template/begin`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginTemplate {
    /// Whether the computer only checks a build: nothing that acts outside of it begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
}

/// A file that is written when a computer starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFile {
    /// Script of bash that writes it.
    pub script: String,
    /// Whether its content is a secret. The script then runs whenever the secrets change: `hotdesk_secrets` names the file
    /// that sets them as shell variables, and `hotdesk_files` a folder in memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

/// A session of tmux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalProgram {
    /// Name of the session.
    pub name: String,
    /// Name of its window.
    #[serde(default)]
    pub title: Option<String>,
    /// Working directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Command line for bash that runs first.
    #[serde(default)]
    pub run: Option<String>,
}

/// What is sent to an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryProgram {
    /// URL of the collector, without the path of a signal.
    pub endpoint: String,
    /// Whether resource figures are sent.
    #[serde(default)]
    pub metrics: bool,
    /// Paths of files whose lines are sent.
    #[serde(default)]
    pub logs: Vec<String>,
}

/// A server that the screen can be streamed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamProgram {
    /// Its name.
    pub name: String,
    /// `rtmp[s]://host[:port]/app`.
    pub url: String,
    /// Stream key that is no secret.
    #[serde(default)]
    pub key: Option<String>,
    /// Name of the secret that is the stream key.
    #[serde(default)]
    pub secret_key: Option<String>,
    /// Whether each boot begins the stream.
    #[serde(default)]
    pub autostart: bool,
}

/// A service of a template, with all references replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceProgram {
    /// Its name.
    pub name: String,
    /// Command line for bash.
    pub run: String,
    /// Working directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// User that it runs as.
    pub user: String,
    /// Environment variables beside those of the template.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables by their name, each with the name of a secret.
    #[serde(default)]
    pub secret_env: BTreeMap<String, String>,
    /// `always`, `on-failure` or `no`.
    pub restart: String,
    /// Name of the signal that asks it to end.
    pub stop_signal: String,
    /// File that gets its output.
    #[serde(default)]
    pub log: Option<String>,
    /// Whether it may start before a launch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prestart: bool,
}

/// A program that starts with the desktop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutostartProgram {
    /// Command line for bash.
    pub run: String,
    /// Time after the start of the services, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Whether it may start before a launch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prestart: bool,
}

/// The health check of an application, with all references replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthProgram {
    /// Name of the application.
    pub app: String,
    /// Probe of the check.
    pub probe: HealthProbe,
    /// Time between two checks, in milliseconds.
    pub every_ms: u64,
    /// Longest time of a check, in milliseconds.
    pub timeout_ms: u64,
    /// Failures in a row before the action.
    pub retries: u32,
    /// The action: `restart_service:NAME`, `restart_vm`, `alert` or `none`.
    pub on_fail: String,
    /// Whether the application must work before a launch when its services start before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prestart: bool,
}

/// The services and hooks of a computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    /// Services in the order of the template, then the programs that start with the desktop. They are stopped while the
    /// hooks of the boot run.
    pub services: Vec<ServiceStatus>,
    /// Hooks that have run since the boot, or run now.
    pub hooks: Vec<HookStatus>,
    /// Applications with a health check, in the order of the template. They are `starting` until the services start.
    #[serde(default)]
    pub health: Vec<AppHealthStatus>,
}

/// The health of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppHealthStatus {
    /// Name of the application.
    pub app: String,
    /// `starting`, `healthy` or `unhealthy`.
    pub status: String,
    /// Checks that failed in a row.
    pub failures: u32,
    /// How often the action ran since the boot.
    pub actions: u32,
    /// Why the last check failed; null when it succeeded.
    pub reason: Option<String>,
    /// Time of the last check, ISO 8601; null before the first one.
    pub checked_at: Option<String>,
}

/// A service of a computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// Its name in the template; `autostart.0` and so on for programs that start with the desktop.
    pub name: String,
    /// `running` or `stopped`.
    pub status: String,
    /// Its process id in the computer while it runs.
    pub pid: Option<i32>,
    /// Exit code of its last run, when it exited.
    pub exit_code: Option<i32>,
    /// Number of the signal that ended its last run.
    pub signal: Option<i32>,
    /// Seconds since it started, or stopped.
    pub since_seconds: u64,
    /// The file in the computer with its output.
    pub log: String,
}

/// A hook of a computer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HookStatus {
    /// `on_first_boot`, `on_every_boot`, `on_resume`, `on_pre_snapshot` or `on_shutdown`.
    pub name: String,
    /// `running`, `succeeded`, `failed` or `timed_out`.
    pub status: String,
    /// Exit code, when it exited.
    pub exit_code: Option<i32>,
    /// The file in the computer with its output.
    pub log: String,
}

/// `POST services/{service}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"action": "restart"}))]
#[serde(deny_unknown_fields)]
pub struct ServiceAction {
    /// `start`, `stop` or `restart`.
    #[schema(pattern = "^(start|stop|restart)$")]
    pub action: String,
}

/// Query of `GET services/{service}/log`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ServiceLogQuery {
    /// How many of the last bytes, 1 to 1048576 (default 65536); with `follow` also 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// True to get the lines of these bytes and all that follow, as server-sent events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

/// A line of a service's output, while it is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceLogEntry {
    /// The line without its end. Bytes that are no UTF-8 are replaced; of more than 16384 bytes, the rest is cut off.
    pub line: String,
}

/// The end of a service's output.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ServiceLog {
    /// The text. Bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Whether there is more before it.
    pub truncated: bool,
}
