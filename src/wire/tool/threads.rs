//! Arguments and results of the tools for chat threads and runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::chat::thread::{ThreadRecord, ThreadSummary};

/// `list_threads`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListThreads {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Number of threads to skip: the next_offset of the previous page.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// Result of `list_threads`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ThreadPage {
    /// Threads, the last changed first, without their messages.
    pub threads: Vec<ThreadSummary>,
    /// Total number of threads.
    pub total: u64,
    /// The offset of the next page; null on the last.
    pub next_offset: Option<u64>,
}

/// Argument of a tool that only needs a thread.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneThread {
    /// Id of the thread: thr_ and 32 hex digits.
    pub thread_id: String,
}

/// Result of `get_thread`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ThreadWithMessages {
    /// The thread, with at most 64 KiB of its newest messages; the middle of a longer one is omitted.
    pub thread: ThreadRecord,
    /// Number of omitted older messages.
    pub omitted_messages: u64,
}

/// `thread_steps`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct StepsOfThread {
    /// Id of the thread: thr_ and 32 hex digits.
    pub thread_id: String,
    /// The next_cursor of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// `run_agent`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct StartRun {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// What the model is to do.
    pub prompt: String,
    /// Id of a thread of the computer to continue; a new thread when absent.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// Id of the model; the default of the service when absent.
    #[serde(default)]
    pub model: Option<String>,
    /// Most calls of tools, 1 to 250; 100 when absent.
    #[serde(default)]
    pub max_steps: Option<u32>,
}

/// Result of `run_agent`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StartedRun {
    /// Id of the thread, which says how the run goes on and ends.
    pub thread_id: String,
    /// Id of the model.
    pub model: String,
}
