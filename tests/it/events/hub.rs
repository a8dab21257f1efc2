//! The controller's hubs: one upstream socket per computer, clients that outlive it, agents that lie.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::routing::any;
use hotdesk::domain::event::Kind;
use hotdesk::wire::event::{Data, Event};
use serde_json::{Value, json};

use super::source::{Source, Talk, leave, subscribe, until};
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Came, Client};

/// A controller with a running computer whose agent is the test's: it and the path of the computer's events.
pub async fn house_with(agent: Router) -> (Simulation, String, String) {
    let house = Simulation::boot_with(agent).await;
    let workspace = house.workspace("demo").await;
    let id = house.computer(&workspace, "one").await;
    let password = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = password.body["password"].as_str().expect("a password").to_owned();
    let path = format!("/desktops/{id}/ws/events?token={password}");
    (house, id, path)
}

pub async fn connect(house: &Simulation, path: &str) -> Client {
    Client::open(house.address(), path, &[]).await.expect("accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_share_one_upstream_socket_that_ends_with_the_last() {
    let source = Source::new();
    let (house, _, path) = house_with(source.router()).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(&house, &path).await);
    }
    assert_eq!(source.opened(), 0, "an agent is not asked before anybody wants something");
    let (ones, others) = clients.split_at_mut(10);
    for client in ones.iter_mut() {
        subscribe(client, "subscribe", &["process_start"]).await;
    }
    for client in others.iter_mut() {
        subscribe(client, "subscribe", &["active"]).await;
    }
    source.until_wanted([Kind::ProcessStart, Kind::Active]).await;
    source.started(1);
    source.feed.publish(Event::now(Data::Active {}));
    for client in ones.iter_mut() {
        assert_eq!(client.told().await["event"]["data"]["pid"], 1);
    }
    for client in others.iter_mut() {
        assert_eq!(client.told().await["event"]["type"], "active");
        subscribe(client, "unsubscribe", &["active"]).await;
    }
    source.until_wanted([Kind::ProcessStart]).await;
    assert_eq!((source.opened(), source.open_now()), (1, 1));
    let mut last = clients.pop().expect("a client");
    for client in clients {
        leave(client).await;
    }
    until("the upstream socket stayed", || source.open_now() == 0).await;
    subscribe(&mut last, "subscribe", &["process_start"]).await;
    source.until_wanted([Kind::ProcessStart]).await;
    source.started(2);
    assert_eq!(last.told().await["event"]["data"]["pid"], 2);
    drop(last);
    until("the upstream socket stayed", || source.open_now() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_starts_again_costs_no_client_its_connection() {
    let source = Source::new();
    let (house, _, path) = house_with(source.router()).await;
    let mut client = connect(&house, &path).await;
    subscribe(&mut client, "subscribe", &["process_start", "idle"]).await;
    for round in 1..=3 {
        source.until_wanted([Kind::ProcessStart, Kind::Idle]).await;
        source.started(round);
        assert_eq!(client.told().await["event"]["data"]["pid"], round);
        source.end_all();
        let opened = round as usize;
        until("the hub did not come back", || source.opened() == opened + 1).await;
    }
    assert_eq!(client.ask(json!({"type": "ping"})).await["type"], "pong");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_makes_up_reaches_nobody_and_what_it_lost_is_told() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&asked);
    let lies = async move |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async move |mut socket| {
            while let Some(Ok(Message::Text(text))) = socket.recv().await {
                hears.lock().expect("a list").push(text.to_string());
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
    let (house, _, path) = house_with(Router::new().route("/ws/events", any(lies))).await;
    let mut client = connect(&house, &path).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    let idle = json!({"type": "idle", "timestamp": "2026-01-31T09:30:00.120Z", "data": {"idle_seconds": 30}});
    assert_eq!(client.told().await, json!({"type": "event", "dropped": 3, "event": idle}));
    assert_eq!(client.ask(json!({"type": "ping"})).await["type"], "pong");
    assert_eq!(*asked.lock().expect("a list"), [r#"{"type":"subscribe","event_types":["idle"]}"#]);
}

/// An agent that sends as fast as it can and one that hangs up at once: other computers' clients do not notice.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_floods_or_hangs_up_is_no_burden() {
    let tries = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&tries);
    let hostile = async move |upgrade: WebSocketUpgrade| {
        let mut tries = counted.lock().expect("a count");
        *tries += 1;
        let flood = *tries == 1;
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
    let (house, _, path) = house_with(Router::new().route("/ws/events", any(hostile))).await;
    let mut client = connect(&house, &path).await;
    subscribe(&mut client, "subscribe", &["process_start"]).await;
    let began = std::time::Instant::now();
    for _ in 0..200 {
        let told = client.told().await;
        assert_eq!(told["event"]["data"]["name"].as_str().map(str::len), Some(4096), "cut to the bound");
    }
    assert!(began.elapsed() >= std::time::Duration::from_secs(3), "20 MB at 4 MB/s: {:?}", began.elapsed());
    let before = *tries.lock().expect("a count");
    until("it was not tried again", || *tries.lock().expect("a count") > before).await;
    assert!(*tries.lock().expect("a count") < 20, "the pauses grow");
    assert_eq!(client.ask(json!({"type": "ping"})).await["type"], "pong");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_stops_and_a_controller_that_ends_say_1001() {
    let source = Source::new();
    let (mut house, id, path) = house_with(source.router()).await;
    let mut client = connect(&house, &path).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    source.until_wanted([Kind::Idle]).await;
    house.command(format!("/computers/{id}/stop")).await;
    assert_eq!(client.next().await, Came::Closed(1001, "computer stopping".into()));
    house.until_status(&id, "stopped").await;
    assert_eq!(connect(&house, &path).await.closed().await, 4404);
    source.until_wanted([]).await;

    house.command(format!("/computers/{id}/start")).await;
    house.until_status(&id, "running").await;
    let password = house.get(&format!("/computers/{id}/vnc-password")).await;
    let fresh = format!("/desktops/{id}/ws/events?token={}", password.body["password"].as_str().expect("it"));
    let mut client = connect(&house, &fresh).await;
    subscribe(&mut client, "subscribe", &["idle"]).await;
    source.until_wanted([Kind::Idle]).await;
    let (came, ()) = tokio::join!(client.next(), house.restart());
    assert_eq!(came, Came::Closed(1001, "server shutting down".into()));
    source.until_wanted([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_is_there_for_who_may_see_the_computer_running_or_not() {
    let (house, id, _) = house_with(Source::new().router()).await;
    let shown = house.get(&format!("/computers/{id}/events")).await;
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!((shown.status, &shown.body["event_types"]), (200, &json!(names)));
    assert_eq!(shown.body["events"][3]["data"]["content"]["type"], "string");
    house.command(format!("/computers/{id}/stop")).await;
    house.until_status(&id, "stopped").await;
    let again = house.get(&format!("/computers/{id}/events")).await;
    assert_eq!((again.status, again.body), (200, shown.body));
    let unknown = house.get(&format!("/computers/{}/events", uuid::Uuid::new_v4())).await;
    assert_eq!(unknown.status, 404);
}
