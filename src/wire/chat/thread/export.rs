//! Lines of the export of a chat thread.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ThreadRole, ThreadStepRecord};

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
