//! The prompt socket.

use futures_util::SinkExt;
use hotdesk::base::ids::KeyId;
use hotdesk::domain::identity::access::actor::Actor;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::scene::{Scene, click, command};
use crate::harness::models::Turn;
use crate::harness::socket::{Client, SocketEvent};

/// Opens the socket with a key.
async fn open(scene: &Scene, key: &str) -> Client {
    let path = format!("/ws/prompt?token={key}");
    let origin = format!("http://{}", scene.controller.address());
    Client::open(scene.controller.address(), &path, &[("origin", origin.as_str())]).await.expect("a socket")
}

async fn send(client: &mut Client, message: &Value) {
    client.0.send(Message::text(message.to_string())).await.expect("a write");
}

fn start(computer: &str) -> Value {
    json!({"type": "start", "config": {"computer_id": computer, "instruction": "list", "model": "scripted",
        "display_width": 1024, "display_height": 768, "thinking_enabled": true, "thinking_budget": 1024,
        "max_tokens": 4096, "max_iterations": 100}})
}

/// Reads all messages, and the code and reason of the close.
async fn all(client: &mut Client) -> (Vec<Value>, u16) {
    let mut messages = Vec::new();
    loop {
        match client.next().await {
            SocketEvent::Text(text) => messages.push(serde_json::from_str(&text).expect("JSON")),
            SocketEvent::Closed(code, _) => return (messages, code),
            other @ (SocketEvent::Binary(_) | SocketEvent::Cut) => panic!("{other:?} after {messages:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_as_it_happens() {
    let first = Turn::text("I look.").then_call("bash", &json!({"command": "ls"}));
    let scene = Scene::new(vec![first, Turn::text("There is a poem.")]).await;
    let mut client = open(&scene, scene.controller.key()).await;
    send(&mut client, &json!({"type": "ping"})).await;
    send(&mut client, &start(&scene.computer)).await;
    let (messages, code) = all(&mut client).await;
    let kinds: Vec<&str> = messages.iter().filter_map(|message| message["type"].as_str()).collect();
    assert_eq!(
        kinds,
        ["pong", "status", "iteration", "text", "tool_use", "iteration", "text", "result"],
        "{messages:?}"
    );
    assert_eq!((&messages[3]["data"], &messages[6]["data"]), (&json!("I look."), &json!("There is a poem.")));
    assert_eq!(messages[4]["data"], json!({"action": "bash", "params": {"command": "ls"}}));
    let result = &messages[7]["data"];
    assert_eq!((&result["success"], &result["iterations"]), (&json!(true), &json!(2)), "{result}");
    let roles: Vec<&Value> =
        result["messages"].as_array().expect("messages").iter().map(|it| &it["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(code, 1000);
    let thread = result["thread_id"].as_str().expect("an id");
    assert_eq!(scene.thread(thread).await["run"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_held_screen_is_told_as_a_text_and_as_an_event() {
    let scene = Scene::new(vec![click(), Turn::text("Done.")]).await;
    let key = Actor::Key(KeyId::random());
    scene.agent.control().hold(key);
    let mut client = open(&scene, scene.controller.key()).await;
    send(&mut client, &start(&scene.computer)).await;
    let mut messages: Vec<Value> = Vec::new();
    while messages.last().is_none_or(|message| message["type"] != "progress") {
        match client.next().await {
            SocketEvent::Text(text) => messages.push(serde_json::from_str(&text).expect("JSON")),
            other @ (SocketEvent::Binary(_) | SocketEvent::Cut | SocketEvent::Closed(..)) => {
                panic!("{other:?} after {messages:?}")
            }
        }
    }
    let holder = json!({"kind": "key", "id": key.id()});
    let waiting = json!({"type": "progress", "data": {"waiting_for": "control", "holder": holder}});
    assert_eq!(messages.pop(), Some(waiting));
    let status = messages.pop().expect("a text");
    assert!(status["data"].as_str().is_some_and(|text| text.contains("controls the screen")), "{status}");
    scene.agent.control().hand_back(key, "");
    let (rest, code) = all(&mut client).await;
    let kinds: Vec<&str> = rest.iter().filter_map(|message| message["type"].as_str()).collect();
    assert_eq!((kinds, code), (vec!["status", "progress", "iteration", "text", "result"], 1000), "{rest:?}");
    assert_eq!(rest[1]["data"], json!({"waiting_for": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_the_socket_ends_its_run() {
    for polite in [true, false] {
        let scene = Scene::new(vec![command("ls"), Turn::silent()]).await;
        let mut client = open(&scene, scene.controller.key()).await;
        send(&mut client, &start(&scene.computer)).await;
        scene.until_asked(2).await;
        if polite {
            client.0.close(None).await.expect("a close");
        }
        drop(client);
        let threads = scene.controller.get(&format!("/chat/threads?desktopId={}", scene.computer)).await;
        let thread = threads.body["threads"][0]["id"].as_str().expect("a thread").to_owned();
        scene.until_run(&thread, "cancelled").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_a_message_before_the_close() {
    // Clients take a close without a message for a success.
    let scene = Scene::new(Vec::new()).await;
    let away = scene.controller.workspace("away").await;
    let operator = scene.controller.store().await.operator_account().await.expect("the operator");
    let scoped = scene.controller.key_of(operator, Some(&away)).await;
    let key = scene.controller.key().to_owned();
    let bad = json!({"type": "start", "config": {"computer_id": scene.computer, "instruction": " "}});
    for (key, message, code) in [
        ("sk_live_wrong", start(&scene.computer), 4401),
        ("", start(&scene.computer), 4401),
        (scoped.as_str(), start(&scene.computer), 4401),
        (&key, start("none"), 4404),
        (&key, bad, 4500),
        (&key, json!({"type": "jump"}), 4500),
        (&key, json!("x".repeat(300_000)), 4500),
    ] {
        let mut client = open(&scene, key).await;
        // The server may have closed it already.
        let _closed = client.0.send(Message::text(message.to_string())).await;
        let (messages, closed) = all(&mut client).await;
        assert_eq!(closed, code, "{message:.80} {messages:?}");
        assert_eq!(messages.last().map(|message| &message["type"]), Some(&json!("error")), "{messages:?}");
        assert!(messages.last().is_some_and(|message| message["data"].is_string()));
    }
    assert!(scene.models.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_an_error() {
    let scene = Scene::new(vec![command("ls"), Turn::refused(500), Turn::refused(500)]).await;
    let mut client = open(&scene, scene.controller.key()).await;
    send(&mut client, &start(&scene.computer)).await;
    let (messages, _) = all(&mut client).await;
    let error = messages.last().expect("a message");
    assert_eq!(error["type"], "error");
    assert!(error["data"].as_str().is_some_and(|text| text.contains("1 step;")), "{error}");
    let audit = scene.controller.get("/audit").await;
    assert!(audit.body.to_string().contains("/ws/prompt"), "{}", audit.body);
    assert!(!audit.body.to_string().contains(scene.controller.key()), "{}", audit.body);
}
