//! Tools for computers, their snapshots and templates, and the examination of the service.

use serde_json::{Value, json};

use crate::mcp::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn computers_are_made_copied_resized_and_deleted() {
    let scene = Scene::boot().await;
    let listed = scene.call("list_workspaces", json!({})).await;
    let workspaces = listed["structuredContent"]["workspaces"].as_array().expect("a list");
    assert!(workspaces.len() == 1 && workspaces[0]["id"] == scene.home.as_str(), "{listed}");
    let made = scene.call("create_computer", json!({"name": "second", "cpu": 2})).await;
    let made = &made["structuredContent"];
    assert_eq!(
        (&made["name"], &made["workspace_id"], &made["status"]),
        (&json!("second"), &json!(scene.home), &json!("running"))
    );
    assert!(made["vnc_password"].is_null(), "{made}");
    let second = json!({"computer_id": made["id"]});
    let resized = scene.call("resize_computer", json!({"computer_id": made["id"], "vcpus": 4})).await;
    assert_eq!(resized["structuredContent"]["vcpus"].as_f64(), Some(4.0), "{resized}");
    let copy = scene.call("clone_computer", json!({"computer_id": made["id"], "name": "third"})).await;
    assert_eq!((&copy["structuredContent"]["name"], &copy["isError"]), (&json!("third"), &json!(false)));
    assert_eq!(scene.call("delete_computer", second.clone()).await["isError"], false);
    assert_eq!(scene.call("get_computer", second).await["structuredContent"]["error"], "Desktop not found");
    let listed = scene.call("list_computers", json!({})).await;
    assert_eq!(listed["structuredContent"]["total"], 2, "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn computers_are_restarted_forked_and_rolled_back() {
    let scene = Scene::boot().await;
    let one = json!({"computer_id": scene.computer});
    let with = |more: Value| {
        let mut arguments = more;
        arguments["computer_id"] = json!(scene.computer);
        arguments
    };
    assert_eq!(scene.call("restart_computer", one.clone()).await["isError"], false);
    let running = scene.call("ensure_running", one.clone()).await;
    assert_eq!(running["structuredContent"]["status"], "running", "{running}");
    let forked = scene.call("fork_computer", with(json!({"name": "fork"}))).await;
    assert_eq!(forked["structuredContent"]["name"], "fork", "{forked}");
    let made = scene.call("create_snapshot", with(json!({"name": "before", "memory": true}))).await;
    let snapshot = &made["structuredContent"]["id"];
    assert!(snapshot.is_string(), "{made}");
    let listed = scene.call("list_snapshots", one.clone()).await;
    assert_eq!(listed["structuredContent"]["snapshots"][0]["id"], *snapshot, "{listed}");
    let named = with(json!({"snapshot_id": snapshot}));
    let launched =
        scene.call("launch_snapshot", with(json!({"snapshot_id": snapshot, "name": "again"}))).await;
    assert_eq!(launched["structuredContent"]["name"], "again", "{launched}");
    assert!(!launched.to_string().contains("vnc_password"), "{launched}");
    let back = scene.call("rollback", named.clone()).await;
    assert_eq!(back["structuredContent"]["snapshot_id"], *snapshot, "{back}");
    scene.controller.until_status(&scene.computer, "running").await;
    assert_eq!(scene.call("delete_snapshot", named).await["isError"], false);
    assert_eq!(scene.call("list_snapshots", one).await["structuredContent"]["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn computers_are_brought_up_and_down() {
    let scene = Scene::boot().await;
    let one = json!({"computer_id": scene.computer});
    for (tool, status) in [
        ("stop_computer", "stopped"),
        ("start_computer", "running"),
        ("suspend_computer", "suspended"),
        ("resume_computer", "running"),
    ] {
        let done = scene.call(tool, one.clone()).await;
        assert_eq!(done["isError"], false, "{tool}: {done}");
        scene.controller.until_status(&scene.computer, status).await;
        let record = scene.call("get_computer", one.clone()).await;
        assert_eq!(record["structuredContent"]["status"], status, "{tool}");
        assert!(record["structuredContent"]["vnc_password"].is_null(), "{record}");
    }
    let listed = scene.call("list_computers", json!({"status": "running"})).await;
    assert_eq!(listed["structuredContent"]["total"], 1, "{listed}");
    assert_eq!(
        scene.call("list_computers", json!({"status": "stopped"})).await["structuredContent"]["total"],
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_are_listed_and_launched_by_name() {
    let scene = Scene::boot().await;
    let listed = scene.call("list_templates", json!({})).await;
    let templates = listed["structuredContent"]["templates"].as_array().expect("a list");
    let reference = &templates.first().expect("the service has templates")["ref"];
    assert!(templates.iter().all(|template| template["definition"].is_null()), "{listed}");
    let one = json!({"template_ref": reference});
    let template = scene.call("get_template", one.clone()).await;
    assert!(template["structuredContent"]["definition"].is_object(), "{template}");
    let status = scene.call("template_status", one.clone()).await;
    assert_eq!(status["structuredContent"]["ref"], *reference, "{status}");
    // A connection to one workspace neither reads nor authors templates of the account.
    for (tool, arguments) in [
        ("list_templates", json!({"source": "own"})),
        ("get_template", json!({"template_ref": "default/lab@1.0.0"})),
        ("build_template", one.clone()),
        ("cancel_build", one),
        ("get_template", json!({"template_ref": "desktop"})),
        ("list_templates", json!({"source": "other"})),
        ("create_computer", json!({"name": "x", "template_ref": "default/nothing@1.0.0"})),
    ] {
        assert_eq!(scene.call(tool, arguments).await["isError"], true, "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_and_a_computer_are_examined() {
    let scene = Scene::boot().await;
    let all = scene.call("doctor", json!({})).await["structuredContent"].clone();
    let expected = json!({"healthy": true, "version": env!("CARGO_PKG_VERSION"), "reach": "workspace",
        "workspaces": 1, "computers": 1, "running": 1, "problems": []});
    assert_eq!(all, expected);
    let one = json!({"computer_id": scene.computer});
    let report = scene.call("doctor", one.clone()).await;
    let computer = &report["structuredContent"]["computer"];
    assert_eq!(
        (&computer["id"], &computer["agent_version"]),
        (&json!(scene.computer), &json!("1")),
        "{report}"
    );
    scene.controller.command(format!("/computers/{}/stop", scene.computer)).await;
    scene.controller.until_status(&scene.computer, "stopped").await;
    let report = scene.call("doctor", one).await["structuredContent"].clone();
    assert_eq!((&report["running"], &report["healthy"]), (&json!(0), &json!(true)), "{report}");
    assert_eq!(report["computer"], json!({"id": scene.computer, "status": "stopped"}));
}
