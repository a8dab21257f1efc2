//! Conversion of the inputs of Anthropic's tool to our actions.

use super::super::fields::{Coordinate, VendorActionError, check_range};
use super::super::steps;
use super::AnthropicAction;
use crate::desktop::action::{Action, Drag, PointerQuery, Zoom};
use hotdesk_domain::desktop::key_name::{HeldKeys, MAX_PRESSES, combination_presses};
use hotdesk_domain::desktop::pointer::MAX_SCROLL_STEPS;
use hotdesk_domain::limits::{MAX_HOLD_MS, MAX_MODEL_WAIT_SECONDS, MAX_WAIT_SECONDS};

impl AnthropicAction {
    /// Returns our actions that do the same, at least one and at most
    /// [`MAX_GROUP_ACTIONS`](hotdesk_domain::limits::MAX_GROUP_ACTIONS). Coordinates are pixels of the
    /// picture with the id `frame`; without it, of the screen.
    ///
    /// # Errors
    /// For a value out of range and for too many keys. The computer checks names of keys and whether a point
    /// is on the screen.
    pub fn into_actions(self, frame: Option<&str>) -> Result<Vec<Action>, VendorActionError> {
        match self {
            Self::Key { text, repeat } => key(&text, repeat).map(|action| vec![action]),
            Self::HoldKey { text, duration } => hold(&text, duration),
            Self::Type { text } => Ok(vec![steps::type_text(text)]),
            Self::CursorPosition => {
                Ok(vec![Action::CursorPosition(PointerQuery { frame: frame.map(str::to_owned) })])
            }
            Self::MouseMove { coordinate } => Ok(vec![steps::move_to(coordinate, frame)]),
            Self::LeftMouseDown { coordinate } => {
                Ok(vec![Action::MouseDown(steps::pointer_button(coordinate, "left", frame))])
            }
            Self::LeftMouseUp { coordinate } => {
                Ok(vec![Action::MouseUp(steps::pointer_button(coordinate, "left", frame))])
            }
            Self::LeftClick { coordinate, text } => click(coordinate, "left", 1, text, frame),
            Self::LeftClickDrag { start_coordinate, coordinate, text } => {
                drag(start_coordinate, coordinate, text, frame)
            }
            Self::RightClick { coordinate, text } => click(coordinate, "right", 1, text, frame),
            Self::MiddleClick { coordinate, text } => click(coordinate, "middle", 1, text, frame),
            Self::DoubleClick { coordinate, text } => click(coordinate, "left", 2, text, frame),
            Self::TripleClick { coordinate, text } => click(coordinate, "left", 3, text, frame),
            Self::Scroll { coordinate, scroll_direction, scroll_amount, text } => {
                let amount = check_range("scroll_amount", scroll_amount, f64::from(MAX_SCROLL_STEPS))?;
                let turns = [(scroll_direction.name(), amount)];
                Ok(steps::scroll(coordinate, &turns, held(text)?, frame))
            }
            Self::Wait { duration } => {
                Ok(steps::wait(check_range("duration", duration, MAX_MODEL_WAIT_SECONDS)?))
            }
            Self::Screenshot => Ok(vec![Action::Screenshot(Default::default())]),
            Self::Zoom { region } => zoom(region, frame).map(|action| vec![action]),
        }
    }
}

/// Returns the keys that a mouse action holds.
fn held(text: Option<String>) -> Result<HeldKeys, VendorActionError> {
    match text.filter(|text| !text.is_empty()) {
        Some(text) => steps::held_keys("text", &steps::combinations_in("text", &text)?),
        None => Ok(HeldKeys::default()),
    }
}

fn click(
    at: Option<Coordinate>,
    button: &str,
    count: u8,
    text: Option<String>,
    frame: Option<&str>,
) -> Result<Vec<Action>, VendorActionError> {
    let held = held(text)?;
    Ok(match at {
        Some(at) => steps::click(at, button, count, held, frame),
        None => steps::click_at_pointer(button, count, &held),
    })
}

fn key(text: &str, repeat: Option<u32>) -> Result<Action, VendorActionError> {
    if repeat.is_some_and(|repeat| !(1..=MAX_PRESSES).contains(&(repeat as usize))) {
        return Err(VendorActionError::of_field("repeat", format!("must be 1 to {MAX_PRESSES}")));
    }
    let combinations = steps::combinations_in("text", text)?;
    let presses = combinations.iter().flat_map(|one| combination_presses(one));
    steps::press("text", presses.collect(), repeat)
}

/// Holds keys: by one action if it is not too long, so that they are released whatever happens.
fn hold(text: &str, duration: f64) -> Result<Vec<Action>, VendorActionError> {
    // The screen releases what was held for longer.
    let seconds = check_range("duration", duration, MAX_WAIT_SECONDS)?;
    let keys = steps::held_keys("text", &steps::combinations_in("text", text)?)?;
    let milliseconds = (seconds * 1000.0).round() as u32;
    if keys.others.len() > 1 || milliseconds > MAX_HOLD_MS {
        return Ok(steps::hold_around(&keys, steps::wait(seconds)));
    }
    let mut press = steps::press("text", keys.presses(), None)?;
    if let Action::Key(body) = &mut press {
        body.hold_ms = Some(milliseconds);
    }
    Ok(vec![press])
}

fn drag(
    start: Option<Coordinate>,
    [end_x, end_y]: Coordinate,
    text: Option<String>,
    frame: Option<&str>,
) -> Result<Vec<Action>, VendorActionError> {
    let (modifiers, others) = steps::split_held(held(text)?);
    let drag = Drag {
        start_x: start.map(|[x, _]| x),
        start_y: start.map(|[_, y]| y),
        end_x: Some(end_x),
        end_y: Some(end_y),
        modifiers,
        options: steps::options(frame),
        ..Drag::default()
    };
    Ok(steps::hold_around(&others, vec![Action::Drag(drag)]))
}

fn zoom([x0, y0, x1, y1]: [f64; 4], frame: Option<&str>) -> Result<Action, VendorActionError> {
    let (width, height) = (x1 - x0, y1 - y0);
    if !(width > 0.0 && height > 0.0) {
        return Err(VendorActionError::of_field(
            "region",
            "must be [x0, y0, x1, y1] with x0 < x1 and y0 < y1",
        ));
    }
    let frame = frame.map(str::to_owned);
    Ok(Action::Zoom(Zoom { x: x0, y: y0, width, height, frame, screenshot: None }))
}
