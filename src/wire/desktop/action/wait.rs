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

/// Action `cursor_position` of a batch: where the pointer is, and the pressed buttons and modifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PointerQuery {
    /// `frame` of a screenshot: the answer is in its pixels, also outside of it. Without it, in screen pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
}

/// Action `zoom` of a batch: a screenshot of a part of the screen at full scale.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Zoom {
    /// Distance from the left edge, in pixels.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Distance from the top edge, in pixels.
    #[schema(minimum = 0)]
    pub y: f64,
    /// Width, in pixels; above 0.
    #[schema(minimum = 0)]
    pub width: f64,
    /// Height, in pixels; above 0.
    #[schema(minimum = 0)]
    pub height: f64,
    /// `frame` of the screenshot from which the part was read: it is in the pixels of that picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// Options for the picture; its `region` has no effect.
    #[serde(default, deserialize_with = "field::or_null", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<ScreenshotQuery>,
}

// These are actions only in a batch: they take no time, and no position of theirs is input.
impl ActionBody for ScreenshotQuery {}
impl ActionBody for PointerQuery {}
impl ActionBody for Zoom {}
