//! Protocol of one events socket: subscriptions, errors, slow readers and closing.

use std::collections::BTreeMap;

use futures_util::SinkExt;
use hotdesk::domain::desktop::event::EventKind;
use hotdesk::wire::desktop::event::{Event, EventData, EventServerMessage};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::source::{EventSource, JsonMessages, close_normally, sample_events, subscribe};
use crate::harness::socket::{Client, SocketEvent};

async fn connect(address: &str) -> Client {
    Client::open(address, "/ws/events", &[]).await.expect("accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_can_be_subscribed_to_and_comes_in_its_shape() {
    let source = EventSource::new();
    let mut client = connect(&source.serve().await).await;
    for data in sample_events() {
        source.feed.publish(Event::now(data));
    }
    assert_eq!(
        client.request_json(json!({"type": "ping"})).await,
        json!({"type": "pong"}),
        "the pong must be the first message"
    );
    let names: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
    subscribe(&mut client, "subscribe", &names).await;
    for data in sample_events() {
        let event = Event::now(data);
        source.feed.publish(event.clone());
        let message = client.next_json().await;
        assert_eq!(message["event"]["type"], event.kind().name());
        assert_eq!(
            message["event"]["timestamp"].as_str().map(str::len),
            Some("2026-01-31T09:30:00.120Z".len())
        );
        let expected = EventServerMessage::Event { dropped: None, dropped_by_type: BTreeMap::new(), event };
        assert_eq!(message, serde_json::to_value(expected).expect("JSON"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_additive_removable_and_of_one_connection() {
    let source = EventSource::new();
    let address = source.serve().await;
    let (mut one, mut other) = (connect(&address).await, connect(&address).await);
    subscribe(&mut one, "subscribe", &["process_start"]).await;
    subscribe(&mut one, "subscribe", &["active", "idle"]).await;
    subscribe(&mut other, "subscribe", &["idle"]).await;
    source.wait_for_subscriptions([EventKind::ProcessStart, EventKind::Active, EventKind::Idle]).await;
    subscribe(&mut one, "unsubscribe", &["active", "clipboard"]).await;
    for data in sample_events() {
        source.feed.publish(Event::now(data));
    }
    assert_eq!(one.next_json().await["event"]["type"], "process_start");
    assert_eq!(one.next_json().await["event"]["type"], "idle");
    assert_eq!(one.request_json(json!({"type": "ping"})).await["type"], "pong");
    assert_eq!(other.next_json().await["event"]["type"], "idle");
    assert_eq!(other.request_json(json!({"type": "ping"})).await["type"], "pong");
    drop(other);
    source.wait_for_subscriptions([EventKind::ProcessStart, EventKind::Idle]).await;
    close_normally(one).await;
    source.wait_for_subscriptions([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_followed_is_an_error_message_and_the_socket_stays() {
    let source = EventSource::new();
    let mut client = connect(&source.serve().await).await;
    let answer =
        client.request_json(json!({"type": "subscribe", "event_types": ["idle", "windows_focus"]})).await;
    assert_eq!(answer, json!({"type": "error", "message": "Unknown event type: windows_focus"}));
    assert!(
        source.feed.wanted().borrow().is_empty(),
        "a list with an invalid type must subscribe to nothing"
    );
    for (message, word) in [
        (Message::text("{"), "JSON object"),
        (Message::text(r#"{"type":"subscribe"}"#), "array of strings"),
        (Message::text(r#"{"type":"noise"}"#), "noise"),
        (Message::binary(vec![0xff; 100]), "text frames"),
        (Message::text("x".repeat(1024 * 1024)), "longer than"),
    ] {
        client.0.send(message).await.expect("sent");
        let answer = client.next_json().await;
        assert_eq!(answer["type"], "error");
        assert!(answer["message"].as_str().is_some_and(|text| text.contains(word)), "{answer}");
    }
    assert_eq!(client.request_json(json!({"type": "ping"})).await, json!({"type": "pong"}));
    subscribe(&mut client, "subscribe", &["idle"]).await;
}

/// A client that does not read keeps what the kernel buffers and the newest 256 events. It learns the number
/// of lost events and delays no other client.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_consumer_loses_the_oldest_and_delays_nobody() {
    // 18 MB, because JSON encodes each control character in 6 bytes: more than the kernel buffers for one
    // connection. The newest 256 are 3 MB, less than the limit of the queue.
    const EVENTS: u32 = 1500;
    let source = EventSource::new();
    let address = source.serve().await;
    let (mut slow_client, mut fast_client) = (connect(&address).await, connect(&address).await);
    for client in [&mut slow_client, &mut fast_client] {
        subscribe(client, "subscribe", &["process_start"]).await;
    }
    for pid in 1..=EVENTS {
        source.feed.publish(Event::now(EventData::ProcessStart { pid, name: "\u{1}".repeat(2000) }));
        let message = fast_client.next_json().await;
        assert_eq!(message["event"]["data"]["pid"], pid);
        assert!(message.get("dropped").is_none(), "the fast client must miss nothing");
    }
    let mut received: Vec<(u32, u64)> = Vec::new();
    while received.last().is_none_or(|(pid, _)| *pid < EVENTS) {
        let message = slow_client.next_json().await;
        let pid = message["event"]["data"]["pid"].as_u64().expect("a pid") as u32;
        received.push((pid, message["dropped"].as_u64().unwrap_or_default()));
    }
    let (_, missed) = *received.last().expect("events");
    assert_eq!(missed + received.len() as u64, u64::from(EVENTS), "every lost event must be counted");
    let newest: Vec<u32> = received[received.len() - 256..].iter().map(|(pid, _)| *pid).collect();
    assert_eq!(newest, (EVENTS - 255..=EVENTS).collect::<Vec<_>>(), "the newest events must be kept");
    assert_ne!(received[received.len() - 257].0, EVENTS - 256, "and at most 256 of them");
    assert!(
        received.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
        "events must be in order with a cumulative count"
    );
    assert_eq!(
        slow_client.request_json(json!({"type": "ping"})).await["type"],
        "pong",
        "the slow client must still be served"
    );
}

/// The server stops reading from a client that does not read its answers: memory stays bounded, and other
/// clients are unaffected.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_pings_is_held_back() {
    let source = EventSource::new();
    let address = source.serve().await;
    let (flooder, mut other) = (connect(&address).await, connect(&address).await);
    let flood = source.tasks.spawn("flood", async move {
        let Client(mut socket) = flooder;
        while socket.send(Message::text(r#"{"type":"ping"}"#)).await.is_ok() {}
    });
    for _ in 0..100 {
        assert_eq!(other.request_json(json!({"type": "ping"})).await["type"], "pong");
    }
    flood.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_says_1001() {
    let source = EventSource::new();
    let mut client = connect(&source.serve().await).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    let tasks = source.tasks.clone();
    let (late, received) = tokio::join!(tasks.drain(super::source::TIMEOUT), client.next());
    assert_eq!(received, SocketEvent::Closed(1001, "server shutting down".into()));
    assert!(late.is_empty(), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_started_by_hand_converses_and_shows_its_catalogue() {
    let agent = crate::harness::agent::RunningAgent::headless().await;
    let catalogue = agent.get("/events").await;
    assert_eq!(catalogue.status, 200);
    let names: Vec<&str> =
        catalogue.body["event_types"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let path = format!("/ws/events?token={}", agent.token());
    let mut client = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    subscribe(&mut client, "subscribe", &names).await;
    // Processes of this machine start and end meanwhile.
    let mut answer = client.request_json(json!({"type": "ping"})).await;
    while answer["type"] == "event" {
        answer = client.next_json().await;
    }
    assert_eq!(answer["type"], "pong");
}
