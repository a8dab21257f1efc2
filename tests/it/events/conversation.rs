//! One socket's conversation: subscriptions, refusals, slow readers, the end.

use std::collections::BTreeMap;

use futures_util::SinkExt;
use hotdesk::domain::event::Kind;
use hotdesk::wire::event::{Data, Event, ServerMessage};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::source::{Source, Talk, leave, one_of_each, subscribe};
use crate::harness::socket::{Came, Client};

async fn connect(address: &str) -> Client {
    Client::open(address, "/ws/events", &[]).await.expect("accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_can_be_subscribed_to_and_comes_in_its_shape() {
    let source = Source::new();
    let mut client = connect(&source.serve().await).await;
    for data in one_of_each() {
        source.feed.publish(Event::now(data));
    }
    assert_eq!(client.ask(json!({"type": "ping"})).await, json!({"type": "pong"}), "nothing before it");
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    subscribe(&mut client, "subscribe", &names).await;
    for data in one_of_each() {
        let event = Event::now(data);
        source.feed.publish(event.clone());
        let told = client.told().await;
        assert_eq!(told["event"]["type"], event.kind().name());
        assert_eq!(told["event"]["timestamp"].as_str().map(str::len), Some("2026-01-31T09:30:00.120Z".len()));
        let expected = ServerMessage::Event { dropped: None, dropped_by_type: BTreeMap::new(), event };
        assert_eq!(told, serde_json::to_value(expected).expect("JSON"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_additive_removable_and_of_one_connection() {
    let source = Source::new();
    let address = source.serve().await;
    let (mut one, mut other) = (connect(&address).await, connect(&address).await);
    subscribe(&mut one, "subscribe", &["process_start"]).await;
    subscribe(&mut one, "subscribe", &["active", "idle"]).await;
    subscribe(&mut other, "subscribe", &["idle"]).await;
    source.until_wanted([Kind::ProcessStart, Kind::Active, Kind::Idle]).await;
    subscribe(&mut one, "unsubscribe", &["active", "clipboard"]).await;
    for data in one_of_each() {
        source.feed.publish(Event::now(data));
    }
    assert_eq!(one.told().await["event"]["type"], "process_start");
    assert_eq!(one.told().await["event"]["type"], "idle");
    assert_eq!(one.ask(json!({"type": "ping"})).await["type"], "pong");
    assert_eq!(other.told().await["event"]["type"], "idle");
    assert_eq!(other.ask(json!({"type": "ping"})).await["type"], "pong");
    drop(other);
    source.until_wanted([Kind::ProcessStart, Kind::Idle]).await;
    leave(one).await;
    source.until_wanted([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_followed_is_an_error_message_and_the_socket_stays() {
    let source = Source::new();
    let mut client = connect(&source.serve().await).await;
    let answer = client.ask(json!({"type": "subscribe", "event_types": ["idle", "windows_focus"]})).await;
    assert_eq!(answer, json!({"type": "error", "message": "Unknown event type: windows_focus"}));
    assert!(source.feed.wanted().borrow().is_empty(), "all of the list or nothing");
    for (message, word) in [
        (Message::text("{"), "JSON object"),
        (Message::text(r#"{"type":"subscribe"}"#), "array of strings"),
        (Message::text(r#"{"type":"noise"}"#), "noise"),
        (Message::binary(vec![0xff; 100]), "text frames"),
        (Message::text("x".repeat(1024 * 1024)), "longer than"),
    ] {
        client.0.send(message).await.expect("sent");
        let answer = client.told().await;
        assert_eq!(answer["type"], "error");
        assert!(answer["message"].as_str().is_some_and(|text| text.contains(word)), "{answer}");
    }
    assert_eq!(client.ask(json!({"type": "ping"})).await, json!({"type": "pong"}));
    subscribe(&mut client, "subscribe", &["idle"]).await;
}

/// Whoever does not read keeps what the kernel holds and the newest 256, learns how many it missed, and holds up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_consumer_loses_the_oldest_and_delays_nobody() {
    // 18 MB, since JSON writes each control character in 6 bytes: more than the kernel keeps for one connection. The newest
    // 256 are 3 MB, less than the bound on what waits.
    const EVENTS: u32 = 1500;
    let source = Source::new();
    let address = source.serve().await;
    let (mut slow, mut quick) = (connect(&address).await, connect(&address).await);
    for client in [&mut slow, &mut quick] {
        subscribe(client, "subscribe", &["process_start"]).await;
    }
    for pid in 1..=EVENTS {
        source.feed.publish(Event::now(Data::ProcessStart { pid, name: "\u{1}".repeat(2000) }));
        let told = quick.told().await;
        assert_eq!(told["event"]["data"]["pid"], pid);
        assert!(told.get("dropped").is_none(), "the quick one misses nothing");
    }
    let mut came: Vec<(u32, u64)> = Vec::new();
    while came.last().is_none_or(|(pid, _)| *pid < EVENTS) {
        let told = slow.told().await;
        let pid = told["event"]["data"]["pid"].as_u64().expect("a pid") as u32;
        came.push((pid, told["dropped"].as_u64().unwrap_or_default()));
    }
    let (_, missed) = *came.last().expect("events");
    assert_eq!(missed + came.len() as u64, u64::from(EVENTS), "what did not come was counted");
    let kept: Vec<u32> = came[came.len() - 256..].iter().map(|(pid, _)| *pid).collect();
    assert_eq!(kept, (EVENTS - 255..=EVENTS).collect::<Vec<_>>(), "the newest are kept");
    assert_ne!(came[came.len() - 257].0, EVENTS - 256, "and no more than 256 of them");
    assert!(came.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "in order, and the count is cumulative");
    assert_eq!(slow.ask(json!({"type": "ping"})).await["type"], "pong", "the slow one is still served");
}

/// Who asks without reading the answers is not read: nothing grows, and the others do not notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_pings_is_held_back() {
    let source = Source::new();
    let address = source.serve().await;
    let (flooder, mut other) = (connect(&address).await, connect(&address).await);
    let flood = source.tasks.spawn("flood", async move {
        let Client(mut socket) = flooder;
        while socket.send(Message::text(r#"{"type":"ping"}"#)).await.is_ok() {}
    });
    for _ in 0..100 {
        assert_eq!(other.ask(json!({"type": "ping"})).await["type"], "pong");
    }
    flood.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_says_1001() {
    let source = Source::new();
    let mut client = connect(&source.serve().await).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    let tasks = source.tasks.clone();
    let (late, came) = tokio::join!(tasks.drain(super::source::TIMEOUT), client.next());
    assert_eq!(came, Came::Closed(1001, "server shutting down".into()));
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
    assert_eq!(client.ask(json!({"type": "ping"})).await["type"], "pong");
}
