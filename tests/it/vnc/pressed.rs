//! Buttons that a viewer holds: they are released when the viewer is gone, and actions report a conflict with
//! them.

use futures_util::SinkExt;
use hotdesk::base::wait;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{TIMEOUT, open_viewer, password_path, read_bytes};
use crate::display::window::{InputEvent, Window};
use crate::harness::agent::RunningAgent;
use crate::harness::caller::Caller;
use crate::harness::capability::Capability;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

/// An RFB PointerEvent.
pub(super) fn pointer(buttons: u8, x: u8, y: u8) -> Vec<u8> {
    vec![5, buttons, 0, x, 0, y]
}

pub(super) async fn send(viewer: &mut Client, message: Vec<u8>) {
    viewer.0.send(Message::Binary(message.into())).await.expect("an open socket");
}

/// Completes the handshake after the server's version.
pub(super) async fn handshake(viewer: &mut Client) {
    send(viewer, b"RFB 003.008\n\x01\x01".to_vec()).await;
    read_bytes(viewer, 2 + 4 + 24).await;
}

/// An agent with an X server, and a window that covers its screen.
pub(super) async fn open_agent() -> Option<(RunningAgent, Window)> {
    if !std::path::Path::new("/usr/bin/Xvnc").exists() {
        Capability::X11.skip("Xvnc is not installed");
        return None;
    }
    let agent = RunningAgent::with_screen().await?;
    wait_for_held(&agent, "", json!([])).await;
    let screens = agent.get("/screens").await.body;
    let display = screens["screens"][0]["display"].as_str().expect("a display");
    let window = Window::open(display, 0, 0, 800, 600, 0);
    Some((agent, window))
}

/// A viewer of the agent's screen after the handshake.
pub(super) async fn viewer(agent: &RunningAgent) -> Client {
    viewer_with(agent, &[]).await
}

/// The same with further header fields of the request.
pub(super) async fn viewer_with(agent: &RunningAgent, fields: &[(&'static str, &str)]) -> Client {
    let path = format!("/ws/websockify?token={}", agent.token());
    let mut viewer = Client::open(agent.address(), &path, fields).await.expect("accepted");
    assert_eq!(viewer.next().await, SocketEvent::Binary(b"RFB 003.008\n".to_vec()));
    handshake(&mut viewer).await;
    viewer
}

async fn held_buttons(caller: &Caller, prefix: &str) -> Value {
    caller.get(&format!("{prefix}/cursor_position")).await.body["buttons"].clone()
}

async fn wait_for_held(caller: &Caller, prefix: &str, expected: Value) {
    let found =
        wait::until(TIMEOUT, || async { (held_buttons(caller, prefix).await == expected).then_some(()) });
    assert!(found.await.is_some(), "{} instead of {expected}", held_buttons(caller, prefix).await);
}

/// The end of a viewer.
#[derive(Clone, Copy, Debug)]
enum ViewerEnd {
    Close,
    Vanish,
    Reset,
    /// In the middle of a clipboard message.
    HalfWay,
    /// After bytes that are not RFB.
    Junk,
    /// After a text frame, which RFB does not have.
    Text,
}

async fn end(mut viewer: Client, how: ViewerEnd) {
    match how {
        ViewerEnd::Close => viewer.0.close(None).await.expect("an open socket"),
        ViewerEnd::Vanish => {}
        ViewerEnd::Reset => viewer.0.get_ref().set_zero_linger().expect("an option"),
        ViewerEnd::HalfWay => send(&mut viewer, vec![6, 0, 0, 0, 0, 0, 0, 99, b'a', b'b']).await,
        ViewerEnd::Junk => {
            send(&mut viewer, vec![7; 40]).await;
            viewer.closed().await;
            return;
        }
        ViewerEnd::Text => {
            viewer.0.send(Message::text("hello")).await.expect("an open socket");
            viewer.closed().await;
            return;
        }
    }
    drop(viewer);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_viewer_holds_comes_up_however_it_ends_and_clicks_arrive() {
    let Some((agent, window)) = open_agent().await else { return };
    // This viewer stays, holds no button, and must not be affected.
    let mut other = viewer(&agent).await;
    for how in [
        ViewerEnd::Close,
        ViewerEnd::Vanish,
        ViewerEnd::Reset,
        ViewerEnd::HalfWay,
        ViewerEnd::Junk,
        ViewerEnd::Text,
    ] {
        let mut viewer = viewer(&agent).await;
        send(&mut viewer, pointer(1, 50, 60)).await;
        window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Press(1, 50, 60)));
        send(&mut viewer, pointer(1, 70, 80)).await;
        window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Motion(70, 80)));
        end(viewer, how).await;
        wait_for_held(&agent, "", json!([])).await;
        assert_eq!(window.clicks(), [InputEvent::Release(1, 70, 80)], "{how:?}");
        let clicked = agent.post("/click", json!({"x": 5, "y": 6})).await;
        assert_eq!(clicked.status, 200, "{how:?}: {}", clicked.body);
        assert_eq!(window.clicks(), [InputEvent::Press(1, 5, 6), InputEvent::Release(1, 5, 6)], "{how:?}");
    }
    send(&mut other, pointer(4, 9, 9)).await;
    window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Press(3, 9, 9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_a_viewer_s_button_makes_vain_says_so() {
    let Some((agent, window)) = open_agent().await else { return };
    let mut viewer = viewer(&agent).await;
    send(&mut viewer, pointer(1, 50, 60)).await;
    window.wait_for(TIMEOUT, |got| got.contains(&InputEvent::Press(1, 50, 60)));
    for (path, body) in [
        ("/click", json!({"x": 5, "y": 6})),
        ("/drag", json!({"start_x": 5, "start_y": 6, "end_x": 7, "end_y": 8})),
        ("/mouse_down", json!({})),
        ("/mouse_up", json!({})),
    ] {
        let refused = agent.post(path, body).await;
        assert_eq!(refused.status, 409, "{path}: {}", refused.body);
        let why = refused.body["error"].as_str().expect("a text");
        assert!(why.contains("left button is held down by a viewer"), "{why}");
    }
    assert_eq!(window.clicks(), []);
    // Another button works, and so does this one after the viewer has released it.
    assert_eq!(agent.post("/click", json!({"x": 5, "y": 6, "button": "right"})).await.status, 200);
    assert_eq!(window.clicks(), [InputEvent::Press(3, 5, 6), InputEvent::Release(3, 5, 6)]);
    send(&mut viewer, pointer(0, 50, 60)).await;
    wait_for_held(&agent, "", json!([])).await;
    // A button that the API holds is no conflict for the API.
    assert_eq!(agent.post("/mouse_down", json!({"x": 5, "y": 6})).await.status, 200);
    assert_eq!(agent.post("/mouse_up", json!({})).await.status, 200);
    assert_eq!(
        window.clicks(),
        [InputEvent::Release(1, 50, 60), InputEvent::Press(1, 5, 6), InputEvent::Release(1, 5, 6)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_tab_leaves_nothing_pressed_on_a_computer() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let path = password_path(&controller, &id, "").await;
    let computer = format!("/computers/{id}");
    for how in [ViewerEnd::Vanish, ViewerEnd::Reset] {
        let mut viewer = open_viewer(&controller, &path).await;
        handshake(&mut viewer).await;
        send(&mut viewer, pointer(1, 50, 60)).await;
        wait_for_held(&controller, &computer, json!(["left"])).await;
        let refused = controller.act(&id, "click", json!({"x": 5, "y": 6})).await;
        assert_eq!(refused.status, 409, "{}", refused.body);
        end(viewer, how).await;
        wait_for_held(&controller, &computer, json!([])).await;
        let clicked = controller.act(&id, "click", json!({"x": 5, "y": 6})).await;
        assert_eq!(clicked.status, 200, "{}", clicked.body);
    }
}
