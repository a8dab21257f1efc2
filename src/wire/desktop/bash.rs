//! Request for a shell command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST bash`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"command": "ls -l ~/Desktop", "timeout": 30}))]
#[serde(deny_unknown_fields)]
pub struct Bash {
    /// Command line for bash.
    pub command: String,
    /// Timeout in seconds, at most 300; 200 when absent. The command and all processes that it started are
    /// then killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 300)]
    pub timeout: Option<f64>,
    /// Working directory, which must exist; a relative path is below the home folder, which is the default.
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
