//! Anthropic's side of the scripted server: rules of its requests, and frames of its replies.

use std::collections::BTreeSet;
use std::iter;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::turn::{Frames, Piece};
use super::{Refusal, Turn, field, halves, list, require, words};

/// Most parts of a request that end with `cache_control`.
const MAX_CACHED: usize = 4;
/// Versions of the API. The vendor's own clients send the newer one
/// (platform.claude.com/docs/en/api/versioning).
const VERSIONS: [&str; 2] = ["2023-06-01", NEWER_VERSION];
const NEWER_VERSION: &str = "2026-10-21";
/// Parameters that the newer version refuses.
const REMOVED: [&str; 3] = ["temperature", "top_p", "top_k"];
/// Fewest tokens of thinking.
const MIN_THINKING: u64 = 1024;
/// Versions of the computer tool, and the values of `anthropic-beta` that they need.
const COMPUTER: [(&str, &str); 2] =
    [("computer_20250124", "computer-use-2025-01-24"), ("computer_20251124", "computer-use-2025-11-24")];

/// Checks a request as the vendor does.
pub(super) fn check(headers: &HeaderMap, body: &Value) -> Result<(), Refusal> {
    // The vendor's own clients send the key as a bearer credential.
    let bearer = field(headers, "authorization").strip_prefix("Bearer ");
    let key = bearer.unwrap_or_else(|| field(headers, "x-api-key"));
    if key.is_empty() || key.starts_with("wrong") {
        return Err((401, format!("invalid x-api-key: {key}")));
    }
    let version = field(headers, "anthropic-version");
    require(VERSIONS.contains(&version), "anthropic-version: header is required")?;
    let removed = REMOVED.iter().find(|name| version == NEWER_VERSION && body.get(**name).is_some());
    require(removed.is_none(), format!("{removed:?}: Extra inputs are not permitted"))?;
    require(field(headers, "content-type") == "application/json", "content-type: use application/json")?;
    require(body["model"].as_str().is_some_and(|model| !model.is_empty()), "model: Field required")?;
    require(body["stream"] == true, "stream: the script only streams")?;
    let max_tokens = body["max_tokens"].as_u64().unwrap_or_default();
    require(max_tokens > 0, "max_tokens: Field required")?;
    if let Some(thinking) = body.get("thinking")
        && thinking["type"] == "enabled"
    {
        let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
        require((MIN_THINKING..max_tokens).contains(&budget), "thinking.budget_tokens: out of range")?;
    }
    let cached = body.to_string().matches("\"cache_control\":").count();
    require(cached <= MAX_CACHED, format!("A maximum of 4 blocks with cache_control: found {cached}"))?;
    check_tools(headers, body)?;
    check_messages(body)
}

fn check_tools(headers: &HeaderMap, body: &Value) -> Result<(), Refusal> {
    let betas: Vec<&str> = field(headers, "anthropic-beta").split(',').map(str::trim).collect();
    let mut names = BTreeSet::new();
    for tool in list(&body["tools"]) {
        let name = tool["name"].as_str().unwrap_or_default();
        require(names.insert(name) && !name.is_empty(), "tools: Tool names must be unique")?;
        match tool["type"].as_str() {
            None | Some("custom") => {
                require(
                    tool["input_schema"]["type"] == "object",
                    "tools: input_schema.type: Field required",
                )?;
            }
            Some(kind) => {
                let needed = COMPUTER.iter().find(|(tool, _)| *tool == kind).map(|(_, beta)| *beta);
                let known = needed.is_some_and(|beta| betas.contains(&beta));
                require(known, format!("tools: Input tag {kind:?} does not match any of the expected tags"))?;
                let has_size = tool["display_width_px"].is_u64() && tool["display_height_px"].is_u64();
                require(has_size && name == "computer", "tools: computer: fields required")?;
                let has_zoom = kind == "computer_20251124" || tool.get("enable_zoom").is_none();
                require(has_zoom, "tools: enable_zoom: Extra inputs are not permitted")?;
            }
        }
    }
    Ok(())
}

fn check_messages(body: &Value) -> Result<(), Refusal> {
    let messages: Vec<&Value> = list(&body["messages"]).collect();
    require(!messages.is_empty(), "messages: at least one message is required")?;
    require(messages[0]["role"] == "user", "messages: first message must use the user role")?;
    let mut open = BTreeSet::new();
    for message in messages {
        let blocks: Vec<&Value> = list(&message["content"]).collect();
        require(!blocks.is_empty(), "messages: content must not be empty")?;
        let mut seen_other = false;
        let was_open = std::mem::take(&mut open);
        let mut answered = BTreeSet::new();
        for block in blocks {
            check_block(block)?;
            match (block["type"].as_str().unwrap_or_default(), message["role"].as_str().unwrap_or_default()) {
                ("tool_use", "assistant") => {
                    let id = block["id"].as_str().unwrap_or_default().to_owned();
                    require(open.insert(id), "messages: `tool_use` ids must be unique")?;
                }
                ("tool_result", "user") => {
                    require(!seen_other, "messages: tool_result blocks must come first")?;
                    let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
                    let is_known = was_open.contains(&id) && answered.insert(id.clone());
                    require(
                        is_known,
                        format!("unexpected `tool_use_id` found in `tool_result` blocks: {id}"),
                    )?;
                }
                ("thinking" | "redacted_thinking", "assistant") | ("text", _) => seen_other = true,
                ("image", "user") => seen_other = true,
                (kind, role) => return Err((400, format!("messages: {kind:?} of {role:?}"))),
            }
        }
        require(was_open == answered, "`tool_use` ids were found without `tool_result` blocks")?;
    }
    require(open.is_empty(), "`tool_use` ids were found without `tool_result` blocks at the end")
}

fn check_block(block: &Value) -> Result<(), Refusal> {
    let text = |field: &str| block[field].as_str().unwrap_or_default();
    match text("type") {
        "text" => {
            require(!text("text").trim().is_empty(), "text content blocks must contain non-whitespace text")
        }
        "image" => {
            let source = &block["source"];
            let data = STANDARD.decode(source["data"].as_str().unwrap_or_default()).unwrap_or_default();
            let is_image = source["media_type"].as_str().is_some_and(|kind| kind.starts_with("image/"));
            require(source["type"] == "base64" && is_image && !data.is_empty(), "image: invalid base64 data")
        }
        "thinking" => require(!text("signature").is_empty(), "thinking.signature: Field required"),
        "redacted_thinking" => require(!text("data").is_empty(), "redacted_thinking.data: Field required"),
        "tool_use" => {
            let is_id = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let has_id = !text("id").is_empty() && text("id").chars().all(is_id);
            require(has_id, "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")?;
            require(block["input"].is_object(), "tool_use.input: Input should be a valid dictionary")
        }
        "tool_result" => {
            let parts: Vec<&Value> = list(&block["content"]).collect();
            require(block["is_error"] != true || !parts.is_empty(), "tool_result: content cannot be empty")?;
            parts.into_iter().try_for_each(check_block)
        }
        other => Err((400, format!("messages: unknown block {other:?}"))),
    }
}

/// Returns the document of an error.
pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

/// Returns an error within a stream.
pub(super) fn error_frame(kind: &str) -> String {
    frame("error", json!({"error": {"type": kind, "message": "as the script says"}}))
}

fn frame(kind: &str, mut fields: Value) -> String {
    fields["type"] = kind.into();
    format!("event: {kind}\ndata: {fields}\n\n")
}

/// Returns the frames of a turn. Calls are numbered from `first_call`.
pub(super) fn frames(turn: &Turn, model: &str, first_call: usize) -> Frames {
    let usage = json!({"input_tokens": turn.input_tokens, "cache_read_input_tokens": turn.cached_tokens,
        "cache_creation_input_tokens": 0, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    let mut frames = vec![frame("message_start", json!({"message": message})), frame("ping", json!({}))];
    for (index, piece) in turn.pieces.iter().enumerate() {
        let (block, deltas) = block(piece, first_call + index);
        frames.push(frame("content_block_start", json!({"index": index, "content_block": block})));
        let deltas = deltas.into_iter().map(|delta| json!({"index": index, "delta": delta}));
        frames.extend(deltas.map(|delta| frame("content_block_delta", delta)));
        if turn.is_endless {
            let more = frames.last().expect("a delta").clone();
            return Box::new(frames.into_iter().chain(iter::repeat(more)));
        }
        frames.push(frame("content_block_stop", json!({"index": index})));
    }
    let own = if turn.has_calls() { "tool_use" } else { "end_turn" };
    let reason = turn.stop.as_deref().unwrap_or(own);
    frames.push(frame(
        "message_delta",
        json!({"delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": turn.output_tokens}}),
    ));
    frames.push(frame("message_stop", json!({})));
    Box::new(frames.into_iter())
}

/// Returns the begin of a block, and its deltas.
fn block(piece: &Piece, call: usize) -> (Value, Vec<Value>) {
    match piece {
        Piece::Text(text) => (
            json!({"type": "text", "text": ""}),
            words(text).map(|word| json!({"type": "text_delta", "text": word})).collect(),
        ),
        Piece::Thinking(text) => (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            words(text)
                .map(|word| json!({"type": "thinking_delta", "thinking": word}))
                .chain([json!({"type": "signature_delta", "signature": format!("signed: {text}")})])
                .collect(),
        ),
        Piece::Call { name, arguments } => (
            json!({"type": "tool_use", "id": format!("toolu_{call}"), "name": name, "input": {}}),
            iter::once("")
                .chain(halves(arguments))
                .map(|half| json!({"type": "input_json_delta", "partial_json": half}))
                .collect(),
        ),
    }
}
