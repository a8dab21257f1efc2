//! At-most-once execution of requests with an `Idempotency-Key` over client and agent failures.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, RunningAgent, fetch_json};

async fn send(agent: &RunningAgent, path: &str, key: &str, body: &Value) -> HttpAnswer {
    fetch_json(agent.request(Method::POST, path).header("Idempotency-Key", key).json(body)).await
}

fn append_command(agent: &RunningAgent, more: &str) -> Value {
    json!({ "command": format!("echo x >> {}/count; {more}", agent.home().display()) })
}

#[tokio::test]
async fn a_request_sent_again_is_answered_and_not_repeated() {
    let agent = RunningAgent::headless().await;
    let body = append_command(&agent, "echo done; exit 3");
    let first = send(&agent, "/bash", "key-number-1", &body).await;
    let second = send(&agent, "/bash", "key-number-1", &body).await;
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_eq!(agent.file("count").await, "x\n");
    let other = send(&agent, "/bash", "key-number-1", &json!({"command": "true"})).await;
    assert_eq!((other.status, &other.body["code"]), (422, &json!("idempotency_key_reused")));
    // A refused request is refused again.
    for _ in 0..2 {
        let refused = send(&agent, "/bash", "key-number-2", &json!({"timeout": 1})).await;
        assert_eq!(refused.status, 400, "{}", refused.body);
    }
    for bad in ["short", "with a space", &"x".repeat(256)] {
        assert_eq!(send(&agent, "/bash", bad, &body).await.status, 400, "{bad:?}");
    }
    assert_eq!(agent.file("count").await, "x\n");
}

#[tokio::test]
async fn a_digest_of_the_request_is_compared_instead_of_its_body() {
    let agent = RunningAgent::headless().await;
    let send = async |digest: &str, body: &Value| {
        let request = agent.request(Method::POST, "/bash").header("Idempotency-Key", "key-number-1");
        fetch_json(request.header("x-hotdesk-request-digest", digest).json(body)).await
    };
    let first = send("same", &append_command(&agent, "echo first")).await;
    let second = send("same", &append_command(&agent, "echo second")).await;
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_eq!(agent.file("count").await, "x\n");
    let other = send("other", &append_command(&agent, "echo first")).await;
    assert_eq!((other.status, &other.body["code"]), (422, &json!("idempotency_key_reused")));
}

#[tokio::test]
async fn a_client_that_hangs_up_finds_its_answer_later() {
    let agent = RunningAgent::headless().await;
    let body = append_command(&agent, "while [ ! -e go ]; do sleep 0.05; done; echo finished");
    tokio::select! {
        answer = send(&agent, "/bash", "a-long-command", &body) => panic!("answered: {answer:?}"),
        _ = agent.file("count") => {}
    }
    let meanwhile = send(&agent, "/bash", "a-long-command", &body).await;
    assert_eq!((meanwhile.status, &meanwhile.body["code"]), (409, &json!("idempotency_in_progress")));
    std::fs::write(agent.home().join("go"), "").expect("written");
    let found = hotdesk::base::wait::until(Duration::from_secs(20), || async {
        Some(send(&agent, "/bash", "a-long-command", &body).await).filter(|again| again.status == 200)
    });
    assert_eq!(found.await.expect("the answer of the first request").body["output"], "finished\n");
    assert_eq!(agent.file("count").await, "x\n");
}

#[tokio::test]
async fn an_agent_that_died_says_what_it_knows_and_what_it_does_not() {
    let mut agent = RunningAgent::headless().await;
    let quick = append_command(&agent, "true");
    let done = send(&agent, "/bash", "done-before", &quick).await;
    let endless = append_command(&agent, "sleep 30");
    let twice = hotdesk::base::wait::until(Duration::from_secs(20), || async {
        (agent.file("count").await == "x\nx\n").then_some(())
    });
    tokio::select! {
        answer = send(&agent, "/bash", "cut-off-inside", &endless) => panic!("answered: {answer:?}"),
        started = twice => started.expect("the command must begin"),
    }
    agent.restart().await;
    let again = send(&agent, "/bash", "done-before", &quick).await;
    assert_eq!((again.status, again.body), (200, done.body));
    let unknown = send(&agent, "/bash", "cut-off-inside", &endless).await;
    assert_eq!((unknown.status, &unknown.body["code"]), (409, &json!("outcome_unknown")));
    assert_eq!(agent.file("count").await, "x\nx\n");
}

#[tokio::test]
async fn a_list_of_input_is_typed_once() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    let timeout = Duration::from_secs(20);
    let ready = || async { (agent.get("/screenshot").await.status == 200).then_some(()) };
    hotdesk::base::wait::until(timeout, ready).await.expect("the screen must become ready");
    let list = json!([{"action": "move", "x": 10, "y": 20}, {"action": "type", "text": "hello"}]);
    let first = send(&agent, "/actions", "a-list-of-input", &list).await;
    assert_eq!((first.status, &first.body["success"]), (200, &json!(true)));
    agent.post("/move", json!({"x": 99, "y": 99})).await;
    let second = send(&agent, "/actions", "a-list-of-input", &list).await;
    assert_eq!(second.body, first.body);
    let now = agent.get("/cursor_position").await.body;
    assert_eq!((&now["x"], &now["y"]), (&json!(99), &json!(99)));
}
