//! Actions of a call before they are sent, and pictures of the agent.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use hotdesk_domain::desktop::image::check_image;
use hotdesk_domain::error::{Error, Result};
use hotdesk_model::conversation::Image;
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::effect::{Options, Settle};
use hotdesk_wire::desktop::screenshot::{ScreenshotBase64, ScreenshotQuery};

/// Time without a change after which a screen counts as settled, in milliseconds: six frames of a program
/// that draws an animation.
const QUIET_MS: u32 = 100;
/// The same after a move of the pointer while nothing has changed: two frames at 60 Hz, in which a program shows that the
/// pointer is above something. What a click or a key starts may be seen later.
const UNCHANGED_AFTER_MOVE_MS: u32 = 34;
/// Longest wait for a settled screen, in milliseconds. A film or a spinner never settles.
const SETTLE_TIMEOUT_MS: u32 = 3000;
/// Largest picture, in bytes: back ends accept at least 5 MB as base64, and a model scales larger ones down
/// anyway.
const MAX_IMAGE: u32 = 1_500_000;
/// Quality of the pictures: small texts stay sharp, at a third of the bytes of a PNG.
const QUALITY: u8 = 85;

/// Options of a picture for the model, of at most `pixels`.
pub(super) fn picture(pixels: u32) -> ScreenshotQuery {
    ScreenshotQuery {
        format: Some("jpeg".to_owned()),
        quality: Some(QUALITY),
        max_pixels: Some(pixels),
        max_bytes: Some(MAX_IMAGE),
        ..ScreenshotQuery::default()
    }
}

/// The groups of a call's `own` actions, which count as one so that its keys are released when it fails, and
/// of those that were added to them: `all` together.
pub(super) fn groups(own: usize, all: usize) -> Vec<u32> {
    // A call has at most 16 actions.
    let own = u32::try_from(own).unwrap_or(u32::MAX);
    let added = all.saturating_sub(own as usize);
    std::iter::once(own).chain(std::iter::repeat_n(1, added)).collect()
}

/// Completes actions before they are sent: the first with a position refuses a changed target, and the last
/// waits until the screen has settled and returns a picture. Returns whether the picture shows only a part of
/// the screen.
pub(super) fn prepare(
    actions: &mut Vec<Action>,
    refuses_stale: bool,
    wants_picture: bool,
    picture: &ScreenshotQuery,
) -> bool {
    let mut placed = actions.iter_mut().filter_map(options_mut).filter(|options| options.frame.is_some());
    if refuses_stale && let Some(options) = placed.next() {
        options.refuse_stale = Some(true);
    }
    let mut sees_part = false;
    let mut sees = false;
    for action in actions.iter_mut() {
        if let Action::Screenshot(query) = action {
            (sees, sees_part) = (true, false);
            *query = picture.clone();
        } else if let Action::Zoom(body) = action {
            (sees, sees_part) = (true, true);
            body.screenshot = Some(picture.clone());
        }
    }
    if sees {
        return sees_part;
    }
    let mut screenshot = wants_picture.then(|| picture.clone());
    // The agent returns what a group's main action saw, and not what the release of its keys did.
    let releases = matches!(actions.as_slice(), [_, .., Action::KeyUp(_)]);
    let added = if releases { screenshot.take() } else { None };
    let only_moves = actions.iter().all(|action| matches!(action, Action::Move(_)));
    match actions.last_mut().and_then(options_mut) {
        Some(options) => {
            let settle = Settle {
                quiet_ms: Some(QUIET_MS),
                unchanged_ms: only_moves.then_some(UNCHANGED_AFTER_MOVE_MS),
                timeout_ms: Some(SETTLE_TIMEOUT_MS),
                screenshot,
                ..Settle::default()
            };
            options.settle = Some(settle);
            actions.extend(added.map(Action::Screenshot));
        }
        // A wait has settled by itself.
        None => actions.extend(screenshot.map(Action::Screenshot)),
    }
    false
}

/// The common options of an action; `None` for actions that only observe or wait.
fn options_mut(action: &mut Action) -> Option<&mut Options> {
    match action {
        Action::Click(body) => Some(&mut body.options),
        Action::Move(body) => Some(&mut body.options),
        Action::MouseDown(body) | Action::MouseUp(body) => Some(&mut body.options),
        Action::Drag(body) => Some(&mut body.options),
        Action::Scroll(body) => Some(&mut body.options),
        Action::Type(body) => Some(&mut body.options),
        Action::Key(body) | Action::KeyDown(body) | Action::KeyUp(body) => Some(&mut body.options),
        Action::Wait(_)
        | Action::WaitStable(_)
        | Action::WaitChange(_)
        | Action::Screenshot(_)
        | Action::Zoom(_)
        | Action::CursorPosition(_) => None,
    }
}

/// Decodes a picture of the agent, which is not trusted. `pixels` is the most that was asked for.
pub(super) fn picture_of(shown: &ScreenshotBase64, pixels: u32) -> Result<Image> {
    let wrong =
        |why: &dyn Display| Error::failed("The computer's agent sent an invalid picture").context(why);
    let bytes = STANDARD.decode(&shown.image).map_err(|_| wrong(&"not base64"))?;
    if bytes.len() > MAX_IMAGE as usize {
        return Err(wrong(&"larger than requested"));
    }
    let media_type = check_image(&bytes, pixels).map_err(|fault| wrong(&fault))?;
    Ok(Image { media_type: media_type.to_owned(), data: Bytes::from(bytes) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn actions(list: Value) -> Vec<Action> {
        serde_json::from_value(list).unwrap()
    }

    fn prepared(list: Value, refuses_stale: bool, wants_picture: bool) -> (Value, bool) {
        let mut actions = actions(list);
        let picture = ScreenshotQuery { max_pixels: Some(100), ..ScreenshotQuery::default() };
        let sees_part = prepare(&mut actions, refuses_stale, wants_picture, &picture);
        (serde_json::to_value(&actions).unwrap(), sees_part)
    }

    #[test]
    fn the_last_action_settles_and_shows_the_screen() {
        let settle = json!({"quiet_ms": 100, "timeout_ms": 3000});
        let seen = json!({"quiet_ms": 100, "timeout_ms": 3000, "screenshot": {"max_pixels": 100}});
        let shot = json!({"action": "screenshot", "max_pixels": 100});
        let key = json!({"action": "key", "key": "a"});
        for (list, stale, picture, expected, part) in [
            (json!([key]), true, false, json!([{"action": "key", "key": "a", "settle": settle}]), false),
            (
                json!([{"action": "click", "x": 1.0, "y": 2.0, "frame": "f"}]),
                true,
                true,
                json!([{"action": "click", "x": 1.0, "y": 2.0, "frame": "f", "refuse_stale": true, "settle": seen}]),
                false,
            ),
            (
                json!([{"action": "move", "x": 1.0, "y": 2.0}]),
                false,
                false,
                json!([{"action": "move", "x": 1.0, "y": 2.0,
                    "settle": {"quiet_ms": 100, "unchanged_ms": 34, "timeout_ms": 3000}}]),
                false,
            ),
            (
                json!([key, {"action": "wait", "seconds": 1.0}]),
                false,
                true,
                json!([key, {"action": "wait", "seconds": 1.0}, shot]),
                false,
            ),
            (json!([{"action": "screenshot"}]), false, false, json!([shot]), false),
            (
                json!([{"action": "zoom", "x": 0.0, "y": 0.0, "width": 9.0, "height": 9.0}]),
                true,
                true,
                json!([{"action": "zoom", "x": 0.0, "y": 0.0, "width": 9.0, "height": 9.0,
                    "screenshot": {"max_pixels": 100}}]),
                true,
            ),
        ] {
            assert_eq!(prepared(list.clone(), stale, picture), (expected, part), "{list}");
        }
    }

    #[test]
    fn the_actions_of_a_call_are_one_group() {
        assert_eq!([groups(1, 1), groups(3, 4), groups(1, 2)], [vec![1], vec![3, 1], vec![1, 1]]);
        let down = json!({"action": "key_down", "key": "ctrl"});
        let click = json!({"action": "click", "x": 1.0, "y": 2.0, "frame": "f"});
        let up = json!({"action": "key_up", "key": "ctrl"});
        let (sent, _) = prepared(json!([down, click, up]), true, true);
        assert_eq!(sent[1]["refuse_stale"], true, "the first with a position: {sent}");
        assert_eq!((&sent[2]["settle"]["quiet_ms"], &sent[3]["action"]), (&json!(100), &json!("screenshot")));
        assert!(sent[2]["settle"]["screenshot"].is_null(), "{sent}");
    }

    #[test]
    fn a_picture_of_an_agent_is_checked() {
        let shown = |image: &str| ScreenshotBase64 {
            success: true,
            image: image.to_owned(),
            mime_type: "text/html".to_owned(),
            width: 1,
            height: 1,
            shown: Default::default(),
        };
        let png = |width: u32| {
            [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &width.to_be_bytes(), &[0, 0, 0, 10]].concat()
        };
        let encoded = |width: u32| STANDARD.encode(png(width));
        assert_eq!(picture_of(&shown(&encoded(10)), 100).unwrap().media_type, "image/png");
        let large = STANDARD.encode([png(10), vec![0; MAX_IMAGE as usize]].concat());
        for bad in ["", "!", "PHN2Zz4=", "iVBORw0KGgo=", &large, &encoded(11), &encoded(u32::MAX)] {
            assert!(picture_of(&shown(bad), 100).is_err(), "{:?}", &bad[..bad.len().min(20)]);
        }
    }
}
