//! Record of an action for timelines: its kind and position, never the typed text.

use crate::display::keys;
use hotdesk_domain::desktop::pointer::{Button, Direction};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::error_response;
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::action::timeline::ActionRecord;
use hotdesk_wire::desktop::effect::ActionResult;
use hotdesk_wire::desktop::element::ElementActionResult;

/// Returns the record of an action that is about to be executed.
pub fn of_action(action: &Action) -> ActionRecord {
    let mut record = ActionRecord { action: action.name().to_owned(), ..ActionRecord::default() };
    action.body().record(&mut record);
    // Other text of a client than keywords and names of keys is not recorded.
    record.button = record.button.filter(|name| Button::parse(Some(name)).is_ok());
    record.direction = record.direction.filter(|name| Direction::parse(name).is_ok());
    record.keys.iter_mut().flatten().for_each(|key| *key = keys::masked(key));
    if action.options().is_some_and(|options| options.frame.is_some()) {
        // These are positions in a picture; the positions on the screen are known after the execution.
        (record.x, record.y, record.end_x, record.end_y) = (None, None, None, None);
    }
    record
}

/// Adds the outcome of an action.
pub fn add_outcome(record: &mut ActionRecord, outcome: &Result<ActionResult>) {
    let result = match outcome {
        Ok(result) => result,
        Err(error) => return add_refusal(record, error),
    };
    record.success = result.success;
    let place = |name: &str| result.details.as_ref()?.get(name)?.as_f64();
    record.x = place("x").or(place("start_x")).or(record.x);
    record.y = place("y").or(place("start_y")).or(record.y);
    record.end_x = place("end_x").or(record.end_x);
    record.end_y = place("end_y").or(record.end_y);
    if let Some(effect) = &result.effect {
        record.window_after.clone_from(&effect.window_after);
        record.changed.clone_from(&effect.changed);
        record.no_visible_change = effect.no_visible_change;
    }
}

/// Adds the outcome of an action on an element. Names, texts and values of the element are not recorded.
pub fn add_element_outcome(record: &mut ActionRecord, outcome: &Result<ElementActionResult>) {
    match outcome {
        Ok(result) => {
            record.success = result.success;
            (record.x, record.y) = (result.x.map(f64::from), result.y.map(f64::from));
        }
        Err(error) => add_refusal(record, error),
    }
}

/// Adds status and code of a refusal only, because the message may quote the request.
fn add_refusal(record: &mut ActionRecord, error: &Error) {
    record.status = Some(error_response::status(error.kind).as_u16());
    record.code = error.code.map(|code| code.as_str().to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut entry = ActionRecord::default();
        add_outcome(&mut entry, &Err(Error::conflict("hunter2").code(ErrorCode::StaleFrame)));
        assert_eq!(
            (entry.success, entry.status, entry.code.as_deref()),
            (false, Some(409), Some("stale_frame"))
        );
        assert!(!serde_json::to_string(&entry).unwrap().contains("hunter2"));
    }
}
