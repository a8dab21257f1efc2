//! Our actions of which a vendor's action consists.

use super::fields::{Coordinate, VendorActionError};
use crate::desktop::action::{Action, Click, KeyPress, Move, PointerButton, Scroll, Type, Wait};
use crate::desktop::effect::Options;
use hotdesk_domain::desktop::key_name::{HeldKeys, MAX_HELD_KEYS, MAX_KEYS_TEXT, MAX_PRESSES, combinations};
use hotdesk_domain::limits::MAX_WAIT_SECONDS;

/// Options of an action with a position in a picture.
pub(super) fn options(frame: Option<&str>) -> Options {
    Options { frame: frame.map(str::to_owned), ..Options::default() }
}

/// Splits a text with key combinations.
///
/// # Errors
/// For an empty or a too long text.
pub(super) fn combinations_in(field: &'static str, text: &str) -> Result<Vec<String>, VendorActionError> {
    if text.is_empty() {
        return Err(VendorActionError::of_field(field, "must not be empty"));
    }
    if text.len() > MAX_KEYS_TEXT {
        return Err(VendorActionError::of_field(field, format!("must have at most {MAX_KEYS_TEXT} bytes")));
    }
    Ok(combinations(text))
}

/// Sorts the keys that an action holds.
///
/// # Errors
/// For too many keys.
pub(super) fn held_keys(field: &'static str, names: &[String]) -> Result<HeldKeys, VendorActionError> {
    let is_short = names.iter().map(String::len).sum::<usize>() <= MAX_KEYS_TEXT;
    let held = if is_short { HeldKeys::sort(names) } else { HeldKeys::default() };
    if !is_short || held.count() > MAX_HELD_KEYS {
        return Err(VendorActionError::of_field(field, format!("must name at most {MAX_HELD_KEYS} keys")));
    }
    Ok(held)
}

/// Presses keys one after another.
///
/// # Errors
/// For no press and for too many.
pub(super) fn press(
    field: &'static str,
    presses: Vec<String>,
    repeat: Option<u32>,
) -> Result<Action, VendorActionError> {
    if !(1..=MAX_PRESSES).contains(&presses.len()) {
        return Err(VendorActionError::of_field(field, format!("must name 1 to {MAX_PRESSES} keys")));
    }
    let (key, keys) = match <[String; 1]>::try_from(presses) {
        Ok([one]) => (Some(one), None),
        Err(several) => (None, Some(several)),
    };
    Ok(Action::Key(KeyPress { key, keys, repeat, ..KeyPress::default() }))
}

/// Types a text.
pub(super) fn type_text(text: String) -> Action {
    Action::Type(Type {
        text,
        mode: None,
        stop_on_focus_change: None,
        confidential: None,
        options: Options::default(),
    })
}

/// Moves the pointer.
pub(super) fn move_to([x, y]: Coordinate, frame: Option<&str>) -> Action {
    Action::Move(Move { x, y, options: options(frame) })
}

/// Body of a press or a release of a button; without a position, where the pointer is.
pub(super) fn pointer_button(at: Option<Coordinate>, button: &str, frame: Option<&str>) -> PointerButton {
    PointerButton {
        x: at.map(|[x, _]| x),
        y: at.map(|[_, y]| y),
        button: Some(button.to_owned()),
        options: options(frame.filter(|_| at.is_some())),
    }
}

/// Clicks at a point.
pub(super) fn click(
    [x, y]: Coordinate,
    button: &str,
    count: u8,
    held: HeldKeys,
    frame: Option<&str>,
) -> Vec<Action> {
    let (modifiers, others) = split_held(held);
    let click = Click {
        x,
        y,
        button: Some(button.to_owned()),
        double: None,
        count: (count > 1).then_some(count),
        modifiers,
        options: options(frame),
    };
    hold_around(&others, vec![Action::Click(click)])
}

/// Clicks where the pointer is.
pub(super) fn click_at_pointer(button: &str, count: u8, held: &HeldKeys) -> Vec<Action> {
    let once = || {
        let button = pointer_button(None, button, None);
        [Action::MouseDown(button.clone()), Action::MouseUp(button)]
    };
    let clicks = (0..count).flat_map(|_| once()).collect();
    hold_around(held, clicks)
}

/// Turns the wheel: a direction and an amount in steps for each turn.
pub(super) fn scroll(
    at: Option<Coordinate>,
    turns: &[(&str, f64)],
    held: HeldKeys,
    frame: Option<&str>,
) -> Vec<Action> {
    let (modifiers, others) = split_held(held);
    let turn = |(direction, amount): &(&str, f64)| {
        Action::Scroll(Scroll {
            direction: (*direction).to_owned(),
            amount: Some(*amount),
            x: at.map(|[x, _]| x),
            y: at.map(|[_, y]| y),
            duration: None,
            modifiers: modifiers.clone(),
            options: options(frame.filter(|_| at.is_some())),
        })
    };
    hold_around(&others, turns.iter().map(turn).collect())
}

/// Waits; a wait that is longer than one action may be becomes several.
pub(super) fn wait(seconds: f64) -> Vec<Action> {
    let mut waits = Vec::new();
    let mut rest = seconds;
    loop {
        let part = rest.min(MAX_WAIT_SECONDS);
        waits.push(Action::Wait(Wait { seconds: Some(part), duration: None }));
        rest -= part;
        if rest <= 0.0 {
            return waits;
        }
    }
}

/// Separates the modifiers, which most actions hold themselves, from keys that must be pressed before them.
pub(super) fn split_held(held: HeldKeys) -> (Option<Vec<String>>, HeldKeys) {
    let HeldKeys { modifiers, others } = held;
    ((!modifiers.is_empty()).then_some(modifiers), HeldKeys { modifiers: Vec::new(), others })
}

/// Presses keys before actions and releases them afterwards, in reverse order.
pub(super) fn hold_around(held: &HeldKeys, actions: Vec<Action>) -> Vec<Action> {
    let keys = || held.modifiers.iter().chain(&held.others);
    let body = |key: &String| KeyPress { key: Some(key.clone()), ..KeyPress::default() };
    let mut all: Vec<Action> = keys().map(|key| Action::KeyDown(body(key))).collect();
    all.extend(actions);
    all.extend(keys().rev().map(|key| Action::KeyUp(body(key))));
    all
}
