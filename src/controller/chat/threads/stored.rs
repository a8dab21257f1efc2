//! Stored forms of messages, calls and values of threads.

use serde_json::{Value, json};

use super::MessageText;
use hotdesk_domain::desktop::thread::MAX_STEP_FIELD;
use hotdesk_domain::error::{Error, Result};
use hotdesk_model::conversation::{Content, Message, ToolCall};
use hotdesk_store::fleet::threads::StoredMessage;

/// Longest id and name of a call whose arguments are left out, in bytes. Those of real tools have tens.
const MAX_CALL_NAME: usize = 1024;

/// A stored message, as a conversation has it.
pub(super) fn parse_message(stored: &StoredMessage) -> Result<Message> {
    serde_json::from_str(&stored.content).map_err(Error::internal)
}

/// A text of a client as a stored message.
pub(super) fn message_text(message: MessageText) -> Result<String> {
    let content = vec![Content::Text { text: message.text }];
    serde_json::to_string(&Message { role: message.role, content }).map_err(Error::internal)
}

/// The messages that have a text.
pub(super) fn texts(stored: &[StoredMessage]) -> Result<Vec<MessageText>> {
    let mut found = Vec::with_capacity(stored.len());
    for stored in stored {
        let message = parse_message(stored)?;
        let parts = message.content.iter().filter_map(|part| match part {
            Content::Text { text } => Some(text.as_str()),
            Content::Image(_)
            | Content::Thinking { .. }
            | Content::RedactedThinking { .. }
            | Content::ToolCall(_)
            | Content::ToolResult(_) => None,
        });
        let text = parts.collect::<Vec<_>>().join("\n");
        if !text.is_empty() {
            found.push(MessageText { role: message.role, text });
        }
    }
    Ok(found)
}

/// A call as JSON, without its arguments when they are too large.
pub(super) fn call_text(call: &ToolCall) -> Result<String> {
    let text = serde_json::to_string(call).map_err(Error::internal)?;
    if text.len() <= MAX_STEP_FIELD {
        return Ok(text);
    }
    let (id, name) = (cut_name(&call.id), cut_name(&call.name));
    let bounded = json!({"id": id, "name": name, "input": {"omitted_bytes": text.len()}});
    serde_json::to_string(&bounded).map_err(Error::internal)
}

/// The beginning of an id or a name, which a model may make long.
fn cut_name(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_CALL_NAME)]
}

/// A value as JSON; `None` when it is too large.
pub(super) fn value_text(value: Option<&Value>) -> Result<Option<String>> {
    let Some(value) = value else { return Ok(None) };
    let text = serde_json::to_string(value).map_err(Error::internal)?;
    Ok((text.len() <= MAX_STEP_FIELD).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hotdesk_base::time::UnixMillis;
    use hotdesk_model::conversation::{Image, Role, ToolResult};

    #[test]
    fn texts_are_those_of_people_and_models() {
        let picture = Image { media_type: "image/png".to_owned(), data: Bytes::from_static(b"secret") };
        let text = |text: &str| Content::Text { text: text.to_owned() };
        let result = ToolResult {
            call: "1".to_owned(),
            text: "output".to_owned(),
            image: Some(picture.clone()),
            is_error: false,
        };
        let messages = [
            (Role::User, vec![text("a"), Content::Image(picture), text("b")]),
            (Role::Assistant, vec![Content::Thinking { text: "t".to_owned(), signature: None }]),
            (Role::User, vec![Content::ToolResult(result)]),
            (Role::Assistant, vec![text("c")]),
        ];
        let stored = messages.map(|(role, content)| {
            let content = serde_json::to_string(&Message { role, content }).unwrap();
            assert!(!content.contains("secret"), "{content}");
            StoredMessage { number: 1, content, created_at: UnixMillis::new(0) }
        });
        let expected = [(Role::User, "a\nb"), (Role::Assistant, "c")]
            .map(|(role, text)| MessageText { role, text: text.to_owned() });
        assert_eq!(texts(&stored).unwrap(), expected);
        let damaged = StoredMessage { content: "{".to_owned(), ..stored[0].clone() };
        assert!(texts(&[damaged]).is_err());
    }

    #[test]
    fn large_values_of_steps_are_left_out() {
        let large = "x".repeat(MAX_STEP_FIELD);
        let call = |input| ToolCall { id: large.clone(), name: "bash".to_owned(), input };
        let text = call_text(&call(json!({"command": large}))).unwrap();
        let read: ToolCall = serde_json::from_str(&text).unwrap();
        assert!(read.input["omitted_bytes"].is_u64() && read.name == "bash", "{}", read.input);
        let small = ToolCall { id: "1".to_owned(), ..call(json!({"command": "ls"})) };
        assert_eq!(serde_json::from_str::<ToolCall>(&call_text(&small).unwrap()).unwrap(), small);
        assert_eq!(value_text(Some(&json!(large))).unwrap(), None);
        assert_eq!(value_text(Some(&json!({"a": 1}))).unwrap().as_deref(), Some("{\"a\":1}"));
        assert_eq!(value_text(None).unwrap(), None);
    }
}
