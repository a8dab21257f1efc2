//! Failures of models and of requests, in the form of the OpenAI API.

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Scene, command, events};
use crate::harness::models::Turn;

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_model_says_what_had_been_done() {
    let failing = || Turn::text("I began to say").cut_after(2);
    for (turns, status, code) in [
        (vec![Turn::refused(429), Turn::refused(429)], 429, "model_rate_limited"),
        (vec![Turn::refused(529), Turn::refused(529)], 503, "model_unavailable"),
        (vec![Turn::refused(401)], 400, "model_key_refused"),
        (vec![failing(), failing()], 503, "model_unavailable"),
    ] {
        let scene = Scene::new(turns).await;
        let answer = scene.ask("go", json!({})).await;
        let error = &answer.body["error"];
        assert_eq!((answer.status, &error["code"]), (status, &json!(code)), "{}", answer.body);
        assert_eq!(error["steps"], 0);
        let thread = error["thread_id"].as_str().expect("a thread");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("executed nothing")), "{error}");
        assert_eq!(scene.thread(thread).await["run"], "failed");
    }
    // After a step, nothing invites to send the request again.
    let scene = Scene::new(vec![command("ls"), Turn::refused(429), Turn::refused(429)]).await;
    let request =
        scene.controller.request(Method::POST, "/v1/chat/completions").json(&scene.body("go", json!({})));
    let response = request.send().await.expect("an answer");
    let headers = response.headers().clone();
    assert_eq!((response.status().as_u16(), headers.get("retry-after")), (503, None));
    assert_eq!(headers["x-should-retry"], "false");
    let body: Value = response.json().await.expect("JSON");
    assert_eq!(body["error"]["thread_id"].as_str(), headers["x-thread-id"].to_str().ok());
    assert_eq!(body["error"]["steps"], 1, "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|text| text.contains("1 step;")), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_within_a_stream_is_an_event() {
    let scene = Scene::new(vec![command("ls"), Turn::refused(500), Turn::refused(500)]).await;
    let (response, thread) = scene.stream("go", json!({})).await;
    let events = events(response).await;
    let error = &events.last().expect("an event")["error"];
    assert_eq!(
        (&error["code"], &error["thread_id"]),
        (&json!("model_unavailable"), &json!(thread)),
        "{events:?}"
    );
    assert!(!events.contains(&json!("[DONE]")), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_call_is_answered_to_the_model() {
    let bad = Turn::call("computer", &json!({"action": "fly"})).then_call("bash", &json!({"command": "ls"}));
    let scene = Scene::new(vec![bad, Turn::call("bash", &json!({"line": 1})), Turn::text("Sorry.")]).await;
    let answer = scene.ask("go", json!({})).await;
    assert_eq!((answer.status, scene.agent.commands().len()), (200, 0), "{}", answer.body);
    let first = scene.models.requests()[1].body["messages"].to_string();
    assert!(first.contains("The call is invalid") && first.contains("fly"), "{first}");
    assert!(first.contains("an earlier call of your turn failed"), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_have_the_error_form_of_the_openai_api() {
    let scene = Scene::new(Vec::new()).await;
    let body = |fields: Value| scene.body("go", fields);
    for (body, status, kind, code) in [
        (json!([1]), 400, "invalid_request_error", "invalid_json"),
        (json!({"messages": "x"}), 400, "invalid_request_error", "invalid_json"),
        (json!({}), 400, "invalid_request_error", "missing_computer_id"),
        (body(json!({"messages": []})), 400, "invalid_request_error", "empty_messages"),
        (
            body(json!({"messages": [{"role": "assistant", "content": "x"}]})),
            400,
            "invalid_request_error",
            "invalid_message_order",
        ),
        (body(json!({"model": "none"})), 400, "invalid_request_error", "invalid_model"),
        (body(json!({"model": "claude-opus-4.6"})), 400, "invalid_request_error", "model_key_missing"),
        (body(json!({"max_steps": 999})), 400, "invalid_request_error", "invalid_request"),
        (body(json!({"computer_id": "none"})), 404, "not_found_error", "computer_not_found"),
    ] {
        let answer = scene.controller.post("/v1/chat/completions", body.clone()).await;
        let error = &answer.body["error"];
        assert_eq!((answer.status, &error["code"]), (status, &json!(code)), "{body}: {}", answer.body);
        assert_eq!(error["type"], kind);
        assert!(error["message"].is_string() && error["request_id"].is_string(), "{error}");
    }
    let nobody = scene.controller.bare(Method::POST, "/api/v1/chat/completions").json(&body(json!({})));
    let refused = nobody.send().await.expect("an answer");
    assert_eq!(refused.status(), 401);
    assert!(refused.headers().contains_key("www-authenticate"));
    let refused: Value = refused.json().await.expect("JSON");
    assert_eq!(refused["error"]["code"], "invalid_api_key");
    assert_eq!(
        scene.controller.post(&format!("/computers/{}/stop", scene.computer), json!({})).await.status,
        200
    );
    let stopped = scene.ask("go", json!({})).await;
    assert_eq!(
        (stopped.status, &stopped.body["error"]["type"]),
        (409, &json!("conflict_error")),
        "{}",
        stopped.body
    );
    assert!(scene.models.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_s_key_reaches_only_its_vendor_and_is_not_stored() {
    const KEY: &str = "sk-ant-of-the-client";
    let scene = Scene::new(vec![Turn::text("Claude."), Turn::text("Local.")]).await;
    for model in ["claude-sonnet-4-6", "scripted"] {
        let request = scene.controller.request(Method::POST, "/v1/chat/completions");
        let request =
            request.json(&scene.body("go", json!({ "model": model }))).header("x-anthropic-key", KEY);
        assert_eq!(request.send().await.expect("an answer").status(), 200, "{model}");
    }
    let sent = scene.models.requests();
    assert_eq!(
        (sent[0].path.as_str(), &sent[0].headers["x-api-key"]),
        ("/v1/messages", &KEY.parse().expect("a value"))
    );
    assert!(!format!("{:?}", sent[1].headers).contains(KEY), "{:?}", sent[1].headers);
    let stored = std::fs::read(scene.controller.store_file()).expect("the store");
    assert!(!stored.windows(KEY.len()).any(|part| part == KEY.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_workspace_is_a_key_for_models() {
    let scene = Scene::new(vec![Turn::text("Claude.")]).await;
    let secret = json!({"value": "sk-ant-of-the-workspace", "workspace_id": scene.home});
    let set = scene.controller.request(Method::PUT, "/secrets/ANTHROPIC_API_KEY").json(&secret);
    assert_eq!(set.send().await.expect("an answer").status(), 200);
    let answer = scene.ask("go", json!({"model": "claude-sonnet-4-6"})).await;
    assert_eq!((answer.status, &answer.body["model"]), (200, &json!("claude-sonnet-4.6")), "{}", answer.body);
    assert_eq!(scene.models.requests()[0].headers["x-api-key"], "sk-ant-of-the-workspace");
}
