//! Bodies of the actions that only wait or observe.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::ActionBody;
use crate::desktop::effect::{self, Area, Settle};
use crate::desktop::screenshot::ScreenshotQuery;
use crate::field;
use hotdesk_domain::limits::{self, MAX_WAIT_SECONDS};

/// `POST wait_stable`: waits until the screen stops changing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"quiet_ms": 200, "timeout_ms": 2000}))]
#[serde(deny_unknown_fields)]
pub struct WaitStable {
    /// Conditions.
    #[serde(flatten)]
    pub settle: Settle,
}

impl ActionBody for WaitStable {
    fn duration(&self) -> Duration {
        self.settle.duration()
    }
}

/// `POST wait_change`: waits until the screen changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"timeout_ms": 1000}))]
#[serde(deny_unknown_fields)]
pub struct WaitChange {
    /// Timeout in milliseconds, at most 60,000; 5,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60_000)]
    pub timeout_ms: Option<u32>,
    /// Only changes that overlap this part of the screen count.
    #[serde(default, deserialize_with = "field::or_null", skip_serializing_if = "Option::is_none")]
    pub region: Option<Area>,
    /// Changes of at most this number of pixels are ignored; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_pixels: Option<u32>,
    /// Options for a screenshot at the end, which is part of the answer; no screenshot when absent.
    #[serde(default, deserialize_with = "field::or_null", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotQuery>,
}

impl ActionBody for WaitChange {
    fn duration(&self) -> Duration {
        effect::watch_duration(self.timeout_ms)
    }
}

/// `POST wait`. One of the two fields is required.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"seconds": 0.5}))]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Time to wait in seconds, 0 to 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60)]
    pub seconds: Option<f64>,
    /// Older name of `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
}

impl ActionBody for Wait {
    fn duration(&self) -> Duration {
        limits::bounded_seconds(self.seconds.or(self.duration).unwrap_or(0.0), MAX_WAIT_SECONDS)
    }
}

// A screenshot is an action only in a batch: it takes no time and has no position.
impl ActionBody for ScreenshotQuery {}
