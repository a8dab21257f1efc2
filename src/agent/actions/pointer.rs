//! Execution of the actions of the pointer: bounds, X requests and details of the answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ActionRunner, finish};
use crate::display::{Press, Screen, Wheel, keys};
use hotdesk_domain::desktop::pointer::{
    Button, Direction, MAX_CLICKS, MAX_DRAG_SECONDS, MAX_PATH_POINTS, Point, check_scroll_amount,
};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::action::{Click, Drag, Move, PointerButton, Scroll};
use hotdesk_wire::desktop::effect::ActionResult;

/// Default duration of a drag in seconds (docs/api/actions.md).
const DEFAULT_DRAG_SECONDS: f64 = 0.5;
/// Default wheel steps (docs/api/actions.md).
const DEFAULT_SCROLL_STEPS: f64 = 3.0;

impl ActionRunner {
    /// Clicks at a point.
    pub(super) async fn click(&self, screen: &Arc<Screen>, body: Click) -> Result<ActionResult> {
        let press = press(&body)?;
        let (name, double) = (click_name(press.count), press.count == 2);
        let (button, count) = (press.button.name(), press.count);
        let done = screen.click(body.x, body.y, press).await?;
        let Point { x, y } = done.value;
        let mut details = json!({"x": x, "y": y, "button": button, "double": double});
        if count > 2 {
            details["count"] = count.into();
        }
        finish(screen, name, details, done, body.options.settle).await
    }

    /// Moves the pointer.
    pub(super) async fn pointer_move(&self, screen: &Arc<Screen>, body: Move) -> Result<ActionResult> {
        let done = screen.move_to(body.x, body.y).await?;
        finish(screen, "move", at(done.value), done, body.options.settle).await
    }

    /// Presses a button and holds it.
    pub(super) async fn mouse_down(&self, screen: &Arc<Screen>, body: PointerButton) -> Result<ActionResult> {
        let button = Button::parse(body.button.as_deref())?;
        let done = screen.button_down(body.x, body.y, button).await?;
        self.release_later(screen);
        let details = with(at(done.value), "button", button.name());
        finish(screen, "mouse_down", details, done, body.options.settle).await
    }

    /// Releases a button.
    pub(super) async fn mouse_up(&self, screen: &Arc<Screen>, body: PointerButton) -> Result<ActionResult> {
        let button = Button::parse(body.button.as_deref())?;
        let done = screen.button_up(body.x, body.y, button).await?;
        let details = with(at(done.value), "button", button.name());
        finish(screen, "mouse_up", details, done, body.options.settle).await
    }

    /// Drags along a path.
    pub(super) async fn drag(&self, screen: &Arc<Screen>, body: Drag) -> Result<ActionResult> {
        let DragRequest { mut path, starts_at_pointer, press, duration } = drag(&body)?;
        if starts_at_pointer {
            let at = screen.pointer().await?.at;
            path.insert(0, (at.x.into(), at.y.into()));
        }
        let button = press.button.name();
        let done = screen.drag(path, press, duration).await?;
        let (start, end) = done.value;
        let details = json!({"start_x": start.x, "start_y": start.y, "end_x": end.x, "end_y": end.y,
            "button": button, "duration": duration.as_secs_f64()});
        finish(screen, "drag", details, done, body.options.settle).await
    }

    /// Turns the wheel.
    pub(super) async fn scroll(&self, screen: &Arc<Screen>, body: Scroll) -> Result<ActionResult> {
        let turn = turn(&body)?;
        let amount = turn.amount;
        let done = screen.scroll(turn, body.x, body.y).await?;
        let Point { x, y } = done.value.at;
        let mut details = json!({"direction": body.direction.to_ascii_lowercase(), "amount": number(amount), "x": x, "y": y});
        if amount.fract() != 0.0 {
            details["steps"] = done.value.steps.into();
            details["remainder"] = done.value.remainder.into();
        }
        finish(screen, "scroll", details, done, body.options.settle).await
    }
}

/// Parses the button, count and modifiers of a click.
fn press(body: &Click) -> Result<Press> {
    let count = body.count.unwrap_or(if body.double.unwrap_or(false) { 2 } else { 1 });
    if !(1..=MAX_CLICKS).contains(&count) {
        return Err(Error::invalid(format!("count must be 1 to {MAX_CLICKS}")));
    }
    Ok(Press {
        button: Button::parse(body.button.as_deref())?,
        count,
        modifiers: modifiers(body.modifiers.as_ref())?,
    })
}

/// Name of the action for a number of clicks (docs/api/actions.md).
fn click_name(count: u8) -> &'static str {
    match count {
        2 => "double_click",
        3 => "triple_click",
        _ => "click",
    }
}

/// Parameters of a drag.
#[derive(Debug)]
struct DragRequest {
    path: Vec<(f64, f64)>,
    /// Whether the path begins where the pointer is, before its first point.
    starts_at_pointer: bool,
    press: Press,
    duration: Duration,
}

/// Parses a drag's path, button and duration.
fn drag(body: &Drag) -> Result<DragRequest> {
    let path = match (&body.path, body.start_x, body.start_y, body.end_x, body.end_y) {
        (Some(path), None, None, None, None) => path.iter().map(|[x, y]| (*x, *y)).collect(),
        (None, Some(start_x), Some(start_y), Some(end_x), Some(end_y)) => {
            vec![(start_x, start_y), (end_x, end_y)]
        }
        (None, None, None, Some(end_x), Some(end_y)) => vec![(end_x, end_y)],
        (None, ..) => return Err(Error::invalid("start_x, start_y, end_x and end_y are needed, or a path")),
        (Some(_), ..) => return Err(Error::invalid("a drag has a start and an end, or a path, not both")),
    };
    let starts_at_pointer = body.path.is_none() && body.start_x.is_none();
    if !starts_at_pointer && !(2..=MAX_PATH_POINTS).contains(&path.len()) {
        return Err(Error::invalid(format!("path must have 2 to {MAX_PATH_POINTS} points")));
    }
    let press = Press {
        button: Button::parse(body.button.as_deref())?,
        count: 1,
        modifiers: modifiers(body.modifiers.as_ref())?,
    };
    let duration = seconds(body.duration.unwrap_or(DEFAULT_DRAG_SECONDS))?;
    Ok(DragRequest { path, starts_at_pointer, press, duration })
}

/// Parses the parameters of a scroll.
fn turn(body: &Scroll) -> Result<Wheel> {
    Ok(Wheel {
        direction: Direction::parse(&body.direction)?,
        amount: check_scroll_amount(body.amount.unwrap_or(DEFAULT_SCROLL_STEPS))?,
        duration: seconds(body.duration.unwrap_or(0.0))?,
        modifiers: modifiers(body.modifiers.as_ref())?,
    })
}

/// A number as clients write it: whole ones without a fraction.
fn number(value: f64) -> Value {
    // Amounts are at most 500.
    if value.fract() == 0.0 { Value::from(value as u32) } else { Value::from(value) }
}

fn modifiers(names: Option<&Vec<String>>) -> Result<Vec<keys::Modifier>> {
    names.map_or_else(|| Ok(Vec::new()), |names| keys::modifiers(names))
}

fn seconds(value: f64) -> Result<Duration> {
    if (0.0..=MAX_DRAG_SECONDS).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(Error::invalid(format!("duration must be 0 to {MAX_DRAG_SECONDS} seconds")))
}

fn at(point: Point) -> Value {
    json!({"x": point.x, "y": point.y})
}

fn with(mut details: Value, name: &str, value: &str) -> Value {
    details[name] = value.into();
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn clicks_are_one_to_three() {
        for (body, count) in [
            (json!({"x": 0, "y": 0}), 1),
            (json!({"x": 0, "y": 0, "double": true}), 2),
            (json!({"x": 0, "y": 0, "double": true, "count": 3}), 3),
            (json!({"x": 0, "y": 0, "count": 1, "modifiers": ["ctrl", "Control"]}), 1),
        ] {
            assert_eq!(press(&read(body.clone())).unwrap().count, count, "{body}");
        }
        for body in [
            json!({"x": 0, "y": 0, "count": 0}),
            json!({"x": 0, "y": 0, "count": 4}),
            json!({"x": 0, "y": 0, "modifiers": ["hyper"]}),
            json!({"x": 0, "y": 0, "button": "wheel"}),
        ] {
            assert!(press(&read(body.clone())).is_err(), "{body}");
        }
    }

    #[test]
    fn drags_have_two_ends_or_a_path() {
        let ends = json!({"start_x": 1, "start_y": 2, "end_x": 3, "end_y": 4});
        assert_eq!(drag(&read(ends)).unwrap().path, [(1.0, 2.0), (3.0, 4.0)]);
        let end = drag(&read(json!({"end_x": 3, "end_y": 4}))).unwrap();
        assert_eq!((end.path, end.starts_at_pointer), (vec![(3.0, 4.0)], true));
        let path = json!({"path": [[1, 2], [3, 4], [5, 6]], "duration": 0});
        assert_eq!(drag(&read(path)).unwrap().path.len(), 3);
        for body in [
            json!({}),
            json!({"start_x": 1, "start_y": 2, "end_x": 3}),
            json!({"start_x": 1, "end_x": 3, "end_y": 4}),
            json!({"end_x": 3}),
            json!({"path": [[1, 2]]}),
            json!({"path": [[1, 2], [3, 4]], "end_x": 3}),
            json!({"path": vec![[1, 2]; 1001]}),
            json!({"path": [[1, 2], [3, 4]], "duration": 31}),
        ] {
            assert!(drag(&read(body.clone())).is_err(), "{body}");
        }
    }
}
