//! Messages of chat threads, and contents that are texts or lists of parts.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThreadRole {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A message of a thread: its text, without calls of tools, their results and pictures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ThreadMessage {
    /// Who wrote it.
    pub role: ThreadRole,
    /// Its text. A request may also have a list of parts, `[{"type": "text", "text": "..."}]`.
    #[serde(deserialize_with = "text")]
    #[schema(min_length = 1)]
    pub content: String,
}

/// A message from which a title is made. Parts that are no text are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadTitleMessage {
    /// Who wrote it: `user`, or anybody else.
    pub role: String,
    /// Its text, or a list of parts.
    #[serde(default, deserialize_with = "any_text")]
    pub content: String,
}

/// `POST /chat/threads/{id}/title`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"messages": [{"role": "user", "content": "Open the editor and write a poem."}]}))]
#[serde(deny_unknown_fields)]
pub struct MakeThreadTitle {
    /// Messages, of which the first three count; those of the thread when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<ThreadTitleMessage>>,
}

/// Content of a message in a request.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// Part of a content.
#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

impl Content {
    /// Joins the texts; `strict` fails on other parts.
    fn join(self, strict: bool) -> Result<String, &'static str> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::Parts(parts) => parts,
        };
        let mut texts = Vec::with_capacity(parts.len());
        for part in parts {
            match part.text.filter(|_| part.kind == "text") {
                Some(text) => texts.push(text),
                None if strict => return Err("a part of content must be a text"),
                None => {}
            }
        }
        Ok(texts.join("\n"))
    }
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = Content::deserialize(from)?.join(true).map_err(D::Error::custom)?;
    if text.is_empty() { Err(D::Error::custom("content must not be empty")) } else { Ok(text) }
}

fn any_text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Content::deserialize(from)?.join(false).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_are_texts_or_lists_of_them() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        let picture = json!([{"type": "text", "text": "a"}, {"type": "image", "image": "data:"}]);
        for (content, strict, lenient) in [
            (json!("a"), Some("a"), Some("a")),
            (parts, Some("a\nb"), Some("a\nb")),
            (picture, None, Some("a")),
            (json!(""), None, Some("")),
            (json!([]), None, Some("")),
            (json!([{"type": "text"}]), None, Some("")),
            (json!(1), None, None),
            (json!({"type": "text", "text": "a"}), None, None),
        ] {
            let message = json!({"role": "user", "content": content, "id": "1", "createdAt": "now"});
            let read = serde_json::from_value::<ThreadMessage>(message.clone()).ok();
            assert_eq!(read.as_ref().map(|it| it.content.as_str()), strict, "{content}");
            let read = serde_json::from_value::<ThreadTitleMessage>(message).ok();
            assert_eq!(read.as_ref().map(|it| it.content.as_str()), lenient, "{content}");
        }
        assert!(serde_json::from_value::<ThreadMessage>(json!({"role": "system", "content": "a"})).is_err());
    }
}
