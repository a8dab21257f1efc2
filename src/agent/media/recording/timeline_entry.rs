//! Timeline entry of an action: its kind and position, never the typed text.

use crate::display::keys;
use hotdesk_domain::error::Result;
use hotdesk_http::error_response;
use hotdesk_wire::desktop::action::{KeyPress, PointerButton};
use hotdesk_wire::desktop::batch::Action;
use hotdesk_wire::desktop::effect::ActionResult;
use hotdesk_wire::desktop::recording::TimelineEntry;

/// Most keys in one entry; no action has more.
const MAX_KEYS: usize = 100;

/// Whether an action can change the screen, so that its entry gets pictures.
pub fn changes_screen(action: &Action) -> bool {
    match action {
        Action::Wait(_) | Action::WaitStable(_) | Action::WaitChange(_) | Action::Screenshot(_) => false,
        Action::Click(_)
        | Action::Move(_)
        | Action::MouseDown(_)
        | Action::MouseUp(_)
        | Action::Drag(_)
        | Action::Scroll(_)
        | Action::Type(_)
        | Action::Key(_)
        | Action::KeyDown(_)
        | Action::KeyUp(_) => true,
    }
}

/// Returns the entry of an action that is about to be executed.
pub fn of_action(action: &Action) -> TimelineEntry {
    let mut entry = TimelineEntry::default();
    let name = match action {
        Action::Click(body) => {
            (entry.x, entry.y) = (Some(body.x), Some(body.y));
            entry.button = button(body.button.as_deref());
            entry.count = Some(body.count.unwrap_or(if body.double == Some(true) { 2 } else { 1 }));
            "click"
        }
        Action::Move(body) => {
            (entry.x, entry.y) = (Some(body.x), Some(body.y));
            "move"
        }
        Action::MouseDown(body) => pressed(&mut entry, body, "mouse_down"),
        Action::MouseUp(body) => pressed(&mut entry, body, "mouse_up"),
        Action::Drag(body) => {
            let ends = body.path.as_ref().and_then(|path| path.first().zip(path.last()));
            let (start, end) = ends.map_or(((None, None), (None, None)), |(start, end)| {
                ((Some(start[0]), Some(start[1])), (Some(end[0]), Some(end[1])))
            });
            (entry.x, entry.y) = (body.start_x.or(start.0), body.start_y.or(start.1));
            (entry.end_x, entry.end_y) = (body.end_x.or(end.0), body.end_y.or(end.1));
            entry.button = button(body.button.as_deref());
            "drag"
        }
        Action::Scroll(body) => {
            (entry.x, entry.y) = (body.x, body.y);
            entry.direction = known_keyword(&body.direction, &["up", "down", "left", "right"]);
            entry.amount = body.amount;
            "scroll"
        }
        Action::Type(body) => {
            entry.characters = Some(body.text.chars().count() as u64);
            "type"
        }
        Action::Key(body) => keyed(&mut entry, body, "key"),
        Action::KeyDown(body) => keyed(&mut entry, body, "key_down"),
        Action::KeyUp(body) => keyed(&mut entry, body, "key_up"),
        Action::Wait(_) => "wait",
        Action::WaitStable(_) => "wait_stable",
        Action::WaitChange(_) => "wait_change",
        Action::Screenshot(_) => "screenshot",
    };
    name.clone_into(&mut entry.action);
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

fn pressed(entry: &mut TimelineEntry, body: &PointerButton, name: &'static str) -> &'static str {
    (entry.x, entry.y) = (body.x, body.y);
    entry.button = button(body.button.as_deref());
    name
}

fn keyed(entry: &mut TimelineEntry, body: &KeyPress, name: &'static str) -> &'static str {
    let all = body.keys.iter().flatten().chain(&body.key).take(MAX_KEYS);
    entry.keys = Some(all.map(|key| keys::masked(key)).collect());
    name
}

fn button(name: Option<&str>) -> Option<String> {
    known_keyword(name.unwrap_or("left"), &["left", "right", "middle", "back", "forward"])
}

/// The keyword if it is a known one; other input of a client is not recorded.
fn known_keyword(word: &str, words: &[&str]) -> Option<String> {
    words.contains(&word).then(|| word.to_owned())
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
        let keys = entry(
            json!({"action": "key", "keys": ["h", "ctrl+a", "Enter", "alt+F4", "U0041", "space", "KP_1"]}),
        );
        assert_eq!(keys["keys"], json!(["*", "ctrl+*", "Enter", "alt+F4", "*", "*", "*"]));
        let odd = entry(json!({"action": "scroll", "direction": "secret", "button": "x"}));
        assert!(!odd.to_string().contains("secret"));
        let down = entry(json!({"action": "key_down", "key": "shift"}));
        assert_eq!((&down["action"], &down["keys"]), (&json!("key_down"), &json!(["shift"])));
    }

    #[test]
    fn positions_are_those_on_the_screen() {
        let click = entry(json!({"action": "click", "x": 3, "y": 4, "double": true}));
        assert_eq!((&click["x"], &click["y"], &click["count"]), (&json!(3.0), &json!(4.0), &json!(2)));
        let quoted: Action =
            serde_json::from_value(json!({"action": "click", "x": 3, "y": 4, "frame": "a-1"})).unwrap();
        let mut framed = of_action(&quoted);
        assert_eq!((framed.x, framed.y), (None, None));
        let details = Some(json!({"x": 30, "y": 40}));
        add_outcome(&mut framed, &Ok(ActionResult { success: true, details, ..ActionResult::default() }));
        assert_eq!((framed.x, framed.y, framed.success), (Some(30.0), Some(40.0), true));
        let drag = entry(json!({"action": "drag", "path": [[1, 2], [9, 9], [5, 6]]}));
        assert_eq!((&drag["x"], &drag["end_y"]), (&json!(1.0), &json!(6.0)));
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
