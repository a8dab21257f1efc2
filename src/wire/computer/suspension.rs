//! Suspend, resume and auto-stop of a computer (docs/lifecycle.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer to `POST /computers/{id}/suspend`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Suspended)]
pub struct SuspendResult {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// `suspended` (200), or `suspending` (202): poll `GET /computers/{id}/suspension`.
    pub status: String,
    /// Present while a copy of its saved state is written to object storage in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<SavingCopy>,
}

/// Copy of a suspended computer that is being written to object storage. The computer can be resumed or
/// deleted meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SavingCopy {
    /// Always `saving`.
    pub state: String,
    /// Region of the storage, if it is configured.
    pub region: Option<String>,
}

/// `GET /computers/{id}/suspension`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Suspension {
    /// `suspending` or `suspended`.
    pub status: String,
    /// Present while a copy of its saved state is written to object storage in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<SavingCopy>,
}

/// The answer to `POST /computers/{id}/resume`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Resumed)]
pub struct ResumeResult {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// `running`, or `starting` while the resume is in progress.
    pub status: String,
    /// Whether the resume is in progress or was made from object storage (202): poll the computer, whose
    /// instance id may have changed.
    pub waking: bool,
    /// Same as `waking`.
    pub pending: bool,
    /// Expected remaining time, in seconds; 0 when the computer runs.
    pub expected_seconds: u32,
}

/// `GET /computers/{id}/auto-stop`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AutoStopSetting {
    /// Idle timeout in minutes, after which the computer is suspended; 0 means always on.
    pub auto_stop_minutes: i64,
    /// Whether it can be changed; always true.
    pub configurable: bool,
    /// Whether the idle computer is suspended with its memory. If not, it is stopped, what is in its memory is
    /// lost, and the next action starts it from its disk.
    pub keeps_memory: bool,
}

/// `PATCH /computers/{id}/auto-stop`. One of the two fields is required.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"auto_stop_minutes": 15}))]
#[serde(deny_unknown_fields)]
pub struct SetAutoStop {
    /// Idle timeout in minutes, 0 (always on) to 43200.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 43200)]
    pub auto_stop_minutes: Option<i64>,
    /// Older name of `auto_stop_minutes`.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 43200)]
    pub minutes: Option<i64>,
}

/// The answer to `PATCH /computers/{id}/auto-stop`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AutoStopSet)]
pub struct AutoStopChanged {
    /// Idle timeout in minutes; 0 means always on.
    pub auto_stop_minutes: i64,
    /// The same as a duration: `15m`, or `0s` for always on.
    pub auto_suspend_after: String,
    /// Whether the idle computer is suspended with its memory, as in `GET`.
    pub keeps_memory: bool,
}
