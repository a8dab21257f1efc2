//! Commands, sessions and processes of a real computer through the controller, with unbuffered streams.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::controller::{RunningController, skip_reason};

#[tokio::test(flavor = "multi_thread")]
async fn commands_sessions_and_processes_are_reached_through_the_controller() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await["id"].as_str().unwrap().to_owned();

    let body = json!({"command": "cat; pwd >&2; echo $A", "stdin": "in\n", "cwd": "/tmp", "env": {"A": "b"},
        "screen": "default"});
    let output = controller.act(&id, "bash", body).await;
    assert_eq!((output.status, &output.body["output"]), (200, &json!("in\n/tmp\nb\n")), "{}", output.body);
    assert_eq!((&output.body["stdout"], &output.body["stderr"]), (&json!("in\nb\n"), &json!("/tmp\n")));
    for (extra, status) in [(json!({"cwd": "/no"}), 400), (json!({"screen": "no"}), 404)] {
        let mut body = extra;
        body["command"] = json!("true");
        assert_eq!(controller.act(&id, "bash", body).await.status, status);
    }

    controller.act(&id, "exec", json!({"code": "x = 41", "session": "s"})).await;
    let kept = controller.act(&id, "exec", json!({"code": "print(x + 1)", "session": "s"})).await.body;
    assert_eq!((&kept["output"], &kept["session_started"]), (&json!("42\n"), &json!(false)), "{kept}");
    let sessions = controller.get(&format!("/computers/{id}/sessions")).await.body;
    assert_eq!(sessions["sessions"][0]["name"], json!("s"));
    assert_eq!(controller.delete(&format!("/computers/{id}/sessions/s")).await.status, 200);
    assert_eq!(controller.delete(&format!("/computers/{id}/sessions/s")).await.status, 404);

    // A repeated request with its idempotency key gets the agent's first answer on every path; another
    // command is refused.
    let keyed = async |path: String, command: &str| {
        let request = controller.request(Method::POST, &path).header("Idempotency-Key", "a-key-of-one");
        request.json(&json!({ "command": command })).send().await.expect("an answer")
    };
    let bash = format!("/computers/{id}/bash");
    let count = "echo x >>/tmp/count; wc -l </tmp/count";
    for (path, replayed) in [(&bash, false), (&bash, true), (&format!("/desktops/{id}/proxy/bash"), true)] {
        let answer = keyed(path.clone(), count).await;
        assert_eq!(answer.headers().contains_key("idempotency-replayed"), replayed, "{path}");
        assert_eq!(answer.json::<serde_json::Value>().await.expect("JSON")["output"], "1\n", "{path}");
    }
    let other = keyed(bash, "true").await;
    assert_eq!(other.status(), 422);
    let other: serde_json::Value = other.json().await.expect("JSON");
    assert_eq!(other["code"], "idempotency_key_reused", "{other}");
    // A stored failure is marked as well.
    for replayed in [false, true] {
        let request = controller.request(Method::POST, &format!("/computers/{id}/click"));
        let request =
            request.header("Idempotency-Key", "a-key-of-a-failure").json(&json!({"x": 9999, "y": 1}));
        let refused = request.send().await.expect("an answer");
        let marked = refused.headers().contains_key("idempotency-replayed");
        assert_eq!((refused.status().as_u16(), marked), (400, replayed));
    }
    let missing = controller.act(&id, "launch", json!({"command": "no-such-program"})).await;
    assert_eq!((missing.status, &missing.body["exit_code"]), (400, &json!(127)), "{}", missing.body);

    let created =
        controller.act(&id, "processes", json!({"argv": ["cat"], "stdin": "pipe", "name": "echo"})).await;
    assert_eq!((created.status, &created.body["status"]), (201, &json!("running")), "{}", created.body);
    let process = format!("/computers/{id}/processes/{}", created.body["id"].as_str().unwrap());
    let feed = async |query: &str, bytes: &'static str| {
        let request = controller.request(Method::POST, &format!("{process}/stdin{query}")).body(bytes);
        fetch_json(request).await
    };
    let follow = format!("{process}/output?follow=true");
    let response =
        controller.request(Method::GET, &follow).send().await.expect("headers before the first output");
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x-hotdesk-offset"]),
        (200, &"0".parse().unwrap())
    );
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let mut bytes = response.bytes_stream();
    for text in ["one", "two"] {
        assert_eq!(feed("", text).await.body, json!({"written": 3, "eof": false}));
        let chunk = tokio::time::timeout(Duration::from_secs(30), bytes.next()).await.expect("unbuffered");
        assert_eq!(chunk.unwrap().unwrap(), text);
    }
    assert_eq!(feed("?eof=true", "three").await.status, 200);
    let mut remaining = Vec::new();
    while let Some(chunk) = bytes.next().await {
        remaining.extend_from_slice(&chunk.expect("a whole answer"));
    }
    assert_eq!(remaining, b"three");
    let late = controller.request(Method::GET, &format!("{process}/output?offset=-5")).send().await.unwrap();
    assert_eq!(late.headers()["x-hotdesk-offset"], "6");
    assert_eq!(late.text().await.unwrap(), "three");
    let closed = feed("", "more").await;
    assert_eq!((closed.status, &closed.body["code"]), (409, &json!("stdin_closed")));
    assert_eq!(closed.body["written"], json!(0), "{}", closed.body);
    let proxied = controller.get(&format!("/desktops/{id}/proxy/processes")).await;
    assert_eq!(proxied.body["processes"][0]["name"], json!("echo"));

    // The computer notices that a reader has disconnected.
    let created = controller
        .act(
            &id,
            "processes",
            json!({"command": "trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done"}),
        )
        .await;
    let process = format!("/computers/{id}/processes/{}", created.body["id"].as_str().unwrap());
    let ready = hotdesk::base::wait::until(Duration::from_secs(30), || async {
        (controller.get(&process).await.body["output_bytes"] == 6).then_some(())
    });
    assert!(ready.await.is_some(), "the command must set its trap");
    let reader =
        controller.request(Method::GET, &format!("{process}/output?follow=true")).send().await.unwrap();
    assert_eq!(controller.get(&process).await.body["followers"], json!(1));
    drop(reader);
    let left = hotdesk::base::wait::until(Duration::from_secs(30), || async {
        (controller.get(&process).await.body["followers"] == 0).then_some(())
    });
    assert!(left.await.is_some());
    let signalled =
        controller.post(&format!("{process}/signal"), json!({"signal": "TERM", "tree": false})).await;
    assert_eq!((signalled.status, &signalled.body["processes"]), (200, &json!(1)), "{}", signalled.body);
    let waiting =
        controller.request(Method::GET, &format!("{process}/output?offset=6&follow=true&wait_seconds=20"));
    assert_eq!(waiting.send().await.unwrap().text().await.unwrap(), "");
    let ended = controller.get(&process).await.body;
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("exited"), &json!(7)));
    assert_eq!(controller.delete(&process).await.status, 200);
    assert_eq!(controller.get(&process).await.status, 404);
}
