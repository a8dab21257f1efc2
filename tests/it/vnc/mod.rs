//! Are screens live for VNC clients, and only for those who may? (wire.md 10.3, threats.md T11)

mod gate;
mod page;
mod pixels;
mod pressed;
mod programs;
pub mod puppet;
mod tickets;

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};
use pixels::Pixels;

/// How long something that was typed may take to arrive in a program.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The path of a computer's VNC socket with its password, or with what is given.
async fn with_password(house: &RunningController, id: &str, more: &str) -> String {
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password").to_owned();
    format!("/desktops/{id}/ws/websockify?token={password}{more}")
}

/// A ticket for a screen.
async fn ticket(house: &RunningController, id: &str, wanted: Value) -> Value {
    house.made(&format!("/computers/{id}/stream-tickets"), wanted).await
}

/// What the screenshot API shows.
async fn screenshot(house: &RunningController, id: &str, screen: &str) -> Pixels {
    let path = format!("/computers/{id}/screenshot?response_format=binary&screen={screen}&cursor=off");
    let answer = house.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    Pixels::of(&answer.bytes().await.expect("a picture"))
}

/// Opens a terminal that writes each line it reads to a file, with the keyboard's focus; where its window is.
async fn listener(house: &RunningController, id: &str) -> (i64, i64) {
    let reading = "rm -f /tmp/heard; while read -r line; do echo \"$line\" >> /tmp/heard; done";
    let argv = ["xterm", "-geometry", "60x10+100+100", "-e", "bash", "-c", reading];
    let launched = house.act(id, "launch", json!({"argv": argv, "wait_seconds": 30})).await;
    let window = &launched.body["window"];
    assert!(window.is_object(), "{}", launched.body);
    let middle =
        |from: &str, size: &str| window[from].as_i64().expect(from) + window[size].as_i64().expect(size) / 2;
    (middle("x", "width"), middle("y", "height"))
}

/// What the terminal of [`listener`] has read, once it is what it should be; else what it is.
async fn heard(house: &RunningController, id: &str, expected: &str) -> String {
    let read = || house.bash(id, "cat /tmp/heard 2>/dev/null; true");
    let found =
        wait::until(TIMEOUT, || async { (read().await.trim() == expected).then(|| expected.to_owned()) });
    match found.await {
        Some(heard) => heard,
        None => read().await,
    }
}

/// A socket that has read the server's version, so that there is somebody at the other end.
async fn greeted(house: &RunningController, path: &str) -> Client {
    let mut socket = Client::open(house.address(), path, &[]).await.expect("accepted");
    assert_eq!(socket.next().await, Came::Binary(b"RFB 003.008\n".to_vec()), "{path}");
    socket
}

/// Bytes from the server until there are so many.
async fn bytes(socket: &mut Client, count: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < count {
        match socket.next().await {
            Came::Binary(more) => got.extend(more),
            came @ (Came::Text(_) | Came::Closed(..) | Came::Cut) => panic!("{came:?} after {got:?}"),
        }
    }
    got
}
