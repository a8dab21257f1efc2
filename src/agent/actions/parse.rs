//! Conversion of action bodies to parameters of the display module, with checks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::display::keys::{self, Chord};
use crate::display::{Press, Wheel};
use hotdesk_domain::desktop::pointer::{
    Button, Direction, MAX_CLICKS, MAX_DRAG_SECONDS, MAX_PATH_POINTS, check_scroll_amount,
};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::MAX_HOLDS_MS;
use hotdesk_wire::desktop::action::{Click, Drag, KeyPress, Scroll, Type};

/// Default duration of a drag in seconds (docs/api/actions.md).
const DEFAULT_DRAG_SECONDS: f64 = 0.5;
/// Default wheel steps (docs/api/actions.md).
const DEFAULT_SCROLL_STEPS: f64 = 3.0;
/// Most keys in a sequence, and most repetitions; for more there is text input.
const MAX_KEYS: usize = 100;
/// Longest hold of one key in milliseconds: games need seconds.
const MAX_HOLD_MS: u32 = 10_000;

/// Parses a button's name.
pub(super) fn button(name: Option<&str>) -> Result<Button> {
    Button::parse(name)
}

/// Parses the button, count and modifiers of a click.
pub(super) fn press(body: &Click) -> Result<Press> {
    let count = body.count.unwrap_or(if body.double.unwrap_or(false) { 2 } else { 1 });
    if !(1..=MAX_CLICKS).contains(&count) {
        return Err(Error::invalid(format!("count must be 1 to {MAX_CLICKS}")));
    }
    Ok(Press {
        button: button(body.button.as_deref())?,
        count,
        modifiers: modifiers(body.modifiers.as_ref())?,
    })
}

/// Name of the action for a number of clicks (docs/api/actions.md).
pub(super) fn click_name(count: u8) -> &'static str {
    match count {
        2 => "double_click",
        3 => "triple_click",
        _ => "click",
    }
}

/// Parameters of a drag.
#[derive(Debug)]
pub(super) struct DragRequest {
    pub(super) path: Vec<(f64, f64)>,
    pub(super) press: Press,
    pub(super) duration: Duration,
}

/// Parses a drag's path, button and duration.
pub(super) fn drag(body: &Drag) -> Result<DragRequest> {
    let path = match (&body.path, body.start_x, body.start_y, body.end_x, body.end_y) {
        (Some(path), None, None, None, None) => path.iter().map(|[x, y]| (*x, *y)).collect(),
        (None, Some(start_x), Some(start_y), Some(end_x), Some(end_y)) => {
            vec![(start_x, start_y), (end_x, end_y)]
        }
        (None, ..) => return Err(Error::invalid("start_x, start_y, end_x and end_y are needed, or a path")),
        (Some(_), ..) => return Err(Error::invalid("a drag has a start and an end, or a path, not both")),
    };
    if !(2..=MAX_PATH_POINTS).contains(&path.len()) {
        return Err(Error::invalid(format!("path must have 2 to {MAX_PATH_POINTS} points")));
    }
    let press = Press {
        button: button(body.button.as_deref())?,
        count: 1,
        modifiers: modifiers(body.modifiers.as_ref())?,
    };
    Ok(DragRequest { path, press, duration: seconds(body.duration.unwrap_or(DEFAULT_DRAG_SECONDS))? })
}

/// Parses the parameters of a scroll.
pub(super) fn turn(body: &Scroll) -> Result<Wheel> {
    Ok(Wheel {
        direction: Direction::parse(&body.direction)?,
        amount: check_scroll_amount(body.amount.unwrap_or(DEFAULT_SCROLL_STEPS))?,
        duration: seconds(body.duration.unwrap_or(0.0))?,
        modifiers: modifiers(body.modifiers.as_ref())?,
    })
}

/// Whether a text is to be pasted instead of typed.
pub(super) fn pastes(body: &Type) -> Result<bool> {
    match body.mode.as_deref() {
        None | Some("keys") => Ok(false),
        Some("paste") if body.stop_on_focus_change.is_none() => Ok(true),
        Some("paste") => Err(Error::invalid("stop_on_focus_change is for typing by keys")),
        Some(_) => Err(Error::invalid("mode must be keys or paste")),
    }
}

/// Parses a key sequence with its repetitions, and the hold time of each key.
pub(super) fn chords(body: &KeyPress) -> Result<(Vec<Chord>, Duration)> {
    let names: Vec<&str> = match (&body.key, &body.keys) {
        (Some(key), None) => vec![key],
        (None, Some(keys)) => keys.iter().map(String::as_str).collect(),
        (None, None) => return Err(Error::invalid("key is required")),
        (Some(_), Some(_)) => return Err(Error::invalid("key or keys, not both")),
    };
    if !(1..=MAX_KEYS).contains(&names.len()) {
        return Err(Error::invalid(format!("keys must be 1 to {MAX_KEYS}")));
    }
    let repeat = body.repeat.unwrap_or(1) as usize;
    if !(1..=MAX_KEYS).contains(&repeat) {
        return Err(Error::invalid(format!("repeat must be 1 to {MAX_KEYS}")));
    }
    let once = names.into_iter().map(keys::parse).collect::<Result<Vec<_>>>()?;
    let chords: Vec<Chord> = std::iter::repeat_n(once, repeat).flatten().collect();
    let hold = body.hold_ms.unwrap_or(0);
    if hold > MAX_HOLD_MS || u64::from(hold) * chords.len() as u64 > MAX_HOLDS_MS {
        return Err(Error::invalid(format!(
            "hold_ms must be at most {MAX_HOLD_MS}, and {MAX_HOLDS_MS} in all"
        )));
    }
    Ok((chords, Duration::from_millis(hold.into())))
}

/// Parses the single key of `key_down` and `key_up`.
pub(super) fn one_chord(body: &KeyPress) -> Result<Chord> {
    match (body.key.as_deref(), &body.keys, body.repeat, body.hold_ms) {
        (Some(key), None, None, None) => keys::parse(key),
        (None, ..) => Err(Error::invalid("key is required")),
        (Some(_), ..) => Err(Error::invalid("keys, repeat and hold_ms are for key presses")),
    }
}

/// Answer details of a key action.
pub(super) fn key_details(body: &KeyPress) -> Value {
    match (&body.key, &body.keys) {
        (_, Some(keys)) => json!({"keys": keys}),
        (key, None) => json!({"key": key}),
    }
}

/// A number as clients write it: whole ones without a fraction.
pub(super) fn number(value: f64) -> Value {
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
        let path = json!({"path": [[1, 2], [3, 4], [5, 6]], "duration": 0});
        assert_eq!(drag(&read(path)).unwrap().path.len(), 3);
        for body in [
            json!({}),
            json!({"start_x": 1, "start_y": 2, "end_x": 3}),
            json!({"path": [[1, 2]]}),
            json!({"path": [[1, 2], [3, 4]], "end_x": 3}),
            json!({"path": vec![[1, 2]; 1001]}),
            json!({"path": [[1, 2], [3, 4]], "duration": 31}),
        ] {
            assert!(drag(&read(body.clone())).is_err(), "{body}");
        }
    }

    #[test]
    fn key_sequences_are_bounded() {
        let (once, hold) = chords(&read(json!({"key": "ctrl+a"}))).unwrap();
        assert_eq!((once.len(), hold), (1, Duration::ZERO));
        let (all, hold) =
            chords(&read(json!({"keys": ["Tab", "Enter"], "repeat": 3, "hold_ms": 50}))).unwrap();
        assert_eq!((all.len(), hold), (6, Duration::from_millis(50)));
        for body in [
            json!({}),
            json!({"keys": []}),
            json!({"key": "a", "keys": ["b"]}),
            json!({"key": "a", "repeat": 0}),
            json!({"key": "a", "repeat": 101}),
            json!({"key": "a", "hold_ms": 10_001}),
            json!({"key": "a", "repeat": 4, "hold_ms": 10_000}),
            json!({"keys": vec!["a"; 101]}),
            json!({"keys": ["a", "nosuchkey"]}),
        ] {
            assert!(chords(&read(body.clone())).is_err(), "{body}");
        }
        assert!(one_chord(&read(json!({"key": "shift"}))).is_ok());
        for body in [json!({}), json!({"keys": ["a"]}), json!({"key": "a", "repeat": 2})] {
            assert!(one_chord(&read(body.clone())).is_err(), "{body}");
        }
    }
}
