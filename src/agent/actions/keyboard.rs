//! Execution of the actions of the keyboard: bounds, X requests and details of the answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ActionRunner, finish, paste};
use crate::display::Screen;
use crate::display::keys::{self, Chord};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::limits::{MAX_HOLD_MS, MAX_HOLDS_MS};
use hotdesk_wire::desktop::action::{KeyPress, Type};
use hotdesk_wire::desktop::effect::ActionResult;

/// Most keys in a sequence, and most repetitions; for more there is text input.
const MAX_KEYS: usize = 100;

impl ActionRunner {
    /// Types or pastes a text.
    pub(super) async fn type_text(&self, screen: &Arc<Screen>, body: Type) -> Result<ActionResult> {
        let is_confidential = body.confidential.unwrap_or(false);
        let done =
            if pastes(&body)? { paste_text(screen, body).await } else { type_keys(screen, body).await };
        if is_confidential { done.map(conceal).map_err(conceal_refusal) } else { done }
    }

    /// Presses keys one after another.
    pub(super) async fn key(&self, screen: &Arc<Screen>, body: KeyPress) -> Result<ActionResult> {
        let (chords, hold) = chords(&body)?;
        let done = screen.press(chords, hold).await?;
        finish(screen, "key_press", key_details(&body), done, body.options.settle).await
    }

    /// Presses a key and holds it.
    pub(super) async fn key_down(&self, screen: &Arc<Screen>, body: KeyPress) -> Result<ActionResult> {
        let done = screen.key_down(one_chord(&body)?).await?;
        self.release_later(screen);
        finish(screen, "key_down", key_details(&body), done, body.options.settle).await
    }

    /// Releases a key.
    pub(super) async fn key_up(&self, screen: &Arc<Screen>, body: KeyPress) -> Result<ActionResult> {
        let done = screen.key_up(one_chord(&body)?).await?;
        finish(screen, "key_up", key_details(&body), done, body.options.settle).await
    }
}

/// Types a text by keys.
async fn type_keys(screen: &Arc<Screen>, body: Type) -> Result<ActionResult> {
    let stop_on_focus_change = body.stop_on_focus_change.unwrap_or(false);
    let done = screen.type_text(&body.text, stop_on_focus_change).await?;
    let typed = done.value;
    let mut details = json!({"keys": typed.delivered, "characters_delivered": typed.delivered});
    if let Some(at) = typed.focus_changed_at {
        details["focus_changed_at"] = at.into();
    }
    let complete = !(stop_on_focus_change && typed.focus_changed_at.is_some());
    let mut result = finish(screen, "type", details, done, body.options.settle).await?;
    result.success = complete;
    Ok(result)
}

/// Removes from a result what reveals a confidential text: its length, and titles of windows, which may show
/// it.
fn conceal(mut result: ActionResult) -> ActionResult {
    result.details = Some(json!({"confidential": true}));
    if let Some(effect) = &mut result.effect {
        for window in [&mut effect.window_before, &mut effect.window_after].into_iter().flatten() {
            window.title = None;
        }
    }
    result
}

/// Removes the character that a refusal of a confidential text names.
fn conceal_refusal(error: Error) -> Error {
    if error.kind == Kind::Invalid {
        return Error::invalid("text contains a character that no key types");
    }
    error
}

/// Pastes a text.
async fn paste_text(screen: &Arc<Screen>, body: Type) -> Result<ActionResult> {
    let characters = body.text.chars().count();
    let done = paste::paste(screen, body.text).await?;
    let taken = done.value;
    let delivered = if taken { characters } else { 0 };
    let details = json!({"mode": "paste", "characters_delivered": delivered});
    let mut result = finish(screen, "type", details, done, body.options.settle).await?;
    result.success = taken;
    Ok(result)
}

/// Whether a text is to be pasted instead of typed.
fn pastes(body: &Type) -> Result<bool> {
    match body.mode.as_deref() {
        None | Some("keys") => Ok(false),
        Some("paste") if body.stop_on_focus_change.is_none() => Ok(true),
        Some("paste") => Err(Error::invalid("stop_on_focus_change is for typing by keys")),
        Some(_) => Err(Error::invalid("mode must be keys or paste")),
    }
}

/// Parses a key sequence with its repetitions, and the hold time of each key.
fn chords(body: &KeyPress) -> Result<(Vec<Chord>, Duration)> {
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
fn one_chord(body: &KeyPress) -> Result<Chord> {
    match (body.key.as_deref(), &body.keys, body.repeat, body.hold_ms) {
        (Some(key), None, None, None) => keys::parse(key),
        (None, ..) => Err(Error::invalid("key is required")),
        (Some(_), ..) => Err(Error::invalid("keys, repeat and hold_ms are for key presses")),
    }
}

/// Answer details of a key action.
fn key_details(body: &KeyPress) -> Value {
    match (&body.key, &body.keys) {
        (_, Some(keys)) => json!({"keys": keys}),
        (key, None) => json!({"key": key}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn nothing_of_a_confidential_text_is_reported() {
        let window = |title: &str| json!({"id": "0x1", "title": title});
        let effect = json!({"window_before": window("editor"), "window_after": window("hunter2 - editor"),
            "changed": [], "observed_ms": 1});
        let result = json!({"success": true, "action": "type", "details": {"characters_delivered": 7},
            "effect": effect});
        let concealed = serde_json::to_value(conceal(read(result))).unwrap();
        assert_eq!(concealed["details"], json!({"confidential": true}));
        assert_eq!(concealed["effect"]["window_after"], json!({"id": "0x1", "title": null}));
        assert!(!concealed.to_string().contains("hunter2"));
        let refused = conceal_refusal(Error::invalid("text contains U+0007, which no key types"));
        assert!(!refused.message.contains("0007"), "{}", refused.message);
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
