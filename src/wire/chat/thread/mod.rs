//! Chat threads (docs/api/threads.md).

mod export;
mod message;
mod overview;
mod step;

pub use export::{ThreadExport, ThreadExportLine, ThreadExportMessage};
pub use message::{MakeThreadTitle, ThreadMessage, ThreadRole, ThreadTitleMessage};
pub use overview::{ThreadOverview, ThreadOverviewQuery};
pub use step::{ThreadStepPage, ThreadStepQuery, ThreadStepRecord, ThreadToolCall, ThreadUsage};

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::desktop::action::control::ActorName;

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
    /// Id of the computer.
    pub computer_id: String,
    /// `active` or `archived`.
    pub status: String,
    /// Title; absent when nobody set or made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The newest messages, oldest first: at most 20, and 8 KiB of them (1 KiB in `GET /threads`).
    pub messages: Vec<ThreadMessage>,
    /// Number of all messages, also of those without a text.
    pub message_count: i64,
    /// State of the last run: `running`, `done`, `confirm`, `max_steps`, `max_tokens`, `max_cost`, `refused`,
    /// `control_held`, `cancelled`, `failed` or `interrupted`; absent without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What the run waits for: `control` or `help`; absent when it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Tokens of all turns of the runs that ended.
    pub usage: ThreadUsage,
    /// Cost of these turns in millionths of a cent.
    pub cost_microcents: i64,
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
    /// `control_held`, `cancelled`, `failed` or `interrupted`; absent without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What the run waits for: `control` of its screen, or `help` by a person; absent when it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Who controls the screen, while the run waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<ActorName>,
    /// What the model needs, while it waits for help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help_message: Option<String>,
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

/// The answer to `POST /chat/threads/{id}/stop`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadStopped {
    /// Id of the thread.
    #[serde(rename = "remoteId")]
    pub remote_id: String,
    /// True when this request ended a run; false when none was in progress.
    pub stopped: bool,
    /// State of the last run: `cancelled` after a stop; absent without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
