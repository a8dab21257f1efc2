//! What is sent to start a program on a screen?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::window::Window;

/// `POST launch`. Exactly one of `command`, `argv` and `url` is needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"command": "xterm"}))]
pub struct Launch {
    /// What bash runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// An `http`, `https` or `file` URL, which is opened in a new window of the browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The folder to start in; the home folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables to add to the session's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Seconds to wait for its first window; 10 when absent, at most 60, 0 for not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<f64>,
}

/// `POST launch`'s result.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Launched {
    /// Process id of the program.
    pub pid: u32,
    /// Its first window; null when none came in time.
    pub window: Option<Window>,
    /// How it ended, when it did before it showed a window: its exit status, or 128 + signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}
