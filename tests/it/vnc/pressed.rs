//! Does a button come up when the viewer that holds it is gone, and does an action tell when it can do nothing?

use futures_util::SinkExt;
use hotdesk::base::wait;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{TIMEOUT, bytes, greeted, with_password};
use crate::display::window::{Got, Window};
use crate::harness::agent::RunningAgent;
use crate::harness::caller::Caller;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};

/// A PointerEvent.
fn pointer(buttons: u8, x: u8, y: u8) -> Vec<u8> {
    vec![5, buttons, 0, x, 0, y]
}

async fn say(viewer: &mut Client, message: Vec<u8>) {
    viewer.0.send(Message::Binary(message.into())).await.expect("it listens");
}

/// Goes through the handshake after the server's version.
async fn enter(viewer: &mut Client) {
    say(viewer, b"RFB 003.008\n\x01\x01".to_vec()).await;
    bytes(viewer, 2 + 4 + 24).await;
}

/// An agent with a bare screen, and a window over all of it.
async fn desk() -> Option<(RunningAgent, Window)> {
    if !std::path::Path::new("/usr/bin/Xvnc").exists() {
        println!("skipped: Xvnc is not installed");
        return None;
    }
    let agent = RunningAgent::with_a_screen().await?;
    until_down(&agent, "", json!([])).await;
    let screens = agent.get("/screens").await.body;
    let display = screens["screens"][0]["display"].as_str().expect("a display");
    let window = Window::open(display, 0, 0, 800, 600, 0);
    Some((agent, window))
}

/// A viewer of an agent's screen.
async fn viewer(agent: &RunningAgent) -> Client {
    let path = format!("/ws/websockify?token={}", agent.token());
    let mut viewer = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    assert_eq!(viewer.next().await, Came::Binary(b"RFB 003.008\n".to_vec()));
    enter(&mut viewer).await;
    viewer
}

async fn down(caller: &Caller, prefix: &str) -> Value {
    caller.get(&format!("{prefix}/cursor_position")).await.body["buttons"].clone()
}

async fn until_down(caller: &Caller, prefix: &str, expected: Value) {
    let found = wait::until(TIMEOUT, || async { (down(caller, prefix).await == expected).then_some(()) });
    assert!(found.await.is_some(), "{} instead of {expected}", down(caller, prefix).await);
}

/// How a viewer ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    Vanish,
    Reset,
    /// In the middle of a clipboard's text.
    HalfWay,
    /// After what cannot be read.
    Junk,
    /// After text, which RFB has none of.
    Text,
}

async fn end(mut viewer: Client, how: End) {
    match how {
        End::Close => viewer.0.close(None).await.expect("it listens"),
        End::Vanish => {}
        End::Reset => viewer.0.get_ref().set_zero_linger().expect("an option"),
        End::HalfWay => say(&mut viewer, vec![6, 0, 0, 0, 0, 0, 0, 99, b'a', b'b']).await,
        End::Junk => {
            say(&mut viewer, vec![7; 40]).await;
            viewer.closed().await;
            return;
        }
        End::Text => {
            viewer.0.send(Message::text("hello")).await.expect("it listens");
            viewer.closed().await;
            return;
        }
    }
    drop(viewer);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_viewer_holds_comes_up_however_it_ends_and_clicks_arrive() {
    let Some((agent, window)) = desk().await else { return };
    // It stays, holds nothing, and is not disturbed.
    let mut other = viewer(&agent).await;
    for how in [End::Close, End::Vanish, End::Reset, End::HalfWay, End::Junk, End::Text] {
        let mut viewer = viewer(&agent).await;
        say(&mut viewer, pointer(1, 50, 60)).await;
        window.wait_for(TIMEOUT, |got| got.contains(&Got::Press(1, 50, 60)));
        say(&mut viewer, pointer(1, 70, 80)).await;
        window.wait_for(TIMEOUT, |got| got.contains(&Got::Motion(70, 80)));
        end(viewer, how).await;
        until_down(&agent, "", json!([])).await;
        assert_eq!(window.clicks(), [Got::Release(1, 70, 80)], "{how:?}");
        let clicked = agent.post("/click", json!({"x": 5, "y": 6})).await;
        assert_eq!(clicked.status, 200, "{how:?}: {}", clicked.body);
        assert_eq!(window.clicks(), [Got::Press(1, 5, 6), Got::Release(1, 5, 6)], "{how:?}");
    }
    say(&mut other, pointer(4, 9, 9)).await;
    window.wait_for(TIMEOUT, |got| got.contains(&Got::Press(3, 9, 9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_a_viewer_s_button_makes_vain_says_so() {
    let Some((agent, window)) = desk().await else { return };
    let mut viewer = viewer(&agent).await;
    say(&mut viewer, pointer(1, 50, 60)).await;
    window.wait_for(TIMEOUT, |got| got.contains(&Got::Press(1, 50, 60)));
    for (path, body) in [
        ("/click", json!({"x": 5, "y": 6})),
        ("/drag", json!({"start_x": 5, "start_y": 6, "end_x": 7, "end_y": 8})),
        ("/mouse_down", json!({})),
        ("/mouse_up", json!({})),
    ] {
        let refused = agent.post(path, body).await;
        assert_eq!(refused.status, 409, "{path}: {}", refused.body);
        let why = refused.body["error"].as_str().expect("why");
        assert!(why.contains("left button is held down by a viewer"), "{why}");
    }
    assert_eq!(window.clicks(), []);
    // Another button is free, and so is this one once the viewer lets it go.
    assert_eq!(agent.post("/click", json!({"x": 5, "y": 6, "button": "right"})).await.status, 200);
    assert_eq!(window.clicks(), [Got::Press(3, 5, 6), Got::Release(3, 5, 6)]);
    say(&mut viewer, pointer(0, 50, 60)).await;
    until_down(&agent, "", json!([])).await;
    // What is held by the API itself is no hindrance to it.
    assert_eq!(agent.post("/mouse_down", json!({"x": 5, "y": 6})).await.status, 200);
    assert_eq!(agent.post("/mouse_up", json!({})).await.status, 200);
    assert_eq!(window.clicks(), [Got::Release(1, 50, 60), Got::Press(1, 5, 6), Got::Release(1, 5, 6)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_tab_leaves_nothing_pressed_on_a_computer() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let path = with_password(&house, &id, "").await;
    let computer = format!("/computers/{id}");
    for how in [End::Vanish, End::Reset] {
        let mut viewer = greeted(&house, &path).await;
        enter(&mut viewer).await;
        say(&mut viewer, pointer(1, 50, 60)).await;
        until_down(&house, &computer, json!(["left"])).await;
        let refused = house.act(&id, "click", json!({"x": 5, "y": 6})).await;
        assert_eq!(refused.status, 409, "{}", refused.body);
        end(viewer, how).await;
        until_down(&house, &computer, json!([])).await;
        let clicked = house.act(&id, "click", json!({"x": 5, "y": 6})).await;
        assert_eq!(clicked.status, 200, "{}", clicked.body);
    }
}
