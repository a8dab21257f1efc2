//! Requests of OpenAI's Chat Completions API: `POST /chat/completions`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::computer;
use crate::arguments;
use crate::conversation::{Content, Image, Message, ModelRequest, Role, Tool, ToolCall, ToolResult};
use crate::history::repaired;

/// Text of a picture that is not in the conversation any more.
const OLD_PICTURE: &str = "(An earlier picture, which is not shown again.)";

/// Name of the field for the most tokens of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenField {
    /// `max_completion_tokens`: OpenAI's newer models refuse the other name.
    Newer,
    /// `max_tokens`: every other server knows it.
    Older,
}

impl TokenField {
    /// Returns the field that a host expects.
    pub fn of_host(host: &str) -> Self {
        let is_newer = ["openai.com", "openai.azure.com"]
            .iter()
            .any(|domain| host == *domain || host.ends_with(&format!(".{domain}")));
        if is_newer { Self::Newer } else { Self::Older }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Newer => "max_completion_tokens",
            Self::Older => "max_tokens",
        }
    }
}

/// Most tokens of thinking that are a low and a medium effort: gateways map them so, too.
const LOW_EFFORT: u32 = 1024;
const MEDIUM_EFFORT: u32 = 2048;
/// Field with the effort.
pub(super) const EFFORT_FIELD: &str = "reasoning_effort";

/// Returns the body of a request. Thinking is asked for by [`EFFORT_FIELD`] if `has_effort`, because some
/// models and servers refuse that field.
pub(super) fn body(request: &ModelRequest, tokens: TokenField, has_effort: bool) -> Value {
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    for message in repaired(&request.messages) {
        match message.role {
            Role::User => push_user(&message, &mut messages),
            Role::Assistant => messages.extend(assistant(&message)),
        }
    }
    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    body[tokens.name()] = request.max_tokens.into();
    if let Some(budget) = request.thinking_budget.filter(|_| has_effort) {
        body[EFFORT_FIELD] = effort(budget).into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(definition).collect();
    }
    body
}

/// Returns the effort for a number of tokens of thinking.
const fn effort(budget: u32) -> &'static str {
    if budget <= LOW_EFFORT {
        "low"
    } else if budget <= MEDIUM_EFFORT {
        "medium"
    } else {
        "high"
    }
}

fn definition(tool: &Tool) -> Value {
    match tool {
        Tool::Computer { width, height } => computer::definition(*width, *height),
        Tool::Function { name, description, schema } => json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        }),
    }
}

/// Adds the messages for one of the user: results of tools, which are messages of their own, then the rest.
/// Results hold no pictures, so these are in the rest.
fn push_user(message: &Message, messages: &mut Vec<Value>) {
    let mut parts = Vec::new();
    for part in &message.content {
        match part {
            Content::Text { text } => parts.push(text_part(text)),
            Content::Image(image) => parts.push(picture(image)),
            Content::ToolResult(result) => {
                messages.push(tool_message(result));
                if let Some(image) = &result.image {
                    parts.push(text_part(&format!("Picture of the call {}:", result.call)));
                    parts.push(picture(image));
                }
            }
            // Only the model thinks and calls.
            Content::Thinking { .. } | Content::RedactedThinking { .. } | Content::ToolCall(_) => {}
        }
    }
    if parts.is_empty() {
        return;
    }
    let has_picture = parts.iter().any(|part| part["type"] == "image_url");
    // Servers of models without eyes know only texts.
    let content = if has_picture { Value::from(parts) } else { Value::from(joined(&parts)) };
    messages.push(json!({"role": "user", "content": content}));
}

/// Returns the texts of parts, one below the other.
fn joined(parts: &[Value]) -> String {
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n")
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn picture(image: &Image) -> Value {
    if image.data.is_empty() {
        return text_part(OLD_PICTURE);
    }
    let url = format!("data:{};base64,{}", image.media_type, STANDARD.encode(&image.data));
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn tool_message(result: &ToolResult) -> Value {
    let text = match (result.text.trim().is_empty(), result.is_error, &result.image) {
        (true, true, _) => "The call failed.".to_owned(),
        (false, true, _) => format!("Error: {}", result.text),
        (true, false, Some(_)) => "The picture follows.".to_owned(),
        (true, false, None) => "Done, without output.".to_owned(),
        (false, false, _) => result.text.clone(),
    };
    json!({"role": "tool", "tool_call_id": result.call, "content": text})
}

/// Returns a message of the model, or `None` when it only thought.
fn assistant(message: &Message) -> Option<Value> {
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for part in &message.content {
        match part {
            Content::Text { text } => texts.push(text.as_str()),
            Content::ToolCall(call) => calls.push(tool_call(call)),
            Content::Image(_)
            | Content::Thinking { .. }
            | Content::RedactedThinking { .. }
            | Content::ToolResult(_) => {}
        }
    }
    if texts.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if texts.is_empty() { Value::Null } else { Value::from(texts.join("\n")) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    Some(message)
}

fn tool_call(call: &ToolCall) -> Value {
    // Servers parse the text, so it has to be an object.
    let arguments = arguments::object(&call.input).to_string();
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn text(text: &str) -> Content {
        Content::Text { text: text.to_owned() }
    }

    fn image(data: &'static [u8]) -> Image {
        Image { media_type: "image/webp".to_owned(), data: Bytes::from_static(data) }
    }

    fn call(id: &str, input: Value) -> Content {
        Content::ToolCall(ToolCall { id: id.to_owned(), name: "computer".to_owned(), input })
    }

    fn result(id: &str, text: &str, image: Option<Image>, is_error: bool) -> Content {
        Content::ToolResult(ToolResult { call: id.to_owned(), text: text.to_owned(), image, is_error })
    }

    fn user(content: Vec<Content>) -> Message {
        Message { role: Role::User, content }
    }

    fn assistant(content: Vec<Content>) -> Message {
        Message { role: Role::Assistant, content }
    }

    fn request(messages: Vec<Message>, tools: Vec<Tool>) -> ModelRequest {
        let (model, system) = ("qwen".to_owned(), "Be brief.".to_owned());
        ModelRequest { model, system, messages, tools, max_tokens: 100, thinking_budget: Some(5) }
    }

    #[test]
    fn a_conversation_with_tools_is_the_vendors_document() {
        let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
        let request = request(
            vec![
                user(vec![text("Look."), Content::Image(image(b"a"))]),
                assistant(vec![
                    Content::Thinking { text: "Hm.".to_owned(), signature: None },
                    call("call_1", json!({"action": "screenshot"})),
                    call("call_2", json!("{\"action\"")),
                ]),
                user(vec![
                    result("call_1", "", Some(image(b"b")), false),
                    result("call_2", "no object", None, true),
                ]),
                assistant(vec![Content::RedactedThinking { data: "x".to_owned() }]),
                user(vec![text("And?"), text("Now?")]),
                assistant(vec![text("Done.")]),
                user(vec![Content::Image(image(b""))]),
            ],
            vec![Tool::Function {
                name: "bash".to_owned(),
                description: "Runs a command.".to_owned(),
                schema: schema.clone(),
            }],
        );
        let arguments = |value: Value| value.to_string();
        assert_eq!(
            body(&request, TokenField::Older, false),
            json!({
                "model": "qwen",
                "max_tokens": 100,
                "stream": true,
                "stream_options": {"include_usage": true},
                "tools": [{"type": "function", "function":
                    {"name": "bash", "description": "Runs a command.", "parameters": schema}}],
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": [
                        {"type": "text", "text": "Look."},
                        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,YQ=="}}]},
                    {"role": "assistant", "content": null, "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "computer",
                            "arguments": arguments(json!({"action": "screenshot"}))}},
                        {"id": "call_2", "type": "function", "function": {"name": "computer",
                            "arguments": arguments(json!({"malformed_arguments": "{\"action\""}))}}]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "The picture follows."},
                    {"role": "tool", "tool_call_id": "call_2", "content": "Error: no object"},
                    {"role": "user", "content": [
                        {"type": "text", "text": "Picture of the call call_1:"},
                        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,Yg=="}}]},
                    {"role": "user", "content": "And?\nNow?"},
                    {"role": "assistant", "content": "Done."},
                    {"role": "user", "content": OLD_PICTURE},
                ],
            })
        );
    }

    #[test]
    fn results_always_have_a_text() {
        for (given, is_error, picture, expected) in [
            ("42", false, false, "42"),
            ("42", true, false, "Error: 42"),
            ("", true, false, "The call failed."),
            ("", false, true, "The picture follows."),
            (" ", false, false, "Done, without output."),
        ] {
            let image = picture.then(|| image(b"a"));
            let result = ToolResult { call: "c".to_owned(), text: given.to_owned(), image, is_error };
            assert_eq!(tool_message(&result)["content"], expected, "{given:?} {is_error} {picture}");
        }
    }

    #[test]
    fn only_openai_gets_its_newer_field() {
        for (host, newer) in [
            ("api.openai.com", true),
            ("openai.com", true),
            ("desk.openai.azure.com", true),
            ("openai.com.example.org", false),
            ("notopenai.com", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(TokenField::of_host(host) == TokenField::Newer, newer, "{host}");
        }
        let request = request(vec![user(vec![text("hi")])], Vec::new());
        let body = body(&request, TokenField::Newer, true);
        assert_eq!((&body["max_completion_tokens"], &body["reasoning_effort"]), (&json!(100), &json!("low")));
        assert!(body.get("max_tokens").is_none() && body.get("tools").is_none());
    }

    #[test]
    fn thinking_is_an_effort() {
        for (budget, has_effort, expected) in [
            (None, true, None),
            (Some(1024), false, None),
            (Some(1024), true, Some("low")),
            (Some(1025), true, Some("medium")),
            (Some(2048), true, Some("medium")),
            (Some(4095), true, Some("high")),
        ] {
            let mut request = request(vec![user(vec![text("hi")])], Vec::new());
            request.thinking_budget = budget;
            let body = body(&request, TokenField::Older, has_effort);
            assert_eq!(body.get(EFFORT_FIELD).and_then(Value::as_str), expected, "{budget:?} {has_effort}");
        }
    }

    #[test]
    fn the_computer_is_a_function_with_the_fields_of_anthropics_tool() {
        let definition = computer::definition(1280, 720);
        assert_eq!(definition["function"]["name"], "computer");
        let parameters = &definition["function"]["parameters"];
        let mut fields: Vec<&String> = parameters["properties"].as_object().expect("fields").keys().collect();
        fields.sort();
        assert_eq!(
            fields,
            [
                "action",
                "coordinate",
                "duration",
                "scroll_amount",
                "scroll_direction",
                "start_coordinate",
                "text"
            ]
        );
        assert!(definition["function"]["description"].as_str().expect("text").contains("1280"));
        assert_eq!(parameters["properties"]["action"]["enum"].as_array().map(Vec::len), Some(16));
    }
}
