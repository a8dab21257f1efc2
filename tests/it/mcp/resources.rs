//! Screens as resources: lists, pictures, subscriptions and their end.

use std::time::Duration;

use hotdesk::wire::desktop::event::{Event, EventData};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::scene::{SESSION_REVISION, Scene, event, request};
use super::tools::agent;
use crate::events::source::{EventSource, wait_for};
use crate::harness::agent::fetch_json;

/// Longest wait for a notification on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

fn uri(computer: &str) -> String {
    format!("hotdesk://computers/{computer}/screen")
}

#[tokio::test(flavor = "multi_thread")]
async fn screens_are_listed_and_read_in_the_workspace_alone() {
    let scene = Scene::boot_with(agent()).await;
    let answer = async |method: &str, params: Value| {
        let mut message = scene.message(method, params.clone());
        if let Some(uri) = params["uri"].as_str() {
            message = message.header("mcp-name", uri);
        }
        fetch_json(message).await.body
    };
    let listed = answer("resources/list", json!({})).await;
    let resources = listed["result"]["resources"].as_array().expect("a list");
    assert_eq!(resources.len(), 1, "{listed}");
    assert_eq!(
        (&resources[0]["uri"], &resources[0]["mimeType"]),
        (&json!(uri(&scene.computer)), &json!("image/jpeg"))
    );
    assert_eq!(listed["result"]["cacheScope"], "private", "{listed}");
    let templates = answer("resources/templates/list", json!({})).await;
    let template = &templates["result"]["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(*template, "hotdesk://computers/{id}/screen", "{templates}");
    let read = answer("resources/read", json!({"uri": uri(&scene.computer)})).await;
    let content = &read["result"]["contents"][0];
    assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri(&scene.computer)), &json!("image/png")));
    assert!(content["blob"].as_str().is_some_and(|blob| blob.starts_with("iVBOR")), "{read}");
    let unknown = "00000000-0000-4000-8000-000000000000";
    for bad in
        [uri(&scene.elsewhere), uri(unknown), "file:///etc/passwd".to_owned(), "hotdesk://x".to_owned()]
    {
        let refused = answer("resources/read", json!({"uri": bad})).await;
        // Revision 2026-07-28 has no code of its own for this.
        assert_eq!(refused["error"]["code"], -32602, "{bad}: {refused}");
    }
    let refused = answer("resources/list", json!({"cursor": "x"})).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    scene.controller.command(format!("/computers/{}/stop", scene.computer)).await;
    scene.controller.until_status(&scene.computer, "stopped").await;
    let listed = answer("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"], json!([]), "{listed}");
}

/// Opens the stream of a session's notifications.
async fn listen(scene: &Scene, session: &str) -> Response {
    let message = scene.bare(Method::GET).bearer_auth(&scene.token).header("mcp-session-id", session);
    let stream = message.header("mcp-protocol-version", SESSION_REVISION).send().await.expect("an answer");
    assert_eq!(stream.status(), 200);
    stream
}

async fn ask(scene: &Scene, session: &str, method: &str, params: Value) -> Value {
    let message = request(method, params);
    event(scene.session_message(&scene.token, Some(session), &message).send().await.expect("an answer")).await
}

/// Waits for the next notification of a stream.
async fn notification(stream: &mut Response) -> Value {
    let mut text = String::new();
    let next = async {
        loop {
            let chunk = stream.chunk().await.expect("a stream").expect("a stream that goes on");
            text.push_str(&String::from_utf8_lossy(&chunk));
            let messages = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
            if let Some(message) = messages.filter_map(|data| serde_json::from_str::<Value>(data).ok()).next()
            {
                return message;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, next).await.expect("a notification in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_of_a_changed_screen_until_it_ends() {
    let source = EventSource::new();
    let scene = Scene::boot_with(source.router()).await;
    let session = scene.open(&scene.token).await;
    let mut stream = listen(&scene, &session).await;
    for bad in [uri(&scene.elsewhere), "hotdesk://x".to_owned()] {
        let refused = ask(&scene, &session, "resources/subscribe", json!({"uri": bad})).await;
        assert_eq!(refused["error"]["code"], -32002, "{refused}");
    }
    let one = json!({"uri": uri(&scene.computer)});
    for _ in 0..2 {
        let done = ask(&scene, &session, "resources/subscribe", one.clone()).await;
        assert!(done["result"].is_object(), "{done}");
    }
    let mut wanted = source.feed.wanted();
    let subscribed = tokio::time::timeout(TIMEOUT, wanted.wait_for(|kinds| kinds.iter().count() == 5));
    drop(subscribed.await.expect("in time").expect("a feed"));
    source.feed.publish(Event::now(EventData::TitleChange {
        window_id: "0x1".into(),
        title: "t".into(),
        screen: "default".into(),
    }));
    let told = notification(&mut stream).await;
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!("notifications/resources/updated"), &one["uri"]),
        "{told}"
    );
    let ended = scene.bare(Method::DELETE).bearer_auth(&scene.token).header("mcp-session-id", &session);
    assert!(ended.send().await.expect("an answer").status().is_success());
    wait_for("the subscription ends with its session", || source.open_count() == 0).await;
}
