//! Hub of the controller: one upstream socket per computer, clients that outlive it, and hostile agents.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::routing::any;
use hotdesk::domain::desktop::event::EventKind;
use hotdesk::wire::desktop::event::{Event, EventData};
use serde_json::{Value, json};

use super::source::{EventSource, JsonMessages, close_normally, subscribe, wait_for};
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

/// A controller with a running computer whose agent is this router; returns it, the computer's id and its
/// events path.
pub async fn boot_with_agent(agent: Router) -> (Simulation, String, String) {
    let controller = Simulation::boot_with(agent).await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await;
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = password.body["password"].as_str().expect("a password").to_owned();
    let path = format!("/desktops/{id}/ws/events?token={password}");
    (controller, id, path)
}

pub async fn connect(controller: &Simulation, path: &str) -> Client {
    Client::open(controller.address(), path, &[]).await.expect("accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_share_one_upstream_socket_that_ends_with_the_last() {
    let source = EventSource::new();
    let (controller, _, path) = boot_with_agent(source.router()).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(&controller, &path).await);
    }
    assert_eq!(source.opened_count(), 0, "the hub must not connect before the first subscription");
    let (ones, others) = clients.split_at_mut(10);
    for client in ones.iter_mut() {
        subscribe(client, "subscribe", &["process_start"]).await;
    }
    for client in others.iter_mut() {
        subscribe(client, "subscribe", &["active"]).await;
    }
    source.wait_for_subscriptions([EventKind::ProcessStart, EventKind::Active]).await;
    source.publish_process_start(1);
    source.feed.publish(Event::now(EventData::Active {}));
    for client in ones.iter_mut() {
        assert_eq!(client.next_json().await["event"]["data"]["pid"], 1);
    }
    for client in others.iter_mut() {
        assert_eq!(client.next_json().await["event"]["type"], "active");
        subscribe(client, "unsubscribe", &["active"]).await;
    }
    source.wait_for_subscriptions([EventKind::ProcessStart]).await;
    assert_eq!((source.opened_count(), source.open_count()), (1, 1));
    let mut last = clients.pop().expect("a client");
    for client in clients {
        close_normally(client).await;
    }
    wait_for("the upstream socket must close", || source.open_count() == 0).await;
    subscribe(&mut last, "subscribe", &["process_start"]).await;
    source.wait_for_subscriptions([EventKind::ProcessStart]).await;
    source.publish_process_start(2);
    assert_eq!(last.next_json().await["event"]["data"]["pid"], 2);
    drop(last);
    wait_for("the upstream socket must close", || source.open_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_starts_again_costs_no_client_its_connection() {
    let source = EventSource::new();
    let (controller, _, path) = boot_with_agent(source.router()).await;
    let mut client = connect(&controller, &path).await;
    subscribe(&mut client, "subscribe", &["process_start", "idle"]).await;
    for round in 1..=3 {
        source.wait_for_subscriptions([EventKind::ProcessStart, EventKind::Idle]).await;
        source.publish_process_start(round);
        assert_eq!(client.next_json().await["event"]["data"]["pid"], round);
        source.end_all();
        let opened = round as usize;
        // The ended socket counts until its task is over, with what it is subscribed to.
        let is_replaced = || source.opened_count() == opened + 1 && source.open_count() == 1;
        wait_for("the hub must connect again", is_replaced).await;
    }
    assert_eq!(client.request_json(json!({"type": "ping"})).await["type"], "pong");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_makes_up_reaches_nobody_and_what_it_lost_is_told() {
    let requested = Arc::new(Mutex::new(Vec::new()));
    let receive = Arc::clone(&requested);
    let invalid_events = async move |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async move |mut socket| {
            while let Some(Ok(Message::Text(text))) = socket.recv().await {
                receive.lock().expect("a list").push(text.to_string());
                let event = |kind: &str, data: Value| {
                    json!({"type": kind, "timestamp": "2026-01-31T09:30:00.120Z", "data": data})
                };
                let idle = event("idle", json!({"idle_seconds": 30}));
                for message in [
                    json!("junk"),
                    json!({"type": "error", "message": "not for clients"}),
                    json!({"type": "event", "event": event("made_up", json!({}))}),
                    json!({"type": "event", "event": event("process_start", json!({"pid": 1, "name": "unasked"}))}),
                    json!({"type": "event", "event": event("idle", json!({"idle_seconds": "soon"}))}),
                    json!({"type": "event", "event": event("idle", json!({"idle_seconds": 1, "x": "x".repeat(1_000_000)}))}),
                    json!({"type": "event", "dropped": 3, "secret": "s", "event": idle}),
                ] {
                    socket.send(Message::Text(message.to_string().into())).await.expect("sent");
                }
                socket.send(Message::Binary(vec![0; 100].into())).await.expect("sent");
            }
        })
    };
    let (controller, _, path) = boot_with_agent(Router::new().route("/ws/events", any(invalid_events))).await;
    let mut client = connect(&controller, &path).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    let idle = json!({"type": "idle", "timestamp": "2026-01-31T09:30:00.120Z", "data": {"idle_seconds": 30}});
    assert_eq!(client.next_json().await, json!({"type": "event", "dropped": 3, "event": idle}));
    assert_eq!(client.request_json(json!({"type": "ping"})).await["type"], "pong");
    assert_eq!(*requested.lock().expect("a list"), [r#"{"type":"subscribe","event_types":["idle"]}"#]);
}

/// An agent that sends as fast as it can and one that disconnects at once do not affect clients of other
/// computers.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_floods_or_hangs_up_is_no_burden() {
    let attempts = Arc::new(Mutex::new(0));
    let attempts_counter = Arc::clone(&attempts);
    let hostile = async move |upgrade: WebSocketUpgrade| {
        let mut attempts = attempts_counter.lock().expect("a count");
        *attempts += 1;
        let flood = *attempts == 1;
        upgrade.on_upgrade(async move |mut socket| {
            let name = "x".repeat(100_000);
            let event = json!({"type": "event", "event": {"type": "process_start",
                "timestamp": "2026-01-31T09:30:00.120Z", "data": {"pid": 1, "name": name}}});
            let text = event.to_string();
            let answer = json!({"type": "subscribed", "message": "ok"});
            let _gone = socket.send(Message::Text(answer.to_string().into())).await;
            for _ in 0..if flood { 200 } else { 0 } {
                if socket.send(Message::Text(text.clone().into())).await.is_err() {
                    return;
                }
            }
        })
    };
    let (controller, _, path) = boot_with_agent(Router::new().route("/ws/events", any(hostile))).await;
    let mut client = connect(&controller, &path).await;
    // The flood begins with the subscription.
    let began = std::time::Instant::now();
    subscribe(&mut client, "subscribe", &["process_start"]).await;
    for _ in 0..200 {
        let message = client.next_json().await;
        assert_eq!(
            message["event"]["data"]["name"].as_str().map(str::len),
            Some(4096),
            "names are cut to the limit"
        );
    }
    assert!(began.elapsed() >= std::time::Duration::from_secs(3), "20 MB at 4 MB/s: {:?}", began.elapsed());
    let before = *attempts.lock().expect("a count");
    wait_for("the hub must retry", || *attempts.lock().expect("a count") > before).await;
    assert!(*attempts.lock().expect("a count") < 20, "the pauses must grow");
    assert_eq!(client.request_json(json!({"type": "ping"})).await["type"], "pong");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_stops_and_a_controller_that_ends_say_1001() {
    let source = EventSource::new();
    let (mut controller, id, path) = boot_with_agent(source.router()).await;
    let mut client = connect(&controller, &path).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    source.wait_for_subscriptions([EventKind::Idle]).await;
    controller.command(format!("/computers/{id}/stop")).await;
    assert_eq!(client.next().await, SocketEvent::Closed(1001, "computer stopping".into()));
    controller.until_status(&id, "stopped").await;
    assert_eq!(connect(&controller, &path).await.closed().await, 4404);
    source.wait_for_subscriptions([]).await;

    controller.command(format!("/computers/{id}/start")).await;
    controller.until_status(&id, "running").await;
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let new_path =
        format!("/desktops/{id}/ws/events?token={}", password.body["password"].as_str().expect("a password"));
    let mut client = connect(&controller, &new_path).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    source.wait_for_subscriptions([EventKind::Idle]).await;
    let (received, ()) = tokio::join!(client.next(), controller.restart());
    assert_eq!(received, SocketEvent::Closed(1001, "server shutting down".into()));
    source.wait_for_subscriptions([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_is_there_for_who_may_see_the_computer_running_or_not() {
    let (controller, id, _) = boot_with_agent(EventSource::new().router()).await;
    let shown = controller.get(&format!("/computers/{id}/events")).await;
    let names: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!((shown.status, &shown.body["event_types"]), (200, &json!(names)));
    assert_eq!(shown.body["events"][3]["data"]["content"]["type"], "string");
    controller.command(format!("/computers/{id}/stop")).await;
    controller.until_status(&id, "stopped").await;
    let again = controller.get(&format!("/computers/{id}/events")).await;
    assert_eq!((again.status, again.body), (200, shown.body));
    let unknown = controller.get(&format!("/computers/{}/events", uuid::Uuid::new_v4())).await;
    assert_eq!(unknown.status, 404);
}
