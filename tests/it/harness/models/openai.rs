//! OpenAI's side of the scripted server: rules of its requests, and frames of its replies.

use std::collections::BTreeSet;
use std::iter;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::turn::{Frames, Piece};
use super::{Refusal, Turn, field, halves, list, require, words};

/// Checks a request as the vendor does. Local servers want no key.
pub(super) fn check(headers: &HeaderMap, body: &Value) -> Result<(), Refusal> {
    let key = field(headers, "authorization");
    if key.starts_with("Bearer wrong") {
        return Err((401, format!("Incorrect API key provided: {key}")));
    }
    require(key.is_empty() || key.starts_with("Bearer "), "authorization: use Bearer")?;
    require(field(headers, "content-type") == "application/json", "content-type: use application/json")?;
    require(body["model"].as_str().is_some_and(|model| !model.is_empty()), "you must provide a model")?;
    require(body["stream"] == true, "stream: the script only streams")?;
    require(body["stream_options"]["include_usage"] == true, "stream_options: the script wants usage")?;
    let thinks = !body["model"].as_str().is_some_and(|model| model.ends_with("plain"));
    let effort = &body["reasoning_effort"];
    require(thinks || effort.is_null(), "Unrecognized request argument supplied: reasoning_effort")?;
    require(
        effort.is_null() || ["low", "medium", "high"].iter().any(|known| effort == known),
        "reasoning_effort: invalid value",
    )?;
    for tool in list(&body["tools"]) {
        let function = &tool["function"];
        let is_function = tool["type"] == "function" && function["name"].is_string();
        require(is_function && function["parameters"]["type"] == "object", "tools: invalid function")?;
    }
    check_messages(body)
}

fn check_messages(body: &Value) -> Result<(), Refusal> {
    let messages: Vec<&Value> = list(&body["messages"]).collect();
    require(!messages.is_empty(), "[] is too short - 'messages'")?;
    let mut open = BTreeSet::new();
    for message in messages {
        let content = &message["content"];
        match message["role"].as_str().unwrap_or_default() {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                require(open.remove(id), format!("no tool_calls with the id {id:?} before"))?;
                require(content.as_str().is_some_and(|text| !text.is_empty()), "tool: content: no text")?;
            }
            other => {
                require(open.is_empty(), format!("tool_call_ids did not have response messages: {open:?}"))?;
                match other {
                    "system" => require(content.is_string(), "system: content: no text")?,
                    "user" => check_user(content)?,
                    "assistant" => open = check_assistant(message)?,
                    role => return Err((400, format!("messages: unknown role {role:?}"))),
                }
            }
        }
    }
    require(open.is_empty(), format!("tool_call_ids did not have response messages: {open:?}"))
}

fn check_user(content: &Value) -> Result<(), Refusal> {
    if content.is_string() {
        return Ok(());
    }
    require(list(content).next().is_some(), "user: content: neither text nor parts")?;
    list(content).try_for_each(|part| match part["type"].as_str().unwrap_or_default() {
        "text" => require(part["text"].is_string(), "user: text: no text"),
        "image_url" => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            let data = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,"));
            let bytes = data.and_then(|(_, data)| STANDARD.decode(data).ok()).unwrap_or_default();
            require(!bytes.is_empty(), "user: image_url: no picture")
        }
        other => Err((400, format!("user: unknown part {other:?}"))),
    })
}

/// Returns the ids of the calls of a message.
fn check_assistant(message: &Value) -> Result<BTreeSet<String>, Refusal> {
    let mut ids = BTreeSet::new();
    for call in list(&message["tool_calls"]) {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let parsed: Value = serde_json::from_str(arguments).unwrap_or_default();
        require(parsed.is_object(), format!("tool_calls: arguments are no object: {arguments}"))?;
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        require(call["type"] == "function" && !id.is_empty() && ids.insert(id), "tool_calls: invalid id")?;
    }
    require(message["content"].is_string() || !ids.is_empty(), "assistant: neither content nor calls")?;
    Ok(ids)
}

/// Returns the document of an error.
pub(super) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        429 => ("requests", json!("rate_limit_exceeded")),
        500.. => ("server_error", Value::Null),
        _ => ("invalid_request_error", Value::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Returns an error within a stream.
pub(super) fn error_frame(kind: &str) -> String {
    data(&json!({"error": {"message": "as the script says", "type": kind, "param": null, "code": null}}))
}

fn data(document: &Value) -> String {
    format!("data: {document}\n\n")
}

/// Returns the frames of a turn. Calls are numbered from `first_call`.
pub(super) fn frames(turn: &Turn, model: &str, first_call: usize) -> Frames {
    let document = |choices: Value, usage: Value| {
        data(&json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model,
            "choices": choices, "usage": usage}))
    };
    let chunk = |delta: Value, finish: Value| {
        document(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), Value::Null)
    };
    let begin = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    let mut frames = vec![begin, ": keep-alive\n\n".to_owned()];
    let mut calls = 0;
    for (number, piece) in turn.pieces.iter().enumerate() {
        let deltas: Vec<Value> = match piece {
            Piece::Text(text) => words(text).map(|word| json!({"content": word})).collect(),
            Piece::Thinking(text) => words(text).map(|word| json!({"reasoning_content": word})).collect(),
            Piece::Call { name, arguments } => {
                let mut head = json!({"index": calls, "type": "function",
                    "function": {"name": name, "arguments": ""}});
                if !turn.is_sparse {
                    head["id"] = format!("call_{}", first_call + number).into();
                }
                let parts =
                    halves(arguments).map(|half| json!({"index": calls, "function": {"arguments": half}}));
                calls += 1;
                iter::once(head).chain(parts).map(|call| json!({"tool_calls": [call]})).collect()
            }
        };
        frames.extend(deltas.into_iter().map(|delta| chunk(delta, Value::Null)));
        if turn.is_endless {
            let more = frames.last().expect("a delta").clone();
            return Box::new(frames.into_iter().chain(iter::repeat(more)));
        }
    }
    let own = if turn.has_calls() { "tool_calls" } else { "stop" };
    frames.push(chunk(json!({}), turn.stop.as_deref().unwrap_or(own).into()));
    if !turn.is_sparse {
        let prompt = turn.input_tokens + turn.cached_tokens;
        frames.push(document(
            json!([]),
            json!({"prompt_tokens": prompt, "completion_tokens": turn.output_tokens,
                "total_tokens": prompt + turn.output_tokens,
                "prompt_tokens_details": {"cached_tokens": turn.cached_tokens}}),
        ));
        frames.push("data: [DONE]\n\n".to_owned());
    }
    Box::new(frames.into_iter())
}
