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
}

/// `GET /computers/{id}/suspension`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Suspension {
    /// `suspending` or `suspended`.
    pub status: String,
}

/// The answer to `POST /computers/{id}/resume`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Resumed {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// `running` (200), or `starting` (202): poll the computer.
    pub status: String,
    /// Whether it is still on its way up.
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
