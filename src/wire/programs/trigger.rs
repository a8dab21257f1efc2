//! State of the triggers that a computer has from its template.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// `GET triggers`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct TriggerList {
    /// Triggers in the order of the template; empty while the hooks of the boot run.
    pub triggers: Vec<TriggerStatus>,
}

/// A trigger of a computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TriggerStatus {
    /// Its name in the template.
    pub name: String,
    /// Its title in the template.
    pub title: Option<String>,
    /// Type of its source, such as `cron`.
    pub source: String,
    /// `watching`, or `failed` while its source cannot be watched; it is retried.
    pub status: String,
    /// Why the source cannot be watched.
    pub error: Option<String>,
    /// Next time of a cron schedule, ISO 8601.
    pub next_at: Option<String>,
    /// How often its actions ran since the boot.
    pub run_count: u64,
    /// Events since the boot that led to no run: by its rule `dedup`, or because too many waited.
    pub dropped: u64,
    /// Its last runs, the newest first; at most 10.
    pub runs: Vec<TriggerRun>,
}

/// A run of a trigger's actions.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TriggerRun {
    /// When it began, ISO 8601.
    pub started_at: String,
    /// When it ended, ISO 8601; null while it runs.
    pub ended_at: Option<String>,
    /// `running`, `succeeded` or `failed`.
    pub status: String,
    /// The event; its fields depend on the source.
    #[schema(value_type = Object)]
    pub event: Value,
    /// Errors, one text for each action that failed.
    pub errors: Vec<String>,
}

/// `POST triggers/{trigger}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"event": {"path": "/root/inbox/a.txt"}}))]
#[serde(deny_unknown_fields)]
pub struct FireTrigger {
    /// Fields of the event for the actions; empty when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub event: Option<serde_json::Map<String, Value>>,
}
