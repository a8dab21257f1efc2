//! VNC access to screens: viewers, tickets and permissions (docs/channels.md; T11 in docs/security.md).

mod clipboard;
mod control;
mod crowd;
mod embedded;
mod gate;
mod page;
mod pings;
mod pixels;
mod pressed;
mod programs;
pub mod puppet;
mod recorded;
mod tickets;

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};
use pixels::Pixels;

/// Longest time until typed text reaches a program.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The path of a computer's VNC socket with its password; `more` is appended.
async fn password_path(controller: &RunningController, id: &str, more: &str) -> String {
    let got = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password").to_owned();
    format!("/desktops/{id}/ws/websockify?token={password}{more}")
}

/// A new ticket for a screen.
async fn create_ticket(controller: &RunningController, id: &str, body: Value) -> Value {
    controller.create(&format!("/computers/{id}/stream-tickets"), body).await
}

/// The screenshot of a screen from the API.
async fn screenshot(controller: &RunningController, id: &str, screen: &str) -> Pixels {
    let path = format!("/computers/{id}/screenshot?response_format=binary&screen={screen}&cursor=off");
    let answer = controller.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    Pixels::of(&answer.bytes().await.expect("a picture"))
}

/// Opens a focused terminal that writes each line to a file, and returns the middle of its window.
async fn open_terminal(controller: &RunningController, id: &str) -> (i64, i64) {
    let reading = "rm -f /tmp/heard; while read -r line; do echo \"$line\" >> /tmp/heard; done";
    let argv = ["xterm", "-geometry", "60x10+100+100", "-e", "bash", "-c", reading];
    let launched = controller.act(id, "launch", json!({"argv": argv, "wait_seconds": 30})).await;
    let window = &launched.body["window"];
    assert!(window.is_object(), "{}", launched.body);
    let middle =
        |from: &str, size: &str| window[from].as_i64().expect(from) + window[size].as_i64().expect(size) / 2;
    (middle("x", "width"), middle("y", "height"))
}

/// The text that reached the terminal of [`open_terminal`], as soon as it is the expected one or after the
/// timeout.
async fn typed_text(controller: &RunningController, id: &str, expected: &str) -> String {
    let read = || controller.bash(id, "cat /tmp/heard 2>/dev/null; true");
    let found =
        wait::until(TIMEOUT, || async { (read().await.trim() == expected).then(|| expected.to_owned()) });
    match found.await {
        Some(text) => text,
        None => read().await,
    }
}

/// A socket that has read the server's version, so that the server is connected.
async fn open_viewer(controller: &RunningController, path: &str) -> Client {
    let mut socket = Client::open(controller.address(), path, &[]).await.expect("accepted");
    assert_eq!(socket.next().await, SocketEvent::Binary(b"RFB 003.008\n".to_vec()), "{path}");
    socket
}

/// Reads at least `count` bytes.
async fn read_bytes(socket: &mut Client, count: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < count {
        match socket.next().await {
            SocketEvent::Binary(more) => got.extend(more),
            other @ (SocketEvent::Text(_) | SocketEvent::Closed(..) | SocketEvent::Cut) => {
                panic!("{other:?} after {got:?}")
            }
        }
    }
    got
}
