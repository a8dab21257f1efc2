//! Chat threads (docs/api/threads.md).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

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

/// The query of `GET /chat/threads`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ThreadListQuery {
    /// Id of the computer.
    #[serde(default, rename = "desktopId")]
    pub desktop_id: Option<String>,
    /// Another name of `desktopId`.
    #[serde(default)]
    pub computer_id: Option<String>,
}

impl ThreadListQuery {
    /// Returns the id of the computer; `None` when it is missing or empty.
    pub fn computer(&self) -> Option<&str> {
        [&self.desktop_id, &self.computer_id]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .find(|id| !id.is_empty())
    }
}

/// A thread in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadSummary {
    /// Id, `thr_` and 32 hex digits.
    pub id: String,
    /// The same as `id`.
    #[serde(rename = "remoteId")]
    pub remote_id: String,
    /// `active` or `archived`.
    pub status: String,
    /// Title; absent when nobody set or made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The newest messages, oldest first: at most 20, and 8 KiB of them.
    pub messages: Vec<ThreadMessage>,
    /// Number of all messages, also of those without a text.
    pub message_count: i64,
    /// State of the last run: `running`, `done`, `cancelled`, `failed` or `interrupted`; absent without a
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last change, ISO 8601.
    pub updated_at: String,
}

/// `GET /chat/threads`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadList {
    /// Threads of the computer, the last changed first.
    pub threads: Vec<ThreadSummary>,
}

/// `POST /chat/threads`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"desktopId": "5f0c8a52-3a1e-4f7b-9a44-0c6c2a1d9b10"}))]
#[serde(deny_unknown_fields)]
pub struct CreateThread {
    /// Id of the computer.
    #[serde(rename = "desktopId", alias = "computer_id")]
    pub desktop_id: String,
    /// The client's own id of the thread. It is not stored; the answer has it as `externalId`.
    #[serde(default, rename = "localId", skip_serializing_if = "Option::is_none")]
    pub local_id: Option<String>,
}

/// The answer to `POST /chat/threads`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadCreated {
    /// Id of the new thread.
    #[serde(rename = "remoteId")]
    pub remote_id: String,
    /// `localId` of the request.
    #[serde(default, rename = "externalId", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

/// `GET /chat/threads/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadRecord {
    /// Id, `thr_` and 32 hex digits.
    #[serde(rename = "remoteId")]
    pub remote_id: String,
    /// `active` or `archived`.
    pub status: String,
    /// Title; absent when nobody set or made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Messages that have a text, oldest first.
    pub messages: Vec<ThreadMessage>,
    /// Id of the computer.
    pub computer_id: String,
    /// Account that began the thread; absent when it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// State of the last run: `running`, `done`, `confirm`, `max_steps`, `max_tokens`, `max_cost`, `refused`,
    /// `cancelled`, `failed` or `interrupted`; absent without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why the last run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Number of steps.
    pub step_count: i64,
    /// Tokens of all turns of the runs that ended.
    pub usage: ThreadUsage,
    /// Cost of these turns in millionths of a cent.
    pub cost_microcents: i64,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last change, ISO 8601.
    pub updated_at: String,
}

/// `PATCH /chat/threads/{id}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"title": "Poem in the editor"}))]
#[serde(deny_unknown_fields)]
pub struct ChangeThread {
    /// The new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub title: Option<String>,
    /// Messages that replace all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 4000)]
    pub messages: Option<Vec<ThreadMessage>>,
    /// True archives the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<bool>,
    /// True makes the thread active again, unless `archive` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unarchive: Option<bool>,
}

impl ChangeThread {
    /// Returns whether the thread is to be archived; `None` leaves it.
    pub fn archived(&self) -> Option<bool> {
        let is_true = |flag: Option<bool>| flag.unwrap_or_default();
        if is_true(self.archive) { Some(true) } else { is_true(self.unarchive).then_some(false) }
    }
}

/// The answer to `PATCH /chat/threads/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadChanged {
    /// Id of the thread.
    #[serde(rename = "remoteId")]
    pub remote_id: String,
    /// `active` or `archived`.
    pub status: String,
    /// Title; absent when nobody set or made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
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

/// The query of `GET /chat/threads/{id}/steps`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ThreadStepQuery {
    /// `next_cursor` of the previous page.
    #[serde(default)]
    #[param(pattern = "^[0-9]{1,18}$")]
    pub cursor: Option<String>,
    /// Largest number of steps, 1 to 200; 50 when absent.
    #[serde(default)]
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<u32>,
}

/// Call of a tool by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThreadToolCall {
    /// Id of the call, by the model's service.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, as the model wrote them; `{"omitted_bytes": N}` in place of more than 64 KiB.
    #[schema(value_type = Object)]
    pub input: Value,
}

/// Tokens of a turn of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ThreadUsage {
    /// Tokens of the request that were not read from a cache.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Tokens of the request that were cached.
    pub cache_read_tokens: u64,
    /// Tokens of the request that were written to the cache.
    pub cache_write_tokens: u64,
}

/// A step of a thread: one call of a tool and its result.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadStepRecord {
    /// Number of the step in its thread; later steps have higher numbers.
    pub number: i64,
    /// When the step was recorded, ISO 8601.
    pub created_at: String,
    /// The call.
    pub call: ThreadToolCall,
    /// Text of the model before the call.
    pub text: Option<String>,
    /// Result of the call for the model, cut after 64 KiB.
    pub result: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The action in the terms of `POST /computers/{id}/actions`; null for other tools, and above 64 KiB.
    #[schema(value_type = Option<Object>)]
    pub action: Option<Value>,
    /// Effect of the action; null where nothing was observed, and above 64 KiB.
    #[schema(value_type = Option<Object>)]
    pub effect: Option<Value>,
    /// Link to the screen after the call, valid for an hour; null without a stored picture.
    pub screenshot: Option<String>,
    /// Tokens of the model's turn.
    pub usage: ThreadUsage,
    /// Cost of the turn in millionths of a cent.
    pub cost_microcents: i64,
    /// Duration of the call in milliseconds.
    pub took_ms: i64,
}

/// `GET /chat/threads/{id}/steps`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadStepPage {
    /// Steps, in their order.
    pub steps: Vec<ThreadStepRecord>,
    /// Cursor of the next page; null on the last.
    pub next_cursor: Option<String>,
}

/// A line of `GET /chat/threads/{id}/export`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ThreadExportLine {
    /// The first line.
    Thread(ThreadExport),
    /// A message. They follow the thread, oldest first.
    Message(ThreadExportMessage),
    /// A step. They follow the messages, in their order.
    Step(ThreadStepRecord),
}

/// The thread of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadExport {
    /// Id of the thread.
    pub id: String,
    /// Id of the computer.
    pub computer_id: String,
    /// `active` or `archived`.
    pub status: String,
    /// Title.
    pub title: Option<String>,
    /// State of the last run.
    pub run: Option<String>,
    /// Why the last run failed.
    pub failure: Option<String>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last change, ISO 8601.
    pub updated_at: String,
}

/// A message of an export, with all its parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadExportMessage {
    /// Number of the message in its thread.
    pub number: i64,
    /// When it was stored, ISO 8601.
    pub created_at: String,
    /// Who wrote it; results of tools are the user's.
    pub role: ThreadRole,
    /// Its parts: `text`, `thinking`, `redacted_thinking`, `tool_call`, `tool_result`, and `image` without
    /// the picture.
    pub content: Vec<Value>,
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

    #[test]
    fn archive_wins() {
        for (archive, unarchive, expected) in [
            (None, None, None),
            (Some(true), None, Some(true)),
            (Some(true), Some(true), Some(true)),
            (None, Some(true), Some(false)),
            (Some(false), Some(false), None),
            (Some(false), Some(true), Some(false)),
        ] {
            let change = ChangeThread { archive, unarchive, ..ChangeThread::default() };
            assert_eq!(change.archived(), expected, "{archive:?} {unarchive:?}");
        }
    }

    #[test]
    fn both_names_of_the_computer_are_read() {
        for (query, expected) in [
            ("desktopId=a", Some("a")),
            ("computer_id=a", Some("a")),
            ("desktopId=&computer_id=a", Some("a")),
            ("desktopId=a&computer_id=b", Some("a")),
            ("desktopId=", None),
            ("", None),
        ] {
            let read: ThreadListQuery = serde_urlencoded::from_str(query).unwrap();
            assert_eq!(read.computer(), expected, "{query}");
        }
        let created: CreateThread = serde_json::from_value(json!({"computer_id": "a"})).unwrap();
        assert_eq!(created.desktop_id, "a");
    }
}
