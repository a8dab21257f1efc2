//! Chunks of a stream, as OpenAI-compatible servers send them.

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::Usage;

#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(default)]
    pub(super) usage: Option<TokenCounts>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) delta: Option<MessageDelta>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageDelta {
    pub(super) content: Option<Value>,
    /// Thinking: vLLM (older), llama.cpp, DeepSeek.
    pub(super) reasoning_content: Option<Value>,
    /// Thinking: vLLM, Ollama, OpenRouter.
    pub(super) reasoning: Option<Value>,
    pub(super) refusal: Option<String>,
    pub(super) tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenCounts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

/// Returns the tokens of a turn. OpenAI counts cached ones as a part of the prompt's.
pub(super) fn usage(counts: &TokenCounts) -> Usage {
    let prompt = counts.prompt_tokens.unwrap_or_default();
    let details = counts.prompt_tokens_details.as_ref();
    let cached = details.and_then(|details| details.cached_tokens).unwrap_or_default().min(prompt);
    Usage {
        input_tokens: prompt - cached,
        output_tokens: counts.completion_tokens.unwrap_or_default(),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
    }
}

/// Returns the text of a field that is one, or a list of parts with texts.
pub(super) fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
