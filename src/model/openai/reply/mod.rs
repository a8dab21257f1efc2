//! Replies of OpenAI-compatible servers, from the chunks of their stream.
//!
//! Servers differ. Calls may lack an index, an id or a type; the last chunks may lack `usage` or `[DONE]`;
//! the reason for the end of a turn with calls may be `stop`. Ids of calls may repeat those of earlier turns.

mod chunk;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use crate::arguments;
use crate::conversation::{Content, Delta, ModelReply, ModelRequest, StopReason, ToolCall, Usage};
use crate::http::sse::SseEvent;
use crate::http::upstream_error::{Failure, UpstreamError};
use crate::http::{DeltaSink, ReplyAssembler};
use chunk::{CallDelta, Chunk, MessageDelta, text_of, usage};

/// Most calls of a turn. Models make a few at once.
const MAX_CALLS: usize = 128;
/// Data of the event after the last chunk.
const DONE: &str = "[DONE]";

/// A call as it grows.
#[derive(Debug, Default)]
struct GrowingCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// Builder of one reply.
#[derive(Debug)]
pub(super) struct OpenAiAssembler {
    /// Ids of calls that the conversation has already.
    known_ids: HashSet<String>,
    thinking: String,
    text: String,
    calls: Vec<GrowingCall>,
    usage: Usage,
    finish: Option<String>,
    has_refused: bool,
}

impl OpenAiAssembler {
    /// The builder of the reply to a request.
    pub fn new(request: &ModelRequest) -> Self {
        let parts = request.messages.iter().flat_map(|message| &message.content);
        let ids = parts.filter_map(|part| match part {
            Content::ToolCall(call) => Some(call.id.clone()),
            Content::Text { .. }
            | Content::Image(_)
            | Content::Thinking { .. }
            | Content::RedactedThinking { .. }
            | Content::ToolResult(_) => None,
        });
        Self {
            known_ids: ids.collect(),
            thinking: String::new(),
            text: String::new(),
            calls: Vec::new(),
            usage: Usage::default(),
            finish: None,
            has_refused: false,
        }
    }

    fn extend(&mut self, delta: MessageDelta, deltas: &mut DeltaSink<'_>) -> Result<(), Failure> {
        let thinking = delta.reasoning_content.or(delta.reasoning).map(text_of).unwrap_or_default();
        if !thinking.is_empty() {
            self.thinking.push_str(&thinking);
            deltas(Delta::Thinking(thinking));
        }
        self.has_refused |= delta.refusal.as_ref().is_some_and(|text| !text.is_empty());
        for text in [delta.content.map(text_of), delta.refusal].into_iter().flatten() {
            if !text.is_empty() {
                self.text.push_str(&text);
                deltas(Delta::Text(text));
            }
        }
        delta.tool_calls.into_iter().flatten().try_for_each(|call| self.extend_call(call))
    }

    fn extend_call(&mut self, delta: CallDelta) -> Result<(), Failure> {
        let function = delta.function.unwrap_or_default();
        let (id, name) = (delta.id.unwrap_or_default(), function.name.unwrap_or_default());
        let call = match self.position(delta.index, &id, &name) {
            Some(at) => &mut self.calls[at],
            None if self.calls.len() >= MAX_CALLS => {
                return Err(Failure::malformed(format!("a turn has more than {MAX_CALLS} calls")));
            }
            None => {
                self.calls.push(GrowingCall { index: delta.index, ..GrowingCall::default() });
                let last = self.calls.len() - 1;
                &mut self.calls[last]
            }
        };
        if call.id.is_empty() {
            call.id = id;
        }
        // Some servers repeat the name in each delta.
        if call.name.is_empty() {
            call.name = name;
        }
        match function.arguments {
            Some(Value::String(text)) => call.arguments.push_str(&text),
            Some(Value::Null) | None => {}
            // A server that sends the arguments themselves instead of their text.
            Some(value @ (Value::Object(_) | Value::Array(_) | Value::Number(_) | Value::Bool(_))) => {
                call.arguments.push_str(&value.to_string());
            }
        }
        Ok(())
    }

    /// Returns the call that a delta continues, or `None` for a new one.
    fn position(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }?;
        let call = &self.calls[at];
        // Some servers give each call the index 0.
        let is_other = !id.is_empty() && !call.id.is_empty() && call.id != id;
        (!is_other).then_some(at)
    }
}

impl ReplyAssembler for OpenAiAssembler {
    fn take(&mut self, event: &SseEvent, deltas: &mut DeltaSink<'_>) -> Result<bool, Failure> {
        let data = event.data.trim();
        if data == DONE {
            return Ok(true);
        }
        if data.is_empty() {
            return Ok(false);
        }
        let malformed =
            |error: serde_json::Error| Failure::malformed(format!("a chunk is not as documented: {error}"));
        let document: Value = serde_json::from_str(data).map_err(malformed)?;
        if let Some(error) = UpstreamError::of(&document) {
            return Err(error.failure(None, None));
        }
        let chunk = Chunk::deserialize(document).map_err(malformed)?;
        if let Some(counts) = chunk.usage {
            self.usage = usage(&counts);
            deltas(Delta::Usage(self.usage));
        }
        // One choice was asked for.
        let choices = chunk.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or_default() == 0) {
            if let Some(delta) = choice.delta {
                self.extend(delta, deltas)?;
            }
            self.finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish.take());
        }
        Ok(false)
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(mut self) -> Result<ModelReply, Failure> {
        let Some(finish) = self.finish else {
            return Err(Failure::broken_off("the stream ended before a finish_reason"));
        };
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            content.push(Content::Thinking { text: self.thinking, signature: None });
        }
        if !self.text.is_empty() {
            content.push(Content::Text { text: self.text });
        }
        let has_calls = !self.calls.is_empty();
        for call in self.calls {
            let is_new = !call.id.is_empty() && self.known_ids.insert(call.id.clone());
            let id = if is_new { call.id } else { arguments::new_call_id() };
            let input = arguments::parse(&call.arguments);
            content.push(Content::ToolCall(ToolCall { id, name: call.name, input }));
        }
        let stop = if self.has_refused && !has_calls {
            StopReason::Refusal
        } else {
            stop_reason(&finish, has_calls)
        };
        Ok(ModelReply { content, usage: self.usage, stop })
    }
}

/// Returns the reason of a documented value. Unknown values end the turn, or wait for its calls.
fn stop_reason(value: &str, has_calls: bool) -> StopReason {
    match value {
        "length" | "max_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ if has_calls => StopReason::ToolCalls,
        _ => StopReason::EndTurn,
    }
}
