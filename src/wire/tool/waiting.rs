//! Arguments and results of the tools that wait for the end of long work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::chat::thread::ThreadRecord;

/// `wait_for_build`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct WaitForBuild {
    /// Reference of the template.
    pub template_ref: String,
    /// Longest wait in seconds, at most 540; 50 when absent. The build continues after it.
    #[serde(default)]
    pub timeout: Option<u32>,
}

/// Result of `wait_for_build`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AwaitedBuild {
    /// False when the time was over before the build: call again.
    pub ended: bool,
    /// Reference of the template, namespace/name@version.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Digest of the definition file.
    pub digest: String,
    /// Status of its build: not_built, building, ready or failed.
    pub status: String,
    /// What the build works on, and the field of the definition file; only while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Duration of the build in milliseconds, when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_time_ms: Option<u64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `wait_for_run`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct WaitForRun {
    /// Id of the thread that run_agent returned.
    pub thread_id: String,
    /// Longest wait in seconds, at most 540; 50 when absent. The run continues after it.
    #[serde(default)]
    pub timeout: Option<u32>,
}

/// Result of `wait_for_run`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AwaitedRun {
    /// False when the time was over before the run: call again.
    pub ended: bool,
    /// The thread, with at most 64 KiB of its newest messages; the middle of a longer one is omitted.
    pub thread: ThreadRecord,
    /// Number of omitted older messages.
    pub omitted_messages: u64,
}
