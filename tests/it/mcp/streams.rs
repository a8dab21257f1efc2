//! Messages of the server during a call: progress, and questions to the person.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use reqwest::Response;
use serde_json::{Value, json};

use super::scene::{Scene, initialize, request};
use crate::harness::agent::fetch_json;

/// Longest wait for a message on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent whose commands take longer than the first report of progress.
fn slow_agent() -> Router {
    let bash = post(async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        axum::Json(json!({"success": true, "action": "bash", "command": "", "output": "", "exit_code": 0}))
    });
    Router::new().route("/bash", bash)
}

/// Messages of an event stream.
pub struct Messages {
    stream: Response,
    text: String,
}

impl Messages {
    pub fn of(stream: Response) -> Self {
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        Self { stream, text: String::new() }
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        let next = async {
            loop {
                while let Some((line, rest)) = self.text.split_once('\n') {
                    let message = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok());
                    self.text = rest.to_owned();
                    if let Some(message) = message {
                        return message;
                    }
                }
                let chunk = self.stream.chunk().await.expect("a stream").expect("a stream that goes on");
                self.text.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        tokio::time::timeout(TIMEOUT, next).await.expect("a message in time")
    }

    /// Waits until the server ends the stream, also in the middle.
    pub async fn end(mut self) {
        let end = async { while let Ok(Some(_)) = self.stream.chunk().await {} };
        tokio::time::timeout(TIMEOUT, end).await.expect("the stream ends in time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_call_reports_progress_to_those_who_ask_for_it() {
    let scene = Scene::boot_with(slow_agent()).await;
    let arguments = json!({"computer_id": scene.computer, "command": "true"});
    // Without a token the answer is JSON, however long the call takes.
    assert_eq!(scene.call("bash", arguments.clone()).await["isError"], false);
    let mut params = json!({"name": "bash", "arguments": arguments, "_meta": {"progressToken": "p-1"}});
    let session = scene.open(&scene.token).await;
    let in_session =
        scene.session_message(&scene.token, Some(&session), &request("tools/call", params.clone()));
    let mut stateless = super::scene::stateless("tools/call", &params);
    stateless["params"]["_meta"]["progressToken"] = json!("p-1");
    params["_meta"] = stateless["params"]["_meta"].clone();
    let alone = scene.message("tools/call", params).json(&stateless);
    for request in [alone, in_session] {
        let mut messages = Messages::of(request.send().await.expect("an answer"));
        let progress = messages.next().await;
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        assert_eq!(progress["params"]["progressToken"], "p-1", "{progress}");
        let result = messages.next().await;
        assert_eq!(result["result"]["isError"], false, "{result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_asks_before_something_is_destroyed() {
    let scene = Scene::boot().await;
    let mut first = initialize();
    first["params"]["capabilities"] = json!({"elicitation": {}});
    let opened = scene.session_message(&scene.token, None, &first).send().await.expect("an answer");
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    drop(opened.text().await.expect("an end"));
    let send = async |message: Value| {
        let sent = scene.session_message(&scene.token, Some(&session), &message).send().await;
        sent.expect("an answer")
    };
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let params = json!({"name": "delete_computer", "arguments": {"computer_id": scene.computer}});
    for (action, fails) in [("decline", true), ("cancel", true), ("accept", false)] {
        let mut messages = Messages::of(send(request("tools/call", params.clone())).await);
        let question = messages.next().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let text = question["params"]["message"].as_str().expect("a text");
        assert!(text.contains("\"desk\"") && text.contains(&scene.computer), "{text}");
        let answer =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": action, "content": {}}});
        assert_eq!(send(answer).await.status(), 202);
        let result = messages.next().await;
        assert_eq!(result["result"]["isError"], fails, "{action}: {result}");
        let left = scene.controller.get(&format!("/computers/{}", scene.computer)).await;
        assert_eq!(left.status, if fails { 200 } else { 404 }, "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_asked_is_not_asked() {
    let scene = Scene::boot().await;
    let session = scene.open(&scene.token).await;
    let params = json!({"name": "delete_computer", "arguments": {"computer_id": scene.computer}});
    let message = scene.session_message(&scene.token, Some(&session), &request("tools/call", params));
    let mut messages = Messages::of(message.send().await.expect("an answer"));
    assert_eq!(messages.next().await["result"]["isError"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_revision_asks_in_the_result_of_a_call() {
    let scene = Scene::boot().await;
    let params = json!({"name": "delete_computer", "arguments": {"computer_id": scene.computer}});
    let call = async |answer: Option<&str>| {
        let mut params = params.clone();
        if let Some(action) = answer {
            params["inputResponses"] = json!({"confirm": {"action": action, "content": {}}});
        }
        let mut message = super::scene::stateless("tools/call", &params);
        let capabilities = "io.modelcontextprotocol/clientCapabilities";
        message["params"]["_meta"][capabilities] = json!({"elicitation": {}});
        fetch_json(scene.message("tools/call", params).json(&message)).await.body["result"].clone()
    };
    let record = async || scene.controller.get(&format!("/computers/{}", scene.computer)).await.status;
    let asked = call(None).await;
    let question = &asked["inputRequests"]["confirm"];
    assert_eq!(
        (&asked["resultType"], &question["method"]),
        (&json!("input_required"), &json!("elicitation/create")),
        "{asked}"
    );
    let text = question["params"]["message"].as_str().expect("a text");
    assert!(text.contains("\"desk\"") && text.contains(&scene.computer), "{text}");
    assert_eq!(record().await, 200);
    let log = scene.controller.get("/audit").await.body.to_string();
    assert!(!log.contains("delete_computer"), "a question is no change: {log}");
    for (action, fails) in [("decline", true), ("cancel", true), ("accept", false)] {
        let result = call(Some(action)).await;
        assert_eq!(result["isError"], fails, "{action}: {result}");
        assert_eq!(record().await, if fails { 200 } else { 404 }, "{action}");
    }
    let log = scene.controller.get("/audit").await.body.to_string();
    assert!(log.contains("/mcp tools/call delete_computer"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_about_what_they_may_not_see() {
    let scene = Scene::boot().await;
    let params = json!({"name": "delete_computer", "arguments": {"computer_id": scene.elsewhere}});
    let mut message = super::scene::stateless("tools/call", &params);
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    message["params"]["_meta"][capabilities] = json!({"elicitation": {"form": {}}});
    let refused = fetch_json(scene.message("tools/call", params).json(&message)).await.body;
    let code = &refused["result"]["structuredContent"]["code"];
    assert_eq!(*code, "workspace_scope_mismatch", "{refused}");
}
