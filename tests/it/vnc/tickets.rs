//! Stream tickets: what a ticket opens, how often, and for how long.

use std::time::Duration;

use futures_util::SinkExt;
use hotdesk::base::clock;
use hotdesk::base::wait;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{create_ticket, open_viewer, read_bytes};
use crate::harness::controller::RunningController;
use crate::harness::socket::Client;

/// The path and query of a ticket's socket.
pub(super) fn path(ticket: &serde_json::Value) -> String {
    let url = ticket["ws_url"].as_str().expect("a URL");
    let at = url.find("/desktops/").expect("a path");
    url[at..].to_owned()
}

async fn code(controller: &RunningController, path: &str) -> u16 {
    Client::open(controller.address(), path, &[]).await.expect("accepted").closed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_its_screen_once_and_soon() {
    let Some((controller, workspace, id)) = RunningController::with_a_computer().await else { return };
    let before = clock::now().plus(Duration::from_secs(60)).iso8601();
    let created = create_ticket(&controller, &id, json!({"mode": "view"})).await;
    assert!(created["expires_at"].as_str() >= Some(before.as_str()), "{created}");
    let text = created["ticket"].as_str().expect("a ticket");
    assert!(text.len() >= 22, "22 of 62 characters are 130 bits");
    let url = created["url"].as_str().expect("a URL");
    let (page, fragment) = url.split_once('#').expect("a fragment");
    assert!(!page.contains(text) && fragment.ends_with(text) && page.starts_with(controller.base()), "{url}");
    assert_eq!((&created["mode"], &created["screen"]), (&json!("view"), &json!("default")));

    let first = open_viewer(&controller, &path(&created)).await;
    assert_eq!(code(&controller, &path(&created)).await, 4001, "a used ticket");
    drop(first);
    assert_eq!(code(&controller, &format!("/desktops/{id}/ws/websockify?ticket=guess")).await, 4001);
    // A ticket is not valid for another channel, nor for another computer.
    let created = create_ticket(&controller, &id, json!({"mode": "control", "ttl_seconds": 3600})).await;
    assert_eq!(code(&controller, &path(&created).replace("websockify", "terminal")).await, 4401);
    let other = controller.computer(&workspace, "other").await;
    let instance = other["instance_id"].as_str().expect("one");
    let own = controller.record(&id).await["instance_id"].as_str().expect("one").to_owned();
    assert_eq!(code(&controller, &path(&created).replace(&own, instance)).await, 4001);
    let foreign = controller.computer(&controller.workspace("another").await, "other").await;
    let instance = foreign["instance_id"].as_str().expect("one");
    assert_eq!(code(&controller, &path(&created).replace(&own, instance)).await, 4006);
    // A different `screen` in the query is ignored.
    let _open = open_viewer(&controller, &format!("{}&screen=screen-102", path(&created))).await;

    let short = create_ticket(&controller, &id, json!({"mode": "view", "ttl_seconds": 1})).await;
    let end = short["expires_at"].as_str().expect("a time").to_owned();
    let passed =
        wait::until(Duration::from_secs(10), || async { (clock::now().iso8601() > end).then_some(()) });
    passed.await.expect("time passes");
    assert_eq!(code(&controller, &path(&short)).await, 4001);

    // A restart and a stop invalidate tickets.
    let old = create_ticket(&controller, &id, json!({"mode": "view"})).await;
    assert_eq!(controller.act(&id, "restart", json!({})).await.status, 200);
    controller.until_status(&id, "running").await;
    assert_eq!(code(&controller, &path(&old)).await, 4001);
    assert!(!controller.log().contains(text), "the log contains a ticket");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_for_a_screen_there_is_and_lasts_an_hour_at_most() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let tickets = format!("/computers/{id}/stream-tickets");
    let create = |body| controller.post(&tickets, body);
    for (body, status) in [
        (json!({}), 400),
        (json!({"mode": "admin"}), 400),
        (json!({"mode": "view", "ttl_seconds": 0}), 400),
        (json!({"mode": "view", "ttl_seconds": 3601}), 400),
        (json!({"mode": "view", "ttl_seconds": 3600}), 201),
        (json!({"mode": "view", "screen": "screen-102"}), 404),
        (json!({"mode": "view", "screen": "default&ticket=x"}), 404),
    ] {
        let answer = create(body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
    }
    controller.act(&id, "stop", json!({})).await;
    controller.until_status(&id, "stopped").await;
    assert_eq!(create(json!({"mode": "view"})).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_watch_and_says_what_no_watcher_says_is_cut_off() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    for message in [&b"\x07"[..], b"\xff\x01\x00\x00", b"\x02\x00\xff\xff"] {
        let created = create_ticket(&controller, &id, json!({"mode": "view"})).await;
        let mut viewer = open_viewer(&controller, &path(&created)).await;
        viewer.0.send(Message::Binary(b"RFB 003.008\n\x01\x01".as_slice().into())).await.expect("sent");
        // The server's security type, its result, and the screen's parameters.
        read_bytes(&mut viewer, 2 + 4 + 24).await;
        viewer.0.send(Message::Binary(message.to_vec().into())).await.expect("sent");
        assert_eq!(viewer.closed().await, 4500, "{message:?}");
    }
    // RFB is binary. A text frame must not bypass the filter of view-only tickets.
    let created = create_ticket(&controller, &id, json!({"mode": "view"})).await;
    let mut viewer = open_viewer(&controller, &path(&created)).await;
    viewer.0.send(Message::text("\u{4}\u{1}")).await.expect("sent");
    assert_eq!(viewer.closed().await, 4500);
}
