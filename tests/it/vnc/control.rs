//! Viewers while somebody else controls the screen: their input is dropped, and they go on to see it.

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::pressed::{open_agent, pointer, send, viewer_with};
use super::{TIMEOUT, read_bytes};
use crate::display::window::InputEvent;
use crate::harness::agent::{RunningAgent, fetch_json};
use crate::harness::socket::Client;

/// A request for one pixel (RFC 6143 section 7.5.3).
const UPDATE: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 1, 0, 1];
/// The key `x`, down and up.
const KEY: [[u8; 8]; 2] = [[4, 1, 0, 0, 0, 0, 0, b'x'], [4, 0, 0, 0, 0, 0, 0, b'x']];
/// The left Shift key, down.
const SHIFT: [u8; 8] = [4, 1, 0, 0, 0, 0, 0xff, 0xe1];

pub(super) async fn viewer_as(agent: &RunningAgent, by: &str) -> Client {
    viewer_with(agent, &[("x-hotdesk-actor", by)]).await
}

pub(super) async fn post_as(agent: &RunningAgent, by: &str, path: &str, body: Value) -> Value {
    let path = format!("/screens/default/{path}");
    let answer =
        fetch_json(agent.request(Method::POST, &path).header("x-hotdesk-actor", by).json(&body)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

/// Waits until the agent has read everything that a viewer has sent so far: an update comes after it. The
/// viewer asks for nothing else.
pub(super) async fn sync(viewer: &mut Client) {
    send(viewer, UPDATE.to_vec()).await;
    read_bytes(viewer, 4 + 12 + 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_of_a_viewer_is_dropped_while_another_one_controls_the_screen() {
    let Some((agent, window)) = open_agent().await else { return };
    window.focus();
    let [holder, other] = ["person", "key"].map(|kind| format!("{kind}:{}", uuid::Uuid::new_v4()));
    let (mut watching, mut holding) = (viewer_as(&agent, &other).await, viewer_as(&agent, &holder).await);
    send(&mut watching, SHIFT.to_vec()).await;
    send(&mut watching, pointer(1, 50, 60)).await;
    window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Press(1, 50, 60)));
    assert_eq!(agent.get("/cursor_position").await.body["modifiers"], json!(["shift"]));

    post_as(&agent, &holder, "control", json!({"seconds": 600})).await;
    // What the viewer held comes up on its own connection.
    window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Release(1, 50, 60)));
    let is_up = wait::until(TIMEOUT, || async {
        let now = agent.get("/cursor_position").await.body;
        (now["buttons"] == json!([]) && now["modifiers"] == json!([])).then_some(())
    });
    is_up.await.expect("nothing is held down");
    for message in [pointer(0, 70, 80), pointer(1, 70, 80), pointer(0, 70, 80), KEY.concat()] {
        send(&mut watching, message).await;
    }
    let text = b"not for the clipboard";
    let length = u32::try_from(text.len()).expect("a length").to_be_bytes();
    send(&mut watching, [&[6, 0, 0, 0][..], &length, text].concat()).await;
    sync(&mut watching).await;
    send(&mut holding, pointer(4, 9, 9)).await;
    send(&mut holding, pointer(0, 9, 9)).await;
    let events = window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Release(3, 9, 9)));
    let is_foreign = |event: &InputEvent| match event {
        InputEvent::Press(_, x, y) | InputEvent::Release(_, x, y) | InputEvent::Motion(x, y) => {
            (*x, *y) == (70, 80)
        }
        InputEvent::Key(..) => true,
    };
    assert!(!events.iter().any(is_foreign), "{events:?}");
    assert_ne!(agent.get("/clipboard").await.body["text"], json!("not for the clipboard"));

    post_as(&agent, &holder, "control/hand_back", json!({})).await;
    send(&mut watching, pointer(1, 30, 40)).await;
    send(&mut watching, pointer(0, 30, 40)).await;
    send(&mut watching, KEY.concat()).await;
    let events = window.wait_for(TIMEOUT, |got| got.iter().any(|event| matches!(event, InputEvent::Key(..))));
    assert!(events.contains(&InputEvent::Press(1, 30, 40)), "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, InputEvent::Motion(70, 80))), "{events:?}");
}

/// A socket without an actor, as of an agent that is used alone, has no input either.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_nobody_names_is_not_the_holder() {
    let Some((agent, window)) = open_agent().await else { return };
    let holder = format!("person:{}", uuid::Uuid::new_v4());
    post_as(&agent, &holder, "control", json!({"seconds": 600})).await;
    let mut nameless = viewer_with(&agent, &[]).await;
    send(&mut nameless, pointer(0, 70, 80)).await;
    sync(&mut nameless).await;
    assert!(!window.events().contains(&InputEvent::Motion(70, 80)));
    // Nothing closes it, and it has its input again after the hand-back.
    post_as(&agent, &holder, "control/hand_back", json!({})).await;
    send(&mut nameless, pointer(0, 30, 40)).await;
    window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Motion(30, 40)));
}
