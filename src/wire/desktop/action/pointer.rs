//! Bodies of the actions of the pointer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{ActionBody, Coordinates};
use super::timeline::ActionRecord;
use crate::desktop::effect::Options;
use hotdesk_domain::desktop::pointer::MAX_DRAG_SECONDS;
use hotdesk_domain::limits;

/// `POST click`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360}))]
#[serde(deny_unknown_fields)]
pub struct Click {
    /// Distance from the left edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub y: f64,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// True for a double click.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double: Option<bool>,
    /// Number of clicks, 1 to 3; it takes precedence over `double`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3)]
    pub count: Option<u8>,
    /// Modifier keys to hold during the action: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

impl ActionBody for Click {
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn positions(&mut self) -> Vec<Coordinates<'_>> {
        vec![[Some(&mut self.x), Some(&mut self.y)]]
    }

    fn record(&self, entry: &mut ActionRecord) {
        (entry.x, entry.y) = (Some(self.x), Some(self.y));
        entry.button = Some(button(self.button.as_ref()));
        entry.count = Some(self.count.unwrap_or(if self.double == Some(true) { 2 } else { 1 }));
    }
}

/// `POST move`: moves the pointer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360}))]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// Distance from the left edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    #[schema(minimum = 0)]
    pub y: f64,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

impl ActionBody for Move {
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn positions(&mut self) -> Vec<Coordinates<'_>> {
        vec![[Some(&mut self.x), Some(&mut self.y)]]
    }

    fn record(&self, entry: &mut ActionRecord) {
        (entry.x, entry.y) = (Some(self.x), Some(self.y));
    }
}

/// `POST mouse_down` and `POST mouse_up`. Without `x` and `y` the position is that of the pointer. Pressed
/// buttons are released when the screen has had no action for a minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360, "button": "left"}))]
#[serde(deny_unknown_fields)]
pub struct PointerButton {
    /// Distance from the left edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Distance from the top edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

impl ActionBody for PointerButton {
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn positions(&mut self) -> Vec<Coordinates<'_>> {
        vec![[self.x.as_mut(), self.y.as_mut()]]
    }

    fn record(&self, entry: &mut ActionRecord) {
        (entry.x, entry.y) = (self.x, self.y);
        entry.button = Some(button(self.button.as_ref()));
    }
}

/// `POST drag`: from a start point to an end point, or along a path. Without `start_x` and `start_y` it starts
/// where the pointer is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"start_x": 10, "start_y": 10, "end_x": 200, "end_y": 120, "duration": 0.1}))]
#[serde(deny_unknown_fields)]
pub struct Drag {
    /// X of the start point, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_x: Option<f64>,
    /// Y of the start point, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_y: Option<f64>,
    /// X of the end point, in pixels; required without `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_x: Option<f64>,
    /// Y of the end point, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_y: Option<f64>,
    /// Points `[x, y]` of the path in pixels, with start and end; 2 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 2, max_items = 1000)]
    pub path: Option<Vec<[f64; 2]>>,
    /// `left` (default), `right`, `middle`, `back` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle|back|forward)$")]
    pub button: Option<String>,
    /// Duration of the movement in seconds, at most 30; 0.5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub duration: Option<f64>,
    /// Modifier keys to hold during the action: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

impl ActionBody for Drag {
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn duration(&self) -> Duration {
        limits::bounded_seconds(self.duration.unwrap_or(0.0), MAX_DRAG_SECONDS)
    }

    fn positions(&mut self) -> Vec<Coordinates<'_>> {
        let ends =
            [[self.start_x.as_mut(), self.start_y.as_mut()], [self.end_x.as_mut(), self.end_y.as_mut()]];
        let path = self.path.iter_mut().flatten().map(|[x, y]| [Some(x), Some(y)]);
        path.chain(ends).collect()
    }

    fn record(&self, entry: &mut ActionRecord) {
        let path = self.path.as_deref().unwrap_or_default();
        let (start, end) = (path.first(), path.last());
        entry.x = self.start_x.or(start.map(|[x, _]| *x));
        entry.y = self.start_y.or(start.map(|[_, y]| *y));
        entry.end_x = self.end_x.or(end.map(|[x, _]| *x));
        entry.end_y = self.end_y.or(end.map(|[_, y]| *y));
        entry.button = Some(button(self.button.as_ref()));
    }
}

/// `POST scroll`. Without `x` and `y` the position is that of the pointer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"x": 640, "y": 360, "direction": "down", "amount": 3}))]
#[serde(deny_unknown_fields)]
pub struct Scroll {
    /// `up`, `down`, `left` or `right`.
    #[schema(pattern = "^(up|down|left|right)$")]
    pub direction: String,
    /// Number of wheel steps, 0 to 500; 3 when absent. Fractions accumulate over requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 500)]
    pub amount: Option<f64>,
    /// Distance from the left edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Distance from the top edge of the screen, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
    /// Duration over which the steps are spread, in seconds, at most 30; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub duration: Option<f64>,
    /// Modifier keys to hold during the action: `ctrl`, `shift`, `alt`, `super`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifiers: Option<Vec<String>>,
    /// Options that every action accepts.
    #[serde(flatten)]
    pub options: Options,
}

impl ActionBody for Scroll {
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn duration(&self) -> Duration {
        limits::bounded_seconds(self.duration.unwrap_or(0.0), MAX_DRAG_SECONDS)
    }

    fn positions(&mut self) -> Vec<Coordinates<'_>> {
        vec![[self.x.as_mut(), self.y.as_mut()]]
    }

    fn record(&self, entry: &mut ActionRecord) {
        (entry.x, entry.y) = (self.x, self.y);
        entry.direction = Some(self.direction.clone());
        entry.amount = self.amount;
    }
}

/// Name of a pointer button; the left one when absent.
fn button(name: Option<&String>) -> String {
    name.cloned().unwrap_or_else(|| "left".to_owned())
}
