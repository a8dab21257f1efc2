//! Messages, tools and replies of a conversation, independent of the back end.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Request for one turn of a model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Id of the model, as the back end knows it.
    pub model: String,
    /// Instructions of the operator and of hotdesk.
    pub system: String,
    /// Conversation so far; the first message is the user's.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Most tokens of the reply.
    pub max_tokens: u32,
    /// Most tokens of thinking; `None`: the model does not think aloud.
    pub thinking_budget: Option<u32>,
}

/// A tool that a model may call.
#[derive(Clone, Debug)]
pub enum Tool {
    /// Screen, mouse and keyboard. Its name is [`COMPUTER`]. Calls have the fields of Anthropic's computer tool, also from
    /// back ends that get it as a function.
    Computer {
        /// Width of the pictures that the model sees, in pixels. Coordinates of calls are in this space.
        width: u32,
        /// Height of the pictures, in pixels.
        height: u32,
    },
    /// A function.
    Function {
        /// Name.
        name: String,
        /// What it does, for the model.
        description: String,
        /// JSON Schema of its arguments.
        schema: Value,
    },
}

/// Name of the tool for screen, mouse and keyboard in calls.
pub const COMPUTER: &str = "computer";

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who wrote it.
    pub role: Role,
    /// Its parts, in order.
    pub content: Vec<Content>,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or hotdesk with results of tools.
    User,
    /// The model.
    Assistant,
}

/// Part of a message. Pictures are not stored with it: see [`Content::Image`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Picture. It is not serialized with its bytes; a stored message has an empty one.
    Image(Image),
    /// Thinking of the model. Back ends that sign it want it back unchanged.
    Thinking {
        /// Its text.
        text: String,
        /// The back end's signature.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Thinking that the back end encrypted. It wants it back unchanged.
    RedactedThinking {
        /// Its encrypted bytes, as the back end sent them.
        data: String,
    },
    /// Call of a tool.
    ToolCall(ToolCall),
    /// Result of a call.
    ToolResult(ToolResult),
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// The encoded picture; empty in a stored message.
    #[serde(skip)]
    pub data: Bytes,
}

/// Call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id, unique in the conversation.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, as the model wrote them: not checked.
    pub input: Value,
}

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Id of the call.
    pub call: String,
    /// Text for the model; empty for none.
    pub text: String,
    /// Picture for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Whether the call failed.
    pub is_error: bool,
}

/// Part of a turn as it arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Text for the user.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// Tokens of the turn so far, as totals. A back end that tells them at the end alone passes none before.
    Usage(Usage),
}

/// One turn of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReply {
    /// Its parts: text, thinking and calls.
    pub content: Vec<Content>,
    /// Tokens of the turn.
    pub usage: Usage,
    /// Why the turn ended.
    pub stop: StopReason,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model has finished.
    EndTurn,
    /// It waits for results of its calls.
    ToolCalls,
    /// The most tokens were used.
    MaxTokens,
    /// The model refused.
    Refusal,
}

/// Tokens of one turn or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request that were not read from the back end's cache.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Tokens of the request that the back end had cached.
    pub cache_read_tokens: u64,
    /// Tokens of the request that the back end wrote to its cache.
    pub cache_write_tokens: u64,
}
