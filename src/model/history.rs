//! Repair of a conversation before it is sent.
//!
//! Servers refuse a conversation in which a call has no result or a result no call. A run that was
//! interrupted, or a thread of which only a part is sent, leaves such ones.

use crate::conversation::{Content, Message, Role, ToolResult};

/// Result of a call that was interrupted.
const INTERRUPTED: &str = "This call has no result: it was interrupted, and it may have been done or not.";

/// Returns the conversation with these changes: neighbours of one role are one message; each call has exactly
/// one result, in the next message and before its other parts; results without a call are text.
pub(crate) fn repaired(messages: &[Message]) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages.iter().filter(|message| !message.content.is_empty()) {
        match merged.last_mut() {
            Some(last) if last.role == message.role => last.content.extend(message.content.iter().cloned()),
            Some(_) | None => merged.push(message.clone()),
        }
    }
    let mut open: Vec<String> = Vec::new();
    let mut repaired = Vec::with_capacity(merged.len() + 1);
    for message in merged {
        match message.role {
            Role::Assistant => {
                open = calls(&message.content);
                repaired.push(message);
            }
            Role::User => repaired.push(answered(message.content, &mut open)),
        }
    }
    if !open.is_empty() {
        repaired.push(answered(Vec::new(), &mut open));
    }
    repaired
}

/// Returns the ids of the calls of a message, in order.
fn calls(content: &[Content]) -> Vec<String> {
    let ids = content.iter().filter_map(|part| match part {
        Content::ToolCall(call) => Some(call.id.clone()),
        Content::Text { .. }
        | Content::Image(_)
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolResult(_) => None,
    });
    ids.collect()
}

/// Returns the user's message that answers the calls in `open`, which is empty afterwards.
fn answered(content: Vec<Content>, open: &mut Vec<String>) -> Message {
    let (mut results, mut others) = (Vec::new(), Vec::new());
    for part in content {
        match part {
            Content::ToolResult(result) => match open.iter().position(|id| *id == result.call) {
                Some(at) => {
                    open.remove(at);
                    results.push(Content::ToolResult(result));
                }
                None => {
                    others
                        .push(Content::Text { text: format!("Result of an earlier call: {}", result.text) });
                    others.extend(result.image.map(Content::Image));
                }
            },
            Content::Text { .. }
            | Content::Image(_)
            | Content::Thinking { .. }
            | Content::RedactedThinking { .. }
            | Content::ToolCall(_) => others.push(part),
        }
    }
    results.extend(open.drain(..).map(|call| {
        Content::ToolResult(ToolResult { call, text: INTERRUPTED.to_owned(), image: None, is_error: true })
    }));
    results.extend(others);
    Message { role: Role::User, content: results }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::ToolCall;

    /// A conversation in short: `u:text`, `a:text`, `a!id` (a call), `u=id` (its result).
    fn conversation(short: &str) -> Vec<Message> {
        let parts = short.split_whitespace().map(|part| {
            let (head, rest) = part.split_at(2);
            let role = if head.starts_with('u') { Role::User } else { Role::Assistant };
            let content = match &head[1..] {
                ":" => Content::Text { text: rest.to_owned() },
                "!" => Content::ToolCall(ToolCall {
                    id: rest.to_owned(),
                    name: "f".to_owned(),
                    input: json!({}),
                }),
                "=" => Content::ToolResult(ToolResult {
                    call: rest.to_owned(),
                    text: "done".to_owned(),
                    image: None,
                    is_error: false,
                }),
                other => panic!("{other}"),
            };
            Message { role, content: vec![content] }
        });
        parts.collect()
    }

    /// The inverse, with `u?id` for an added result and `u~` for a result that is text now, and `|` between
    /// messages.
    fn short(messages: &[Message]) -> String {
        let messages = messages.iter().map(|message| {
            let role = if message.role == Role::User { "u" } else { "a" };
            let parts = message.content.iter().map(|part| match part {
                Content::Text { text } if text.starts_with("Result of") => format!("{role}~"),
                Content::Text { text } => format!("{role}:{text}"),
                Content::ToolCall(call) => format!("{role}!{}", call.id),
                Content::ToolResult(result) if result.is_error => format!("{role}?{}", result.call),
                Content::ToolResult(result) => format!("{role}={}", result.call),
                Content::Image(_) | Content::Thinking { .. } | Content::RedactedThinking { .. } => {
                    panic!("{part:?}")
                }
            });
            parts.collect::<Vec<_>>().join(" ")
        });
        messages.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn every_call_gets_exactly_one_result_in_the_next_message() {
        for (given, expected) in [
            ("u:hello", "u:hello"),
            ("u:a u:b", "u:a u:b"),
            ("u:a a!1 u=1 a:end", "u:a | a!1 | u=1 | a:end"),
            ("u:a a!1 a!2 u=2 u=1", "u:a | a!1 a!2 | u=2 u=1"),
            ("u:a a!1 u:wait u=1", "u:a | a!1 | u=1 u:wait"),
            ("u:a a!1", "u:a | a!1 | u?1"),
            ("u:a a!1 u:b", "u:a | a!1 | u?1 u:b"),
            ("u:a a!1 a!2 u=1 a:c", "u:a | a!1 a!2 | u=1 u?2 | a:c"),
            ("u=1 u:a", "u~ u:a"),
            ("u:a a!1 u=1 u=1", "u:a | a!1 | u=1 u~"),
            ("", ""),
        ] {
            assert_eq!(short(&repaired(&conversation(given))), expected, "{given}");
        }
    }
}
