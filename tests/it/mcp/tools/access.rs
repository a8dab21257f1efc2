//! Refusals outside of the workspace of a connection. A66 (docs/authentication-rules.md).

use serde_json::json;

use crate::mcp::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a66_a_connection_acts_in_its_workspace_alone() {
    let scene = Scene::boot().await;
    let listed = scene.call("list_computers", json!({})).await;
    let computers = listed["structuredContent"]["computers"].as_array().expect("a list");
    assert!(computers.len() == 1 && computers[0]["id"] == scene.computer.as_str(), "{listed}");
    for (tool, more) in [
        ("get_computer", json!({})),
        ("start_computer", json!({})),
        ("stop_computer", json!({})),
        ("suspend_computer", json!({})),
        ("resume_computer", json!({})),
        ("screenshot", json!({})),
        ("click", json!({"x": 1, "y": 1})),
        ("type", json!({"text": "x"})),
        ("key", json!({"key": "a"})),
        ("bash", json!({"command": "true"})),
        ("exec", json!({"code": "1"})),
        ("move", json!({"x": 1, "y": 1})),
        ("drag", json!({"start_x": 1, "start_y": 1, "end_x": 2, "end_y": 2})),
        ("scroll", json!({"direction": "down"})),
        ("wait", json!({"seconds": 0})),
        ("clone_computer", json!({})),
        ("resize_computer", json!({"vcpus": 2})),
        ("delete_computer", json!({})),
        ("list_screens", json!({})),
        ("create_screen", json!({})),
        ("delete_screen", json!({"screen": "screen-100"})),
        ("list_files", json!({})),
        ("read_file", json!({"path": "a"})),
        ("write_file", json!({"path": "a", "text": ""})),
        ("restart_computer", json!({})),
        ("ensure_running", json!({})),
        ("fork_computer", json!({})),
        ("move_computer", json!({"workspace_id": scene.home})),
        ("list_snapshots", json!({})),
        ("get_timeline", json!({})),
        ("create_snapshot", json!({})),
        ("launch_snapshot", json!({"snapshot_id": "00000000-0000-4000-8000-000000000000"})),
        ("rollback", json!({"snapshot_id": "00000000-0000-4000-8000-000000000000"})),
        ("delete_snapshot", json!({"snapshot_id": "00000000-0000-4000-8000-000000000000"})),
        ("list_elements", json!({})),
        ("marked_screenshot", json!({})),
        ("click_element", json!({"element_id": "e1"})),
        ("set_element_value", json!({"element_id": "e1", "value": "x"})),
        ("focus_element", json!({"element_id": "e1"})),
        ("export_file", json!({"path": "a"})),
        ("upload_file", json!({"filename": "a", "text": "x"})),
        ("list_workspace_files", json!({})),
        ("list_threads", json!({})),
        ("run_agent", json!({"prompt": "x"})),
        ("doctor", json!({})),
    ] {
        let mut arguments = more;
        arguments["computer_id"] = json!(scene.elsewhere);
        let refused = scene.call(tool, arguments.clone()).await;
        assert_eq!(refused["isError"], true, "{tool}: {refused}");
        let body = &refused["structuredContent"];
        assert_eq!(body["code"], "workspace_scope_mismatch", "{tool}: {refused}");
        assert_eq!(
            (&body["key_workspace_id"], &body["target_workspace_id"]),
            (&json!(scene.home), &json!(scene.away))
        );
        let error = body["error"].as_str().expect("a sentence");
        assert!(
            error.contains("\"home\"") && error.contains("\"away\"") && body["request_id"].is_string(),
            "{error}"
        );
        // The instance handle does not avoid the check (A15), and an unknown id is not found.
        let record = scene.controller.get(&format!("/computers/{}", scene.elsewhere)).await.body;
        arguments["computer_id"] = record["instance_id"].clone();
        assert_eq!(
            scene.call(tool, arguments.clone()).await["structuredContent"]["code"],
            "workspace_scope_mismatch"
        );
        arguments["computer_id"] = json!("00000000-0000-4000-8000-000000000000");
        let unknown = scene.call(tool, arguments).await;
        assert_eq!(unknown["structuredContent"]["error"], "Desktop not found", "{tool}");
    }
    assert_eq!(scene.controller.status(&scene.elsewhere).await, "running");
    for (tool, arguments) in [
        ("click", json!({"computer_id": scene.computer, "x": "left", "y": 1})),
        ("click", json!({"computer_id": scene.computer})),
        ("bash", json!({})),
    ] {
        let refused = scene.call(tool, arguments).await;
        assert!(
            refused["structuredContent"]["error"]
                .as_str()
                .is_some_and(|error| error.starts_with("invalid arguments")),
            "{refused}"
        );
    }
}
