//! What does a ticket open, and for how long?

use std::time::Duration;

use futures_util::SinkExt;
use hotdesk::base::clock::{iso8601, now_ms};
use hotdesk::base::wait;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{bytes, greeted, ticket};
use crate::harness::controller::RunningController;
use crate::harness::socket::Client;

/// The path and query of a ticket's socket.
fn path(ticket: &serde_json::Value) -> String {
    let url = ticket["ws_url"].as_str().expect("a URL");
    let at = url.find("/desktops/").expect("a path");
    url[at..].to_owned()
}

async fn code(house: &RunningController, path: &str) -> u16 {
    Client::open(house.address(), path, &[]).await.expect("accepted").closed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_its_screen_once_and_soon() {
    let Some((house, workspace, id)) = RunningController::with_a_computer().await else { return };
    let before = iso8601(now_ms() + 60_000);
    let made = ticket(&house, &id, json!({"mode": "view"})).await;
    assert!(made["expires_at"].as_str() >= Some(before.as_str()), "{made}");
    let text = made["ticket"].as_str().expect("a ticket");
    assert!(text.len() >= 22, "22 of 62 characters are 130 bits");
    let url = made["url"].as_str().expect("a URL");
    let (page, fragment) = url.split_once('#').expect("a fragment");
    assert!(!page.contains(text) && fragment.ends_with(text) && page.starts_with(house.base()), "{url}");
    assert_eq!((&made["mode"], &made["screen"]), (&json!("view"), &json!("default")));

    let first = greeted(&house, &path(&made)).await;
    assert_eq!(code(&house, &path(&made)).await, 4001, "it is used");
    drop(first);
    assert_eq!(code(&house, &format!("/desktops/{id}/ws/websockify?ticket=guess")).await, 4001);
    // It is none for another channel, nor for another computer.
    let made = ticket(&house, &id, json!({"mode": "control", "ttl_seconds": 3600})).await;
    assert_eq!(code(&house, &path(&made).replace("websockify", "terminal")).await, 4401);
    let other = house.computer(&workspace, "other").await;
    let instance = other["instance_id"].as_str().expect("one");
    let own = house.record(&id).await["instance_id"].as_str().expect("one").to_owned();
    assert_eq!(code(&house, &path(&made).replace(&own, instance)).await, 4001);
    let stranger = house.computer(&house.workspace("another").await, "other").await;
    let instance = stranger["instance_id"].as_str().expect("one");
    assert_eq!(code(&house, &path(&made).replace(&own, instance)).await, 4006);
    // Nor does another's query choose its screen.
    let _open = greeted(&house, &format!("{}&screen=screen-102", path(&made))).await;

    let short = ticket(&house, &id, json!({"mode": "view", "ttl_seconds": 1})).await;
    let end = short["expires_at"].as_str().expect("a time").to_owned();
    let passed = wait::until(Duration::from_secs(10), || async { (iso8601(now_ms()) > end).then_some(()) });
    passed.await.expect("time passes");
    assert_eq!(code(&house, &path(&short)).await, 4001);

    // A boot ends them, and so does a stop.
    let old = ticket(&house, &id, json!({"mode": "view"})).await;
    assert_eq!(house.act(&id, "restart", json!({})).await.status, 200);
    house.until_status(&id, "running").await;
    assert_eq!(code(&house, &path(&old)).await, 4001);
    assert!(!house.log().contains(text), "a ticket is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_for_a_screen_there_is_and_lasts_an_hour_at_most() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let tickets = format!("/computers/{id}/stream-tickets");
    let ask = |body| house.post(&tickets, body);
    for (body, status) in [
        (json!({}), 400),
        (json!({"mode": "admin"}), 400),
        (json!({"mode": "view", "ttl_seconds": 0}), 400),
        (json!({"mode": "view", "ttl_seconds": 3601}), 400),
        (json!({"mode": "view", "ttl_seconds": 3600}), 201),
        (json!({"mode": "view", "screen": "screen-102"}), 404),
        (json!({"mode": "view", "screen": "default&ticket=x"}), 404),
    ] {
        let answer = ask(body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
    }
    house.act(&id, "stop", json!({})).await;
    house.until_status(&id, "stopped").await;
    assert_eq!(ask(json!({"mode": "view"})).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_watch_and_says_what_no_watcher_says_is_cut_off() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    for said in [&b"\x07"[..], b"\xff\x01\x00\x00", b"\x02\x00\xff\xff"] {
        let made = ticket(&house, &id, json!({"mode": "view"})).await;
        let mut viewer = greeted(&house, &path(&made)).await;
        viewer.0.send(Message::Binary(b"RFB 003.008\n\x01\x01".as_slice().into())).await.expect("sent");
        // The security type, its result, then the screen.
        bytes(&mut viewer, 2 + 4 + 24).await;
        viewer.0.send(Message::Binary(said.to_vec().into())).await.expect("sent");
        assert_eq!(viewer.closed().await, 4500, "{said:?}");
    }
    // RFB is binary; text does not go past who reads along.
    let made = ticket(&house, &id, json!({"mode": "view"})).await;
    let mut viewer = greeted(&house, &path(&made)).await;
    viewer.0.send(Message::text("\u{4}\u{1}")).await.expect("sent");
    assert_eq!(viewer.closed().await, 4500);
}
