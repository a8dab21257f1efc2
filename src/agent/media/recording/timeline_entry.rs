//! Timeline entry of an action: its kind and position, never the typed text.

use crate::display::keys;
use hotdesk_domain::desktop::pointer::{Button, Direction};
use hotdesk_domain::error::Result;
use hotdesk_http::error_response;
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::effect::ActionResult;
use hotdesk_wire::desktop::recording::TimelineEntry;

/// Returns the entry of an action that is about to be executed.
pub fn of_action(action: &Action) -> TimelineEntry {
    let mut entry = TimelineEntry { action: action.name().to_owned(), ..TimelineEntry::default() };
    action.body().record(&mut entry);
    // Other text of a client than keywords and names of keys is not recorded.
    entry.button = entry.button.filter(|name| Button::parse(Some(name)).is_ok());
    entry.direction = entry.direction.filter(|name| Direction::parse(name).is_ok());
    entry.keys.iter_mut().flatten().for_each(|key| *key = keys::masked(key));
    if action.options().is_some_and(|options| options.frame.is_some()) {
        // These are positions in a picture; the positions on the screen are known after the execution.
        (entry.x, entry.y, entry.end_x, entry.end_y) = (None, None, None, None);
    }
    entry
}

/// Adds the outcome to an entry. Of a refusal only status and code, because the message may quote the
/// request.
pub fn add_outcome(entry: &mut TimelineEntry, outcome: &Result<ActionResult>) {
    let result = match outcome {
        Ok(result) => result,
        Err(error) => {
            entry.status = Some(error_response::status(error.kind).as_u16());
            entry.code = error.code.map(|code| code.as_str().to_owned());
            return;
        }
    };
    entry.success = result.success;
    let place = |name: &str| result.details.as_ref()?.get(name)?.as_f64();
    entry.x = place("x").or(place("start_x")).or(entry.x);
    entry.y = place("y").or(place("start_y")).or(entry.y);
    entry.end_x = place("end_x").or(entry.end_x);
    entry.end_y = place("end_y").or(entry.end_y);
    if let Some(effect) = &result.effect {
        entry.window_after.clone_from(&effect.window_after);
        entry.changed.clone_from(&effect.changed);
        entry.no_visible_change = effect.no_visible_change;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::error::Error;
    use hotdesk_domain::error_code::ErrorCode;
    use serde_json::{Value, json};

    fn entry(action: Value) -> Value {
        serde_json::to_value(of_action(&serde_json::from_value(action).unwrap())).unwrap()
    }

    #[test]
    fn entries_do_not_contain_typed_text() {
        let typed = entry(json!({"action": "type", "text": "hunter2 \u{1f600}"}));
        assert_eq!((&typed["characters"], typed.to_string().contains("hunter")), (&json!(9), false));
        let confidential = entry(json!({"action": "type", "text": "hunter2", "confidential": true}));
        assert!(confidential["characters"].is_null() && !confidential.to_string().contains("hunter"));
        let keys = entry(
            json!({"action": "key", "keys": ["h", "ctrl+a", "Enter", "alt+F4", "U0041", "space", "KP_1"]}),
        );
        assert_eq!(keys["keys"], json!(["*", "ctrl+*", "Enter", "alt+F4", "*", "*", "*"]));
        let odd = entry(json!({"action": "scroll", "direction": "secret"}));
        assert!(!odd.to_string().contains("secret"));
        let down = entry(json!({"action": "key_down", "key": "shift"}));
        assert_eq!((&down["action"], &down["keys"]), (&json!("key_down"), &json!(["shift"])));
    }

    #[test]
    fn positions_are_those_on_the_screen() {
        let click = entry(json!({"action": "click", "x": 3, "y": 4, "double": true}));
        assert_eq!((&click["x"], &click["y"], &click["count"]), (&json!(3), &json!(4), &json!(2)));
        let quoted: Action =
            serde_json::from_value(json!({"action": "click", "x": 3, "y": 4, "frame": "a-1"})).unwrap();
        let mut framed = of_action(&quoted);
        assert_eq!((framed.x, framed.y), (None, None));
        let details = Some(json!({"x": 30, "y": 40}));
        add_outcome(&mut framed, &Ok(ActionResult { success: true, details, ..ActionResult::default() }));
        assert_eq!((framed.x, framed.y, framed.success), (Some(30.0), Some(40.0), true));
        let drag = entry(json!({"action": "drag", "path": [[1, 2], [9, 9], [5, 6]]}));
        assert_eq!((&drag["x"], &drag["end_y"]), (&json!(1), &json!(6)));
    }

    #[test]
    fn refusals_have_only_status_and_code() {
        let mut entry = TimelineEntry::default();
        add_outcome(&mut entry, &Err(Error::conflict("hunter2").code(ErrorCode::StaleFrame)));
        assert_eq!(
            (entry.success, entry.status, entry.code.as_deref()),
            (false, Some(409), Some("stale_frame"))
        );
        assert!(!serde_json::to_string(&entry).unwrap().contains("hunter2"));
    }
}
