//! Control of a screen: one actor holds it, and input of others is refused (docs/api/screens.md#control).

mod access;
mod help;
mod lists;
mod refusals;
mod takeover;
mod through;

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, RunningAgent, fetch_json};

/// Longest time until something that an agent does shows.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The control of the boot screen.
const CONTROL: &str = "/screens/default/control";

/// An agent with a screen that is ready. Without an X server, prints the reason and returns `None`.
async fn ready_agent() -> Option<RunningAgent> {
    let agent = RunningAgent::with_screen().await?;
    until_ready(&agent).await;
    Some(agent)
}

async fn until_ready(agent: &RunningAgent) {
    let ready =
        wait::until(TIMEOUT, || async { (agent.get("/cursor_position").await.status == 200).then_some(()) });
    ready.await.expect("the screen becomes ready");
}

/// A new actor with an id.
fn actor(kind: &str) -> String {
    match kind {
        "thread" => format!("thread:thr_{}", uuid::Uuid::new_v4().simple()),
        kind => format!("{kind}:{}", uuid::Uuid::new_v4()),
    }
}

/// The name of an actor in records.
fn name(actor: &str) -> Value {
    match actor.split_once(':') {
        Some((kind, id)) => json!({"kind": kind, "id": id}),
        None => json!({"kind": actor}),
    }
}

/// A request that an actor sends through the controller.
async fn send_as(agent: &RunningAgent, by: &str, method: Method, path: &str, body: Value) -> HttpAnswer {
    fetch_json(agent.request(method, path).header("x-hotdesk-actor", by).json(&body)).await
}

async fn post_as(agent: &RunningAgent, by: &str, path: &str, body: Value) -> HttpAnswer {
    send_as(agent, by, Method::POST, path, body).await
}

/// Takes the boot screen for an actor, and returns the record.
async fn take(agent: &RunningAgent, by: &str, body: Value) -> Value {
    let taken = post_as(agent, by, CONTROL, body).await;
    assert_eq!((taken.status, &taken.body["holder"]), (200, &name(by)), "{}", taken.body);
    taken.body
}

/// Hands the boot screen back for its holder.
async fn hand_back(agent: &RunningAgent, by: &str, body: Value) -> Value {
    let free = post_as(agent, by, &format!("{CONTROL}/hand_back"), body).await;
    assert_eq!((free.status, &free.body["holder"]), (200, &Value::Null), "{}", free.body);
    free.body
}

/// Asserts a refusal with the holder's name.
fn assert_held(answer: &HttpAnswer, holder: &str) {
    let found = (answer.status, &answer.body["code"], &answer.body["holder"]);
    assert_eq!(found, (409, &json!("control_held"), &name(holder)), "{}", answer.body);
    let until = answer.body["expires_at"].as_str().expect("a time");
    assert!(until.len() == 24 && until.ends_with('Z'), "{until}");
    assert!(answer.body["retry_after"].as_u64().is_some_and(|seconds| seconds <= 30), "{}", answer.body);
}
