//! Messages of the prompt socket (`/ws/prompt`, docs/api/chat.md#prompt-socket).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::completion::RunProgress;

/// A message of the client. The first one is `start`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PromptRequest {
    /// Starts the run.
    Start {
        /// Its settings.
        config: Box<PromptConfig>,
    },
    /// Answered with `pong`.
    Ping,
    /// Ends the run.
    Stop,
}

/// Settings of a run. Unknown fields are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PromptConfig {
    /// Id of the computer.
    pub computer_id: String,
    /// What the model should do.
    pub instruction: String,
    /// Id of the model; `claude-sonnet-4.6` when absent.
    #[serde(default)]
    pub model: Option<String>,
    /// Width of the pictures that the model sees, in pixels. With the height it bounds their number of
    /// pixels.
    #[serde(default)]
    pub display_width: Option<u32>,
    /// Height of the pictures, in pixels.
    #[serde(default)]
    pub display_height: Option<u32>,
    /// Whether the model thinks before it answers.
    #[serde(default)]
    pub thinking_enabled: Option<bool>,
    /// Most tokens of thinking in one reply.
    #[serde(default)]
    pub thinking_budget: Option<u32>,
    /// Most tokens of one reply.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Most calls of tools.
    #[serde(default)]
    pub max_iterations: Option<u32>,
    /// Further instructions.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Id of the thread to continue.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
    /// Seconds for which the run waits while somebody else controls the screen, at most 3,600; 600 when
    /// absent.
    #[serde(default)]
    pub control_wait_seconds: Option<u32>,
    /// Seconds for which the model may wait for the help of a person, at most 3,600; it may not when absent.
    #[serde(default)]
    pub help_wait_seconds: Option<u32>,
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum PromptEvent {
    /// Progress, for people.
    Status(String),
    /// Thinking of the model in one turn.
    Thinking(String),
    /// Text of the model in one turn.
    Text(String),
    /// A call of a tool, before it is executed.
    ToolUse(ToolUse),
    /// Number of the turn that begins.
    Iteration(u32),
    /// What the run waits for.
    Progress(RunProgress),
    /// Answer to `ping`.
    Pong,
    /// The run failed, or was refused. The server closes the socket.
    Error(String),
    /// The run ended. The server closes the socket.
    Result(PromptResult),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Action of the tool `computer`, or the name of another tool.
    pub action: String,
    /// Arguments, as the model wrote them.
    pub params: Value,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptResult {
    /// True when the model has finished.
    pub success: bool,
    /// New messages of the conversation without pictures, in the form of Anthropic's Messages API. The oldest
    /// are omitted above 1 MiB.
    pub messages: Vec<Value>,
    /// Number of turns.
    pub iterations: u32,
    /// Why the model has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Id of the thread.
    pub thread_id: String,
}
