//! Steps of chat threads: calls of tools and their results.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// The query of `GET /chat/threads/{id}/steps`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ThreadStepQuery {
    /// `next_cursor` of the previous page.
    #[serde(default)]
    #[param(pattern = "^[0-9]{1,18}$")]
    pub cursor: Option<String>,
    /// Largest number of steps, 1 to 200; 50 when absent.
    #[serde(default)]
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<u32>,
}

/// Call of a tool by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThreadToolCall {
    /// Id of the call, by the model's service.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, as the model wrote them; `{"omitted_bytes": N}` in place of more than 64 KiB.
    #[schema(value_type = Object)]
    pub input: Value,
}

/// Tokens of a turn of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ThreadUsage {
    /// Tokens of the request that were not read from a cache.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Tokens of the request that were cached.
    pub cache_read_tokens: u64,
    /// Tokens of the request that were written to the cache.
    pub cache_write_tokens: u64,
}

/// A step of a thread: one call of a tool and its result.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadStepRecord {
    /// Number of the step in its thread; later steps have higher numbers.
    pub number: i64,
    /// When the step was recorded, ISO 8601.
    pub created_at: String,
    /// The call.
    pub call: ThreadToolCall,
    /// Text of the model before the call.
    pub text: Option<String>,
    /// Result of the call for the model, cut after 64 KiB.
    pub result: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The action in the terms of `POST /computers/{id}/actions`; null for other tools, and above 64 KiB.
    #[schema(value_type = Option<Object>)]
    pub action: Option<Value>,
    /// Effect of the action; null where nothing was observed, and above 64 KiB.
    #[schema(value_type = Option<Object>)]
    pub effect: Option<Value>,
    /// Link to the screen after the call, valid for an hour; null without a stored picture.
    pub screenshot: Option<String>,
    /// Tokens of the model's turn.
    pub usage: ThreadUsage,
    /// Cost of the turn in millionths of a cent.
    pub cost_microcents: i64,
    /// Duration of the call in milliseconds.
    pub took_ms: i64,
}

/// `GET /chat/threads/{id}/steps`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadStepPage {
    /// Steps, in their order.
    pub steps: Vec<ThreadStepRecord>,
    /// Cursor of the next page; null on the last.
    pub next_cursor: Option<String>,
}
