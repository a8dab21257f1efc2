//! Replies of OpenAI-compatible servers, from the chunks of their stream.
//!
//! Servers differ. Calls may lack an index, an id or a type; the last chunks may lack `usage` or `[DONE]`;
//! the reason for the end of a turn with calls may be `stop`. Ids of calls may repeat those of earlier turns.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use crate::arguments;
use crate::conversation::{Content, Delta, ModelReply, ModelRequest, StopReason, ToolCall, Usage};
use crate::http::sse::SseEvent;
use crate::http::upstream_error::{Failure, UpstreamError};
use crate::http::{DeltaSink, ReplyAssembler};

/// Most calls of a turn. Models make a few at once.
const MAX_CALLS: usize = 128;
/// Data of the event after the last chunk.
const DONE: &str = "[DONE]";

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<TokenCounts>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    delta: Option<MessageDelta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MessageDelta {
    content: Option<Value>,
    /// Thinking: vLLM (older), llama.cpp, DeepSeek.
    reasoning_content: Option<Value>,
    /// Thinking: vLLM, Ollama, OpenRouter.
    reasoning: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenCounts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

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

/// Returns the text of a field that is one, or a list of parts with texts.
fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
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

/// Returns the tokens of a turn. OpenAI counts cached ones as a part of the prompt's.
fn usage(counts: &TokenCounts) -> Usage {
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

/// Returns the reason of a documented value. Unknown values end the turn, or wait for its calls.
fn stop_reason(value: &str, has_calls: bool) -> StopReason {
    match value {
        "length" | "max_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ if has_calls => StopReason::ToolCalls,
        _ => StopReason::EndTurn,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::{Message, Role};
    use crate::error::ModelErrorKind;

    fn request(known_call: &str) -> ModelRequest {
        let call = ToolCall { id: known_call.to_owned(), name: "f".to_owned(), input: json!({}) };
        ModelRequest {
            model: "m".to_owned(),
            system: String::new(),
            messages: vec![Message { role: Role::Assistant, content: vec![Content::ToolCall(call)] }],
            tools: Vec::new(),
            max_tokens: 10,
            thinking_budget: None,
        }
    }

    fn push_part(deltas: &mut Vec<Delta>, delta: Delta) {
        if !matches!(delta, Delta::Usage(_)) {
            deltas.push(delta);
        }
    }

    fn assemble(events: &[&str]) -> (Result<ModelReply, Failure>, Vec<Delta>) {
        let (mut assembler, mut deltas) = (OpenAiAssembler::new(&request("known")), Vec::new());
        for data in events {
            let event = SseEvent { name: String::new(), data: (*data).to_owned() };
            match assembler.take(&event, &mut |delta| push_part(&mut deltas, delta)) {
                Ok(true) => break,
                Ok(false) => {}
                Err(failure) => return (Err(failure), deltas),
            }
        }
        (assembler.finish(), deltas)
    }

    fn chunk(delta: Value, finish: Value) -> String {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
    }

    /// Calls of a reply as names and arguments, and their ids.
    fn calls(deltas: &[Value]) -> (Vec<(String, Value)>, Vec<String>) {
        let mut events: Vec<String> =
            deltas.iter().map(|calls| chunk(json!({"tool_calls": calls}), Value::Null)).collect();
        events.push(chunk(json!({}), json!("tool_calls")));
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let reply = assemble(&events).0.expect("a reply");
        let calls = reply.content.into_iter().map(|part| {
            let Content::ToolCall(call) = part else { panic!("{part:?}") };
            ((call.name, call.input), call.id)
        });
        calls.unzip()
    }

    #[test]
    fn a_turn_with_thinking_text_and_usage_is_assembled() {
        let events = [
            chunk(json!({"role": "assistant", "content": ""}), Value::Null),
            chunk(json!({"reasoning_content": "Hm."}), Value::Null),
            chunk(json!({"content": "Hel", "tool_calls": null}), Value::Null),
            chunk(json!({"content": "lo"}), Value::Null),
            chunk(json!({"content": null}), json!("stop")),
            json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 4}}})
            .to_string(),
            DONE.to_owned(),
            "not read any more".to_owned(),
        ];
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let (reply, deltas) = assemble(&events);
        assert_eq!(
            reply.expect("a reply"),
            ModelReply {
                content: vec![
                    Content::Thinking { text: "Hm.".to_owned(), signature: None },
                    Content::Text { text: "Hello".to_owned() },
                ],
                usage: Usage {
                    input_tokens: 6,
                    output_tokens: 3,
                    cache_read_tokens: 4,
                    cache_write_tokens: 0
                },
                stop: StopReason::EndTurn,
            }
        );
        let text = |text: &str| Delta::Text(text.to_owned());
        assert_eq!(deltas, [Delta::Thinking("Hm.".to_owned()), text("Hel"), text("lo")]);
    }

    #[test]
    fn calls_are_assembled_whatever_servers_leave_out() {
        let f = |name: &str, input: Value| (name.to_owned(), input);
        let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
        for (what, deltas, expected) in [
            (
                "OpenAI",
                vec![
                    json!([{"index": 0, "id": "a", "type": "function", "function": function("f", "")}]),
                    json!([{"index": 0, "function": {"arguments": "{\"x\""}}]),
                    json!([{"index": 1, "id": "b", "type": "function", "function": function("g", "{}")}]),
                    json!([{"index": 0, "function": {"arguments": ": 1}"}}]),
                ],
                vec![f("f", json!({"x": 1})), f("g", json!({}))],
            ),
            (
                "whole calls without an index",
                vec![json!([{"id": "a", "function": function("f", "{\"x\": 1}")},
                        {"id": "b", "function": function("g", "{}")}])],
                vec![f("f", json!({"x": 1})), f("g", json!({}))],
            ),
            (
                "neither index nor id",
                vec![
                    json!([{"function": function("f", "{\"x\"")}]),
                    json!([{"function": {"arguments": ": 1}"}}]),
                    json!([{"function": function("g", "{}")}]),
                ],
                vec![f("f", json!({"x": 1})), f("g", json!({}))],
            ),
            (
                "the index 0 for each call",
                vec![
                    json!([{"index": 0, "id": "a", "function": function("f", "{}")}]),
                    json!([{"index": 0, "id": "b", "function": function("g", "{}")}]),
                ],
                vec![f("f", json!({})), f("g", json!({}))],
            ),
            (
                "a name and an id in each delta",
                vec![
                    json!([{"index": 0, "id": "a", "function": function("f", "{\"x\"")}]),
                    json!([{"index": 0, "id": "a", "function": function("f", ": 1}")}]),
                ],
                vec![f("f", json!({"x": 1}))],
            ),
            (
                "an empty id in later deltas",
                vec![
                    json!([{"index": 0, "id": "a", "function": function("f", "{\"x\"")}]),
                    json!([{"index": 0, "id": "", "function": {"name": null, "arguments": ": 1}"}}]),
                ],
                vec![f("f", json!({"x": 1}))],
            ),
            (
                "arguments that are no text",
                vec![json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}])],
                vec![f("f", json!({"x": 1}))],
            ),
            (
                "malformed arguments, and none",
                vec![json!([{"index": 0, "id": "a", "function": function("f", "{\"x\": ")},
                    {"index": 1, "id": "b", "function": {"name": "g"}}, {"index": 2, "id": "c"}])],
                vec![f("f", json!("{\"x\": ")), f("g", json!({})), f("", json!({}))],
            ),
        ] {
            assert_eq!(calls(&deltas).0, expected, "{what}");
        }
    }

    #[test]
    fn ids_of_calls_are_unique_in_the_conversation() {
        let call = |index: u64, id: Value| json!([{"index": index, "id": id, "function": {"name": "f"}}]);
        let deltas =
            [call(0, json!("own")), call(1, Value::Null), call(2, json!("known")), call(3, json!("own"))];
        let (_, ids) = calls(&deltas);
        assert_eq!(ids[0], "own");
        let distinct: HashSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), 4);
        assert!(ids[1..].iter().all(|id| id.starts_with("call_")), "{ids:?}");
    }

    #[test]
    fn finish_reasons_have_their_meanings() {
        for (value, has_calls, expected) in [
            ("stop", false, StopReason::EndTurn),
            ("stop", true, StopReason::ToolCalls),
            ("tool_calls", true, StopReason::ToolCalls),
            ("tool_calls", false, StopReason::EndTurn),
            ("function_call", true, StopReason::ToolCalls),
            ("length", true, StopReason::MaxTokens),
            ("content_filter", false, StopReason::Refusal),
            ("eos", false, StopReason::EndTurn),
        ] {
            assert_eq!(stop_reason(value, has_calls), expected, "{value}");
        }
        let events = [chunk(json!({"refusal": "No."}), Value::Null), chunk(json!({}), json!("stop"))];
        let (reply, deltas) = assemble(&[&events[0], &events[1]]);
        assert_eq!(reply.expect("a reply").stop, StopReason::Refusal);
        assert_eq!(deltas, [Delta::Text("No.".to_owned())]);
    }

    #[test]
    fn streams_end_with_or_without_done_and_fail_without_a_reason() {
        let stop = chunk(json!({"content": "x"}), json!("stop"));
        assert!(assemble(&[&stop]).0.is_ok());
        let begun = chunk(json!({"content": "x"}), Value::Null);
        let other = json!({"choices": [{"index": 1, "delta": {"content": "y"}, "finish_reason": "stop"}]});
        let error = json!({"error": {"message": "m", "type": "server_error", "code": null}}).to_string();
        let many: Vec<Value> =
            (0..=MAX_CALLS).map(|index| json!({"index": index, "function": {"name": "f"}})).collect();
        for (events, kind, is_transient) in [
            (vec![], ModelErrorKind::Protocol, true),
            (vec![begun.clone()], ModelErrorKind::Protocol, true),
            (vec![begun.clone(), DONE.to_owned()], ModelErrorKind::Protocol, true),
            (vec![begun.clone(), other.to_string()], ModelErrorKind::Protocol, true),
            (vec![begun, error], ModelErrorKind::Unavailable, true),
            (vec!["{".to_owned()], ModelErrorKind::Protocol, false),
            (vec!["{\"choices\": 7}".to_owned()], ModelErrorKind::Protocol, false),
            (vec![chunk(json!({"tool_calls": many}), Value::Null)], ModelErrorKind::Protocol, false),
        ] {
            let events: Vec<&str> = events.iter().map(String::as_str).collect();
            let failure = assemble(&events).0.expect_err("a failure");
            assert_eq!((failure.error.kind, failure.is_transient), (kind, is_transient), "{events:?}");
        }
    }
}
