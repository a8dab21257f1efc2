//! Replies of Anthropic's Messages API, from the events of their stream.
//!
//! ```text
//! message_start (content_block_start content_block_delta* content_block_stop)* message_delta message_stop
//! ```
//! `ping` and unknown events may come anywhere; `error` ends the stream.

use serde::Deserialize;
use serde_json::Value;

use crate::arguments;
use crate::conversation::{Content, Delta, ModelReply, StopReason, ToolCall, Usage};
use crate::http::sse::SseEvent;
use crate::http::upstream_error::{Failure, UpstreamError};
use crate::http::{DeltaSink, ReplyAssembler};

/// Most blocks of a reply. Each is a thought, a text or a call; a turn has a few.
const MAX_BLOCKS: usize = 512;

/// An event.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: MessageHead,
    },
    ContentBlockStart {
        index: u64,
        content_block: BlockStart,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    MessageDelta {
        delta: MessageEnd,
        #[serde(default)]
        usage: TokenCounts,
    },
    MessageStop,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct MessageHead {
    #[serde(default)]
    usage: TokenCounts,
}

/// Numbers of tokens so far. Each event has some of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenCounts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockStart {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        #[serde(default)]
        data: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct MessageEnd {
    #[serde(default)]
    stop_reason: Option<String>,
}

/// A block as it grows.
#[derive(Debug)]
enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        id: String,
        name: String,
        input: Value,
        json: String,
    },
    /// A kind of block that hotdesk asks for nowhere.
    Other,
}

/// Builder of one reply.
#[derive(Debug, Default)]
pub(super) struct AnthropicAssembler {
    blocks: Vec<(u64, Block)>,
    usage: Usage,
    stop: Option<String>,
}

impl AnthropicAssembler {
    fn begin(&mut self, index: u64, start: BlockStart, deltas: &mut DeltaSink<'_>) -> Result<(), Failure> {
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(Failure::malformed(format!("a reply has more than {MAX_BLOCKS} blocks")));
        }
        let block = match start {
            BlockStart::Text { text } => {
                pass(deltas, Delta::Text, &text);
                Block::Text(text)
            }
            BlockStart::Thinking { thinking, signature } => {
                pass(deltas, Delta::Thinking, &thinking);
                Block::Thinking { text: thinking, signature }
            }
            BlockStart::RedactedThinking { data } => Block::Redacted(data),
            BlockStart::ToolUse { id, name, input } => Block::Call { id, name, input, json: String::new() },
            BlockStart::Other => Block::Other,
        };
        self.blocks.push((index, block));
        Ok(())
    }

    fn extend(&mut self, index: u64, delta: BlockDelta, deltas: &mut DeltaSink<'_>) -> Result<(), Failure> {
        // The newest block of an index: usually the last one.
        let block = self.blocks.iter_mut().rev().find(|(at, _)| *at == index).map(|(_, block)| block);
        match (block, delta) {
            (Some(Block::Text(text)), BlockDelta::TextDelta { text: more }) => {
                text.push_str(&more);
                pass(deltas, Delta::Text, &more);
            }
            (Some(Block::Thinking { text, .. }), BlockDelta::ThinkingDelta { thinking }) => {
                text.push_str(&thinking);
                pass(deltas, Delta::Thinking, &thinking);
            }
            (Some(Block::Thinking { signature, .. }), BlockDelta::SignatureDelta { signature: more }) => {
                signature.push_str(&more);
            }
            (Some(Block::Call { json, .. }), BlockDelta::InputJsonDelta { partial_json }) => {
                json.push_str(&partial_json);
            }
            (Some(_), BlockDelta::Other) | (Some(Block::Other), _) => {}
            (block, _) => {
                let which = if block.is_some() { "another kind of block" } else { "no block" };
                return Err(Failure::malformed(format!("a delta belongs to {which} ({index})")));
            }
        }
        Ok(())
    }

    fn count(&mut self, counts: &TokenCounts) {
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = &mut self.usage;
        for (total, count) in [
            (input_tokens, counts.input_tokens),
            (output_tokens, counts.output_tokens),
            (cache_read_tokens, counts.cache_read_input_tokens),
            (cache_write_tokens, counts.cache_creation_input_tokens),
        ] {
            // Counts are totals of the message, not differences.
            *total = count.unwrap_or(*total);
        }
    }
}

fn pass(deltas: &mut DeltaSink<'_>, kind: impl FnOnce(String) -> Delta, text: &str) {
    if !text.is_empty() {
        deltas(kind(text.to_owned()));
    }
}

impl ReplyAssembler for AnthropicAssembler {
    fn take(&mut self, event: &SseEvent, deltas: &mut DeltaSink<'_>) -> Result<bool, Failure> {
        let malformed = |error: serde_json::Error| {
            Failure::malformed(format!("an event {:?} is not as documented: {error}", event.name))
        };
        let document: Value = serde_json::from_str(&event.data).map_err(malformed)?;
        if let Some(error) = UpstreamError::of(&document) {
            return Err(error.failure(None, None));
        }
        match Event::deserialize(document).map_err(malformed)? {
            Event::MessageStart { message } => {
                self.count(&message.usage);
                deltas(Delta::Usage(self.usage));
            }
            Event::ContentBlockStart { index, content_block } => self.begin(index, content_block, deltas)?,
            Event::ContentBlockDelta { index, delta } => self.extend(index, delta, deltas)?,
            Event::MessageDelta { delta, usage } => {
                self.count(&usage);
                deltas(Delta::Usage(self.usage));
                self.stop = delta.stop_reason.or(self.stop.take());
            }
            Event::MessageStop => return Ok(true),
            Event::Other => {}
        }
        Ok(false)
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(self) -> Result<ModelReply, Failure> {
        let Some(stop) = self.stop else {
            return Err(Failure::broken_off("the stream ended before a stop reason"));
        };
        let content: Vec<Content> = self.blocks.into_iter().filter_map(|(_, block)| content(block)).collect();
        let has_calls = content.iter().any(|part| matches!(part, Content::ToolCall(_)));
        Ok(ModelReply { content, usage: self.usage, stop: stop_reason(&stop, has_calls) })
    }
}

fn content(block: Block) -> Option<Content> {
    match block {
        Block::Text(text) => (!text.is_empty()).then_some(Content::Text { text }),
        Block::Thinking { text, signature } => {
            Some(Content::Thinking { text, signature: (!signature.is_empty()).then_some(signature) })
        }
        Block::Redacted(data) => Some(Content::RedactedThinking { data }),
        Block::Call { id, name, input, json } => {
            // Arguments come in pieces, or, from some gateways, at once.
            let input = if json.is_empty() && input.is_object() { input } else { arguments::parse(&json) };
            let id = if id.is_empty() { arguments::new_call_id() } else { id };
            Some(Content::ToolCall(ToolCall { id, name, input }))
        }
        Block::Other => None,
    }
}

/// Returns the reason of a documented value. Unknown values end the turn, or wait for its calls.
fn stop_reason(value: &str, has_calls: bool) -> StopReason {
    match value {
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ if has_calls => StopReason::ToolCalls,
        _ => StopReason::EndTurn,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ModelErrorKind;

    fn push_part(deltas: &mut Vec<Delta>, delta: Delta) {
        if !matches!(delta, Delta::Usage(_)) {
            deltas.push(delta);
        }
    }

    #[test]
    fn tokens_are_told_from_the_first_event_on() {
        let start =
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}});
        let (mut assembler, mut deltas) = (AnthropicAssembler::default(), Vec::new());
        let event = SseEvent { data: start.to_string(), ..SseEvent::default() };
        assert!(assembler.take(&event, &mut |delta| deltas.push(delta)).is_ok());
        let usage = Usage { input_tokens: 7, output_tokens: 1, ..Usage::default() };
        assert_eq!(deltas, [Delta::Usage(usage)]);
    }

    fn assemble(events: &[Value]) -> (Result<ModelReply, Failure>, Vec<Delta>) {
        let (mut assembler, mut deltas) = (AnthropicAssembler::default(), Vec::new());
        for event in events {
            let event = SseEvent { name: String::new(), data: event.to_string() };
            match assembler.take(&event, &mut |delta| push_part(&mut deltas, delta)) {
                Ok(true) => break,
                Ok(false) => {}
                Err(failure) => return (Err(failure), deltas),
            }
        }
        (assembler.finish(), deltas)
    }

    fn start(index: u64, block: &Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, delta: &Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    fn end(reason: &str) -> [Value; 2] {
        [
            json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ]
    }

    #[test]
    fn a_turn_with_thinking_text_and_calls_is_assembled() {
        let mut events = vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "usage":
                {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 4,
                    "cache_creation_input_tokens": 5}}}),
            json!({"type": "ping"}),
            start(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, &json!({"type": "thinking_delta", "thinking": "Hm"})),
            delta(0, &json!({"type": "thinking_delta", "thinking": "."})),
            delta(0, &json!({"type": "signature_delta", "signature": "sig"})),
            json!({"type": "content_block_stop", "index": 0}),
            start(1, &json!({"type": "redacted_thinking", "data": "enc"})),
            start(2, &json!({"type": "text", "text": ""})),
            delta(2, &json!({"type": "text_delta", "text": "I "})),
            delta(2, &json!({"type": "text_delta", "text": "look."})),
            delta(2, &json!({"type": "citations_delta", "citation": {}})),
            start(3, &json!({"type": "tool_use", "id": "toolu_1", "name": "computer", "input": {}})),
            delta(3, &json!({"type": "input_json_delta", "partial_json": ""})),
            delta(3, &json!({"type": "input_json_delta", "partial_json": "{\"action\": \"scr"})),
            delta(3, &json!({"type": "input_json_delta", "partial_json": "eenshot\"}"})),
            start(4, &json!({"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {}})),
            delta(4, &json!({"type": "input_json_delta", "partial_json": "{\"command\": "})),
            start(5, &json!({"type": "tool_use", "id": "toolu_3", "name": "wait", "input": {}})),
            start(6, &json!({"type": "new_block", "x": 1})),
            json!({"type": "new_event"}),
        ];
        events.extend(end("tool_use"));
        let (reply, deltas) = assemble(&events);
        let call = |id: &str, name: &str, input: Value| {
            Content::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), input })
        };
        assert_eq!(
            reply.expect("a reply"),
            ModelReply {
                content: vec![
                    Content::Thinking { text: "Hm.".to_owned(), signature: Some("sig".to_owned()) },
                    Content::RedactedThinking { data: "enc".to_owned() },
                    Content::Text { text: "I look.".to_owned() },
                    call("toolu_1", "computer", json!({"action": "screenshot"})),
                    call("toolu_2", "bash", json!("{\"command\": ")),
                    call("toolu_3", "wait", json!({})),
                ],
                usage: Usage {
                    input_tokens: 3,
                    output_tokens: 7,
                    cache_read_tokens: 4,
                    cache_write_tokens: 5
                },
                stop: StopReason::ToolCalls,
            }
        );
        let text = |text: &str| Delta::Text(text.to_owned());
        let thinking = |text: &str| Delta::Thinking(text.to_owned());
        assert_eq!(deltas, [thinking("Hm"), thinking("."), text("I "), text("look.")]);
    }

    #[test]
    fn stop_reasons_have_their_meanings() {
        for (value, has_calls, expected) in [
            ("end_turn", false, StopReason::EndTurn),
            ("tool_use", true, StopReason::ToolCalls),
            ("tool_use", false, StopReason::EndTurn),
            ("end_turn", true, StopReason::ToolCalls),
            ("max_tokens", true, StopReason::MaxTokens),
            ("model_context_window_exceeded", false, StopReason::MaxTokens),
            ("refusal", false, StopReason::Refusal),
            ("stop_sequence", false, StopReason::EndTurn),
            ("pause_turn", false, StopReason::EndTurn),
            ("new_reason", true, StopReason::ToolCalls),
        ] {
            assert_eq!(stop_reason(value, has_calls), expected, "{value}");
        }
    }

    #[test]
    fn a_stream_that_is_wrong_or_ends_early_fails() {
        let text = start(0, &json!({"type": "text", "text": "I"}));
        let overloaded =
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        for (events, kind, is_transient) in [
            (vec![], ModelErrorKind::Protocol, true),
            (vec![text.clone()], ModelErrorKind::Protocol, true),
            (vec![text.clone(), overloaded], ModelErrorKind::Unavailable, true),
            (vec![delta(0, &json!({"type": "text_delta", "text": "x"}))], ModelErrorKind::Protocol, false),
            (
                vec![text.clone(), delta(0, &json!({"type": "thinking_delta", "thinking": "x"}))],
                ModelErrorKind::Protocol,
                false,
            ),
            (vec![json!({"no": "type"})], ModelErrorKind::Protocol, false),
            (vec![json!("text")], ModelErrorKind::Protocol, false),
            (vec![text; MAX_BLOCKS + 1], ModelErrorKind::Protocol, false),
        ] {
            let (reply, _) = assemble(&events);
            let failure = reply.expect_err("a failure");
            assert_eq!((failure.error.kind, failure.is_transient), (kind, is_transient), "{events:?}");
        }
        let complete = [end("end_turn")[0].clone()];
        assert!(assemble(&complete).0.is_ok(), "a stop reason suffices");
    }
}
