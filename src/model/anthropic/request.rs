//! Requests of Anthropic's Messages API: `POST /v1/messages`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::features::{ThinkingForm, features};
use crate::arguments;
use crate::conversation::{
    COMPUTER, Content, Image, Message, ModelRequest, Role, Tool, ToolCall, ToolResult,
};
use crate::history::repaired;

/// Messages of the user that end a part of the request which the server caches. A request may have four such
/// ends; the tools and the system text have one each.
const CACHED_MESSAGES: usize = 2;
/// Fewest tokens of thinking that the server accepts.
const MIN_THINKING: u32 = 1024;
/// Text of a picture that is not in the conversation any more.
const OLD_PICTURE: &str = "(An earlier picture, which is not shown again.)";

/// Returns the value of `anthropic-beta`, if the request needs one.
pub(super) fn beta(request: &ModelRequest) -> Option<&'static str> {
    let has_computer = request.tools.iter().any(|tool| matches!(tool, Tool::Computer { .. }));
    has_computer.then(|| features(&request.model).computer.beta())
}

/// Returns the body of a request.
pub(super) fn body(request: &ModelRequest) -> Value {
    let history = repaired(&request.messages);
    let thinking = thinking(request, &history);
    let mut messages: Vec<Value> = history.iter().filter_map(message).collect();
    mark_newest(&mut messages);
    let mut tools: Vec<Value> = request.tools.iter().map(|tool| definition(tool, &request.model)).collect();
    if let Some(last) = tools.last_mut() {
        mark(last);
    }
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_tokens,
        "stream": true,
        "messages": messages,
    });
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    if !request.system.trim().is_empty() {
        let mut system = json!({"type": "text", "text": request.system});
        mark(&mut system);
        body["system"] = json!([system]);
    }
    if let Some(thinking) = thinking {
        body["thinking"] = thinking;
    }
    body
}

/// Ends a part of the request that the server caches.
fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

/// Marks the newest messages of the user.
fn mark_newest(messages: &mut [Value]) {
    let users = messages.iter_mut().rev().filter(|message| message["role"] == "user");
    for message in users.take(CACHED_MESSAGES) {
        if let Some(last) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            mark(last);
        }
    }
}

fn definition(tool: &Tool, model: &str) -> Value {
    match tool {
        Tool::Computer { width, height } => {
            let version = features(model).computer;
            let mut tool = json!({
                "type": version.tool(),
                "name": COMPUTER,
                "display_width_px": width,
                "display_height_px": height,
            });
            if version.has_zoom() {
                tool["enable_zoom"] = true.into();
            }
            tool
        }
        Tool::Function { name, description, schema } => {
            json!({"name": name, "description": description, "input_schema": schema})
        }
    }
}

/// Returns how the model thinks; `None`: it does not.
fn thinking(request: &ModelRequest, history: &[Message]) -> Option<Value> {
    let wanted = request.thinking_budget?;
    match features(&request.model).thinking {
        ThinkingForm::Adaptive => Some(json!({"type": "adaptive"})),
        ThinkingForm::Budget => {
            // The budget is a part of the reply's tokens.
            let budget = wanted.max(MIN_THINKING).min(request.max_tokens.saturating_sub(1));
            let fits = budget >= MIN_THINKING && can_think(history);
            fits.then(|| json!({"type": "enabled", "budget_tokens": budget}))
        }
    }
}

/// Whether the model may think now. A turn goes on while calls are answered, and the server wants one in
/// which the model thinks to have begun so.
fn can_think(history: &[Message]) -> bool {
    let is_new = |message: &Message| {
        message.role == Role::User
            && !message.content.iter().any(|part| matches!(part, Content::ToolResult(_)))
    };
    let begin = history.iter().rposition(is_new).map_or(0, |at| at + 1);
    match history[begin..].iter().find(|message| message.role == Role::Assistant) {
        Some(first) => first
            .content
            .iter()
            .find_map(block)
            .is_some_and(|block| block["type"] == "thinking" || block["type"] == "redacted_thinking"),
        None => true,
    }
}

/// Returns a message, or `None` when nothing of it can be sent.
fn message(message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content: Vec<Value> = message.content.iter().filter_map(block).collect();
    (!content.is_empty()).then(|| json!({"role": role, "content": content}))
}

/// Returns a part, or `None` when the server would refuse it.
fn block(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } => text_block(text),
        Content::Image(image) => Some(picture(image)),
        // Thinking without a signature is another back end's.
        Content::Thinking { text, signature } => signature
            .as_ref()
            .map(|signature| json!({"type": "thinking", "thinking": text, "signature": signature})),
        Content::RedactedThinking { data } => Some(json!({"type": "redacted_thinking", "data": data})),
        Content::ToolCall(call) => Some(tool_use(call)),
        Content::ToolResult(result) => Some(tool_result(result)),
    }
}

/// Returns a text; the server refuses blank ones.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn picture(image: &Image) -> Value {
    if image.data.is_empty() {
        return json!({"type": "text", "text": OLD_PICTURE});
    }
    let data = STANDARD.encode(&image.data);
    json!({"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}})
}

fn tool_use(call: &ToolCall) -> Value {
    let input = arguments::object(&call.input);
    json!({"type": "tool_use", "id": wire_id(&call.id), "name": call.name, "input": input})
}

fn tool_result(result: &ToolResult) -> Value {
    let mut content: Vec<Value> = text_block(&result.text).into_iter().collect();
    content.extend(result.image.as_ref().map(picture));
    if content.is_empty() && result.is_error {
        content.push(json!({"type": "text", "text": "The call failed."}));
    }
    let mut block = json!({"type": "tool_result", "tool_use_id": wire_id(&result.call), "content": content});
    if result.is_error {
        block["is_error"] = true.into();
    }
    block
}

/// Returns an id with the characters that the server accepts. Another back end may have made it.
fn wire_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn text(text: &str) -> Content {
        Content::Text { text: text.to_owned() }
    }

    fn image() -> Image {
        Image { media_type: "image/png".to_owned(), data: Bytes::from_static(b"png") }
    }

    fn user(content: Vec<Content>) -> Message {
        Message { role: Role::User, content }
    }

    fn assistant(content: Vec<Content>) -> Message {
        Message { role: Role::Assistant, content }
    }

    fn call(id: &str, input: Value) -> Content {
        Content::ToolCall(ToolCall { id: id.to_owned(), name: COMPUTER.to_owned(), input })
    }

    fn result(id: &str, text: &str, image: Option<Image>, is_error: bool) -> Content {
        Content::ToolResult(ToolResult { call: id.to_owned(), text: text.to_owned(), image, is_error })
    }

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: "claude-sonnet-4-6".to_owned(),
            system: "Be brief.".to_owned(),
            messages,
            tools: vec![
                Tool::Computer { width: 1280, height: 720 },
                Tool::Function {
                    name: "bash".to_owned(),
                    description: "Runs a command.".to_owned(),
                    schema: json!({"type": "object"}),
                },
            ],
            max_tokens: 4096,
            thinking_budget: None,
        }
    }

    #[test]
    fn a_conversation_with_tools_is_the_vendors_document() {
        let cached = json!({"type": "ephemeral"});
        let request = request(vec![
            user(vec![text("Open the editor.")]),
            assistant(vec![
                Content::Thinking { text: "Hm.".to_owned(), signature: Some("sig".to_owned()) },
                Content::RedactedThinking { data: "enc".to_owned() },
                text("I look."),
                call("toolu_1", json!({"action": "screenshot"})),
            ]),
            user(vec![result("toolu_1", "1280x720", Some(image()), false)]),
        ]);
        assert_eq!(beta(&request), Some("computer-use-2025-11-24"));
        assert_eq!(
            body(&request),
            json!({
                "model": "claude-sonnet-4-6",
                "max_tokens": 4096,
                "stream": true,
                "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
                "tools": [
                    {"type": "computer_20251124", "name": "computer",
                        "display_width_px": 1280, "display_height_px": 720, "enable_zoom": true},
                    {"name": "bash", "description": "Runs a command.", "input_schema": {"type": "object"},
                        "cache_control": cached},
                ],
                "messages": [
                    {"role": "user", "content": [
                        {"type": "text", "text": "Open the editor.", "cache_control": cached}]},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                        {"type": "redacted_thinking", "data": "enc"},
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "toolu_1", "name": "computer",
                            "input": {"action": "screenshot"}}]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_1", "cache_control": cached,
                            "content": [
                            {"type": "text", "text": "1280x720"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                "data": "cG5n"}}]}]},
                ],
            })
        );
    }

    #[test]
    fn parts_that_the_server_would_refuse_are_changed_or_left_out() {
        let old = Image { data: Bytes::new(), ..image() };
        for (part, expected) in [
            (text(" \n"), None),
            (Content::Thinking { text: "x".to_owned(), signature: None }, None),
            (Content::Image(old.clone()), Some(json!({"type": "text", "text": OLD_PICTURE}))),
            (
                call("call.1:a", json!("{\"action\": ")),
                Some(json!({"type": "tool_use", "id": "call_1_a", "name": "computer",
                    "input": {"malformed_arguments": "{\"action\": "}})),
            ),
            (
                call("a", Value::Null),
                Some(json!({"type": "tool_use", "id": "a", "name": "computer", "input": {}})),
            ),
            (
                result("a", "", None, true),
                Some(json!({"type": "tool_result", "tool_use_id": "a", "is_error": true,
                    "content": [{"type": "text", "text": "The call failed."}]})),
            ),
            (
                result("a", "", Some(old), false),
                Some(json!({"type": "tool_result", "tool_use_id": "a",
                    "content": [{"type": "text", "text": OLD_PICTURE}]})),
            ),
            (
                result("a", "", None, false),
                Some(json!({"type": "tool_result", "tool_use_id": "a", "content": []})),
            ),
        ] {
            assert_eq!(block(&part), expected, "{part:?}");
        }
    }

    #[test]
    fn at_most_four_parts_of_a_request_are_cached() {
        let turns = (0..20).flat_map(|turn| {
            let id = format!("c{turn}");
            [
                user(vec![text("go on")]),
                assistant(vec![call(&id, json!({}))]),
                user(vec![result(&id, "done", None, false), text("and?")]),
                assistant(vec![text("yes")]),
            ]
        });
        let body = body(&request(turns.collect())).to_string();
        assert_eq!(body.matches("cache_control").count(), 4);
        let mut bare = request(vec![user(vec![text("hello")])]);
        (bare.system, bare.tools) = (String::new(), Vec::new());
        let body = super::body(&bare);
        assert!(body.get("system").is_none() && body.get("tools").is_none() && beta(&bare).is_none());
        assert_eq!(body.to_string().matches("cache_control").count(), 1);
    }

    #[test]
    fn thinking_has_the_form_of_its_model_and_fits_into_the_reply() {
        let answered = |begins_with_thinking: bool| {
            let thought = Content::Thinking { text: "Hm.".to_owned(), signature: Some("s".to_owned()) };
            let turn = if begins_with_thinking { vec![thought] } else { vec![text("I act.")] };
            let turn = turn.into_iter().chain([call("a", json!({}))]).collect();
            vec![user(vec![text("go")]), assistant(turn), user(vec![result("a", "done", None, false)])]
        };
        let fresh = || vec![user(vec![text("go")])];
        let longer = |begins_with_thinking: bool| {
            let mut messages = answered(begins_with_thinking);
            messages.extend(answered(!begins_with_thinking).into_iter().skip(1));
            messages
        };
        let enabled = |tokens: u32| Some(json!({"type": "enabled", "budget_tokens": tokens}));
        let adaptive = Some(json!({"type": "adaptive"}));
        for (model, messages, budget, max_tokens, expected) in [
            ("claude-sonnet-4-6", fresh(), None, 4096, None),
            ("claude-sonnet-4-6", fresh(), Some(2000), 4096, enabled(2000)),
            ("claude-sonnet-4-6", fresh(), Some(1), 4096, enabled(1024)),
            ("claude-sonnet-4-6", fresh(), Some(9000), 4096, enabled(4095)),
            ("claude-sonnet-4-6", fresh(), Some(2000), 1025, enabled(1024)),
            ("claude-sonnet-4-6", fresh(), Some(2000), 1024, None),
            ("claude-sonnet-4-6", fresh(), Some(2000), 0, None),
            ("claude-sonnet-4-6", answered(true), Some(2000), 4096, enabled(2000)),
            ("claude-sonnet-4-6", answered(false), Some(2000), 4096, None),
            ("claude-sonnet-4-6", longer(true), Some(2000), 4096, enabled(2000)),
            ("claude-sonnet-4-6", longer(false), Some(2000), 4096, None),
            ("claude-opus-4-7", answered(false), Some(2000), 4096, adaptive.clone()),
            ("claude-opus-4-7", fresh(), None, 4096, None),
        ] {
            let mut request = request(messages);
            (request.model, request.thinking_budget) = (model.to_owned(), budget);
            request.max_tokens = max_tokens;
            assert_eq!(body(&request).get("thinking").cloned(), expected, "{model} {budget:?} {max_tokens}");
        }
    }
}
