//! Tests of the assembly of replies.

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
            usage: Usage { input_tokens: 6, output_tokens: 3, cache_read_tokens: 4, cache_write_tokens: 0 },
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
