//! How do clients suspend, wake and let idle computers sleep? (interface.md "Suspend" and "Suspension state", wire.md 5.2)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer to `POST /computers/{id}/suspend`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Suspended {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// `suspended` (200), or `suspending` (202): poll the suspension.
    pub status: String,
    /// Present while its copy is being saved to storage in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<SavingCopy>,
}

/// The copy of a suspended computer that is on its way to storage. The computer may be resumed or deleted meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SavingCopy {
    /// Always `saving`.
    pub state: String,
    /// Where it goes, if that is configured.
    pub region: Option<String>,
}

/// `GET /computers/{id}/suspension`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Suspension {
    /// `suspending` or `suspended`.
    pub status: String,
    /// Present while its copy is being saved to storage in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<SavingCopy>,
}

/// The answer to `POST /computers/{id}/resume`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Resumed {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// `running`, or `starting` while it is on its way.
    pub status: String,
    /// Whether it is on its way up, or woke from storage (202): poll the computer, whose instance id may be new.
    pub waking: bool,
    /// As `waking`.
    pub pending: bool,
    /// Seconds after which it should be there; 0 when it is.
    pub expected_seconds: u32,
}

/// `GET /computers/{id}/auto-stop`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AutoStopSetting {
    /// Idle minutes before the computer suspends itself; 0 is always-on.
    pub auto_stop_minutes: i64,
    /// Whether it can be changed: always.
    pub configurable: bool,
}

/// `PATCH /computers/{id}/auto-stop`. One of the two is needed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"auto_stop_minutes": 15}))]
pub struct SetAutoStop {
    /// Idle minutes before the computer suspends itself, 0 (always-on) to 43200.
    #[serde(default)]
    pub auto_stop_minutes: Option<i64>,
    /// Older name of `auto_stop_minutes`.
    #[serde(default)]
    pub minutes: Option<i64>,
}

/// The answer to `PATCH /computers/{id}/auto-stop`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AutoStopSet {
    /// Idle minutes before the computer suspends itself; 0 is always-on.
    pub auto_stop_minutes: i64,
    /// The same in words: `15m`, or `0s` for always-on.
    pub auto_suspend_after: String,
}
