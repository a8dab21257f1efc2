//! Audit log of the calls of tools.

use reqwest::Method;
use serde_json::{Value, json};

use super::agent;
use crate::harness::agent::fetch_json;
use crate::mcp::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn what_tools_change_and_what_they_are_refused_is_in_the_log() {
    let scene = Scene::boot_with(agent()).await;
    let (own, other) = (&scene.computer, &scene.elsewhere);
    let calls = [
        ("get_computer", json!({"computer_id": own}), false),
        ("screenshot", json!({"computer_id": own}), false),
        ("bash", json!({"computer_id": own, "command": "b-canary"}), false),
        ("get_computer", json!({"computer_id": other}), true),
        ("stop_computer", json!({"computer_id": "nowhere"}), true),
    ];
    for (tool, arguments, fails) in calls {
        let result = scene.call(tool, arguments).await;
        assert_eq!(result["isError"], fails, "{tool}: {result}");
    }
    let listed = fetch_json(scene.controller.request(Method::GET, "/audit")).await;
    assert_eq!(listed.status, 200, "{}", listed.body);
    let all = listed.body["entries"].as_array().expect("entries");
    let lines: Vec<_> = all.iter().filter(|entry| entry["credential"] == "grant").collect();
    let summary = |entry: &Value| json!([entry["route"], entry["result"], entry["status"], entry["code"]]);
    let expected = json!([
        ["/mcp tools/call stop_computer", "failed", 404, null],
        ["/mcp tools/call get_computer", "refused", 403, "workspace_scope_mismatch"],
        ["/mcp tools/call bash", "done", 200, null],
    ]);
    assert_eq!(lines.iter().copied().map(summary).collect::<Value>(), expected);
    let (refused, done) = (lines[1], lines[2]);
    assert_eq!((&done["computer_id"], &done["workspace_id"]), (&json!(own), &json!(scene.home)));
    assert_eq!((&refused["computer_id"], &refused["workspace_id"]), (&json!(other), &json!(scene.away)));
    assert_eq!((&done["method"], &done["source"]), (&json!("POST"), &json!("127.0.0.1")));
    assert!(lines.iter().all(|entry| entry["credential_id"].is_string() && entry["request_id"] != ""));
    assert!(!listed.body.to_string().contains("canary"));
}
