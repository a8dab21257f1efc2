//! Requests for runs, and their bounds.

mod bounds;
mod completion;
mod messages;
mod prompt;
mod tools;

use std::time::Duration;

use hotdesk_base::secret::Secret;
use hotdesk_model::conversation::Message;
pub use tools::{AllowedTools, BASH};

/// A request for a run.
#[derive(Debug)]
pub struct RunRequest {
    /// Id or instance of the computer.
    pub computer: String,
    /// Id of the screen; `None`: the boot screen.
    pub screen: Option<String>,
    /// Id of the thread to continue.
    pub thread: Option<String>,
    /// New messages, oldest first.
    pub messages: Vec<Message>,
    /// Instructions of the client, besides those of hotdesk; empty for none.
    pub instructions: String,
    /// Id of the model.
    pub model: Option<String>,
    /// Key of the request for the model's back end.
    pub key: Option<Secret>,
    /// Bounds.
    pub limits: RunLimits,
    /// Tools that the model may use.
    pub tools: AllowedTools,
    /// Tools and actions before which the run ends.
    pub confirm: Vec<String>,
    /// Whether the call that waits for it is confirmed.
    pub is_approved: bool,
    /// Whether the run continues when its client disconnects.
    pub is_background: bool,
}

/// Bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Most calls of tools.
    pub steps: u32,
    /// Most tokens of a reply.
    pub tokens: u32,
    /// Most tokens of thinking in a reply; `None`: the model does not think aloud.
    pub thinking: Option<u32>,
    /// Cost in millionths of a cent after which the model is not asked again.
    pub microcents: Option<i64>,
    /// Pixels of a picture for the model.
    pub pixels: u32,
    /// Longest wait while somebody else controls the screen.
    pub control_wait: Duration,
    /// Longest wait for the help of a person, in seconds.
    pub help_seconds: u32,
}
