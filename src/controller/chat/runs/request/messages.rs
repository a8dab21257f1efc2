//! Messages of the OpenAI API as messages of a conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use hotdesk_domain::desktop::image::detect_media_type;
use hotdesk_domain::error::{Error, Result};
use hotdesk_model::conversation::{Content, Image, Message, Role};
use hotdesk_wire::chat::completion::{ChatMessage, ContentPart, MessageContent};

/// Most messages of a request; with a thread, only new messages are sent.
const MAX_MESSAGES: usize = 1000;
/// Beginning of a picture in a URL (RFC 2397).
const DATA_URL: &str = "data:";

/// A message of the user.
pub(super) fn user(content: Vec<Content>) -> Message {
    Message { role: Role::User, content }
}

/// Returns the messages of the conversation, and the instructions in messages of the system.
pub(super) fn read_messages(messages: &[ChatMessage]) -> Result<(Vec<Message>, String)> {
    if messages.len() > MAX_MESSAGES {
        return Err(Error::invalid(format!(
            "messages must be at most {MAX_MESSAGES}: continue a thread instead"
        )));
    }
    let (mut read, mut instructions) = (Vec::new(), Vec::new());
    for message in messages {
        let content = read_content(message.content.as_ref())?;
        match message.role.as_str() {
            "user" if content.is_empty() => {
                return Err(Error::invalid("a message of the user has no content"));
            }
            "user" => read.push(user(content)),
            "assistant" if content.iter().any(|part| matches!(part, Content::Image(_))) => {
                return Err(Error::invalid("only messages of the user have pictures"));
            }
            "assistant" if content.is_empty() => {}
            "assistant" => read.push(Message { role: Role::Assistant, content }),
            "system" | "developer" => {
                let text = |part| match part {
                    Content::Text { text } => Some(text),
                    Content::Image(_)
                    | Content::Thinking { .. }
                    | Content::RedactedThinking { .. }
                    | Content::ToolCall(_)
                    | Content::ToolResult(_) => None,
                };
                instructions.extend(content.into_iter().filter_map(text));
            }
            _ => return Err(Error::invalid("role must be user, assistant, system or developer")),
        }
    }
    Ok((read, instructions.join("\n\n")))
}

/// Returns the parts of a message. Empty texts are left out, because back ends refuse them.
fn read_content(content: Option<&MessageContent>) -> Result<Vec<Content>> {
    let text = |text: &str| (!text.trim().is_empty()).then(|| Content::Text { text: text.to_owned() });
    let part = |part: &ContentPart| match (part.kind.as_str(), &part.text, &part.image_url) {
        ("text", Some(words), _) => Ok(text(words)),
        ("image_url", _, Some(image)) => picture(&image.url).map(|image| Some(Content::Image(image))),
        _ => Err(Error::invalid(
            "a part of a message must be a text with text, or an image_url with image_url",
        )),
    };
    match content {
        None => Ok(Vec::new()),
        Some(MessageContent::Text(words)) => Ok(text(words).into_iter().collect()),
        Some(MessageContent::Parts(parts)) => {
            let parts: Vec<Option<Content>> = parts.iter().map(part).collect::<Result<_>>()?;
            Ok(parts.into_iter().flatten().collect())
        }
    }
}

/// Reads a picture of the client. URLs of servers are refused: the controller fetches nothing for a model.
fn picture(url: &str) -> Result<Image> {
    let wrong = || Error::invalid("a picture must be data:image/png;base64, and a PNG, JPEG or WebP file");
    let (kind, encoded) =
        url.strip_prefix(DATA_URL).and_then(|data| data.split_once(',')).ok_or_else(wrong)?;
    if !kind.ends_with(";base64") {
        return Err(wrong());
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| wrong())?;
    let media_type = detect_media_type(&bytes).ok_or_else(wrong)?;
    Ok(Image { media_type: media_type.to_owned(), data: Bytes::from(bytes) })
}
