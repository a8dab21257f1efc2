//! Launch of a program on a screen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::desktop::window::Window;

/// `POST launch`. Exactly one of `command`, `argv` and `url` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"command": "xterm"}))]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Command line for bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Program and arguments, run without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// `http`, `https` or `file` URL, which opens in a new browser window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Working directory; the home folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that are added to the environment of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Timeout for its first window in seconds, at most 60; 10 when absent; 0 to not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<f64>,
}

/// The answer to `POST launch`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Launched)]
pub struct LaunchResult {
    /// Process id of the program.
    pub pid: u32,
    /// Its first window; null when none opened before the timeout.
    pub window: Option<Window>,
    /// Exit status, or 128 + signal, when it ended before it opened a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}
