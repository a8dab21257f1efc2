//! Video channel through the controller: who may open it, and what a computer without ffmpeg answers.

use serde_json::json;

use super::password;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

/// The socket of a new ticket, at the video channel.
async fn open(controller: &RunningController, id: &str, mode: &str) -> (Client, String) {
    let body = json!({ "mode": mode });
    let ticket = controller.create(&format!("/computers/{id}/stream-tickets"), body).await;
    let url = ticket["ws_url"].as_str().expect("a URL").replace("/ws/websockify", "/ws/video");
    let path = url[url.find("/desktops/").expect("a path")..].to_owned();
    (Client::open(controller.address(), &path, &[]).await.expect("accepted"), path)
}

/// Reads the announcement, and the first frame, which must be a key frame.
async fn expect_video(mut client: Client) {
    let SocketEvent::Text(text) = client.next().await else { panic!("no announcement") };
    assert!(text.contains("\"started\"") && text.contains("\"avc1."), "{text}");
    let SocketEvent::Binary(frame) = client.next().await else { panic!("no frame") };
    assert_eq!(frame[0], 1, "a key frame");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_without_ffmpeg_says_so() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    for mode in ["view", "control"] {
        assert_eq!(open(&controller, &id, mode).await.0.closed().await, 4501, "{mode}");
    }
    let query = format!("?token={}", password(&controller, &id).await);
    let path = format!("/desktops/{id}/ws/video{query}");
    let mut socket = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    let SocketEvent::Closed(4501, reason) = socket.next().await else { panic!("not refused") };
    assert!(reason.contains("ffmpeg is not installed"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_and_the_password_open_the_video() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    for mode in ["view", "control"] {
        let (client, path) = open(&controller, &id, mode).await;
        expect_video(client).await;
        let again = Client::open(controller.address(), &path, &[]).await.expect("accepted");
        assert_eq!(again.closed().await, 4401, "a used ticket");
    }
    let query = format!("?token={}&screen=default", password(&controller, &id).await);
    let path = format!("/desktops/{id}/ws/video{query}");
    expect_video(Client::open(controller.address(), &path, &[]).await.expect("accepted")).await;
    let unknown = path.replace("default", "screen-102");
    let refused = Client::open(controller.address(), &unknown, &[]).await.expect("accepted");
    assert_eq!(refused.closed().await, 4404);
}
