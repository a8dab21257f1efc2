//! Audit log of `/mcp`: refused requests are logged, and a flood of them does not displace other entries.

use hotdesk::controller::config::Limits;
use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{LATEST_REVISION, Scene, initialize};

async fn lines(scene: &Scene) -> Vec<Value> {
    let log = scene.controller.get("/audit?limit=500").await.body;
    log["entries"].as_array().expect("entries").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_at_mcp_is_in_the_log_and_a_flood_is_not() {
    // Another test checks the limit of wrong tokens.
    let limits = Limits { wrong_keys_per_minute: 1000, ..Limits::default() };
    let scene = Scene::boot_limited(limits).await;
    let before = lines(&scene).await.len();
    let evil = scene.bare(Method::POST).header("origin", "https://evil.example").json(&initialize());
    assert_eq!(evil.send().await.expect("an answer").status(), 403);
    let wrong = format!("{}x", scene.token);
    for _ in 0..60 {
        let answer = scene.bare(Method::POST).bearer_auth(&wrong).json(&initialize()).send().await;
        assert_eq!(answer.expect("an answer").status(), 401);
    }
    // A successful request adds only the entries of its tools.
    assert_eq!(scene.message("tools/list", json!({})).send().await.expect("an answer").status(), 200);
    scene.call("list_computers", json!({})).await;

    let log = lines(&scene).await;
    let anonymous: Vec<&Value> = log.iter().filter(|line| line["account_id"].is_null()).collect();
    // The limit of entries per minute and source; a second minute may begin during the test.
    assert!([20, 40].contains(&anonymous.len()), "{}", anonymous.len());
    for line in &anonymous {
        assert_eq!((&line["method"], &line["route"]), (&json!("POST"), &json!("/mcp")), "{line}");
        assert_eq!((&line["result"], &line["source"]), (&json!("refused"), &json!("127.0.0.1")), "{line}");
    }
    let first = anonymous.last().expect("a line");
    assert_eq!((&first["status"], &first["code"]), (&json!(403), &json!("origin_not_allowed")));
    assert_eq!(log.len() - anonymous.len(), before, "a read must have no entry: {log:?}");
    assert!(!json!(log).to_string().contains(&scene.token), "the log contains a token");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_does_is_told_with_the_client_s_name() {
    let scene = Scene::boot().await;
    let arguments = json!({"computer_id": scene.computer, "command": "true"});
    scene.call("bash", arguments.clone()).await;
    // The same call in a session.
    let session = scene.open(&scene.token).await;
    let params = json!({"name": "bash", "arguments": arguments});
    let message = super::scene::request("tools/call", params);
    let answer =
        scene.session_message(&scene.token, Some(&session), &message).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    drop(answer.text().await.expect("an end"));
    let log = lines(&scene).await;
    let calls: Vec<&Value> = log.iter().filter(|line| line["route"] == "/mcp tools/call bash").collect();
    assert_eq!(calls.len(), 2, "{LATEST_REVISION} and in a session: {log:?}");
    for line in calls {
        assert_eq!((&line["credential"], &line["client"]), (&json!("grant"), &json!("test")), "{line}");
    }
}
