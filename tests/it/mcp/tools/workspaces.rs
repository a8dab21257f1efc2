//! Tools for workspaces, their files and threads.

use serde_json::json;

use super::agent;
use crate::mcp::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_are_found_and_only_a_key_of_the_account_makes_and_deletes_them() {
    let scene = Scene::boot().await;
    for (tool, arguments) in [
        ("get_workspace", json!({"workspace_id": scene.home})),
        ("workspace_by_name", json!({"name": "HOME"})),
    ] {
        let found = scene.call(tool, arguments).await;
        assert_eq!(found["structuredContent"]["id"], scene.home.as_str(), "{tool}: {found}");
        assert!(!found.to_string().contains("vnc_password"), "{found}");
    }
    for (tool, arguments) in [
        ("get_workspace", json!({"workspace_id": scene.away})),
        ("workspace_by_name", json!({"name": "away"})),
        ("delete_workspace", json!({"workspace_id": scene.away})),
        ("create_workspace", json!({"name": "third"})),
        ("list_computers", json!({"workspace_id": scene.away})),
        ("create_computer", json!({"workspace_id": scene.away, "name": "x"})),
        ("list_workspace_files", json!({"workspace_id": scene.away})),
        ("upload_file", json!({"workspace_id": scene.away, "filename": "a", "text": "x"})),
        ("move_computer", json!({"computer_id": scene.computer, "workspace_id": scene.away})),
    ] {
        assert_eq!(scene.call(tool, arguments).await["isError"], true, "{tool}");
    }
    assert_eq!(
        scene.controller.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len),
        Some(2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_workspace_are_stored_listed_and_exported() {
    let scene = Scene::boot_with(agent()).await;
    let stored = scene.call("upload_file", json!({"filename": "a b.txt", "text": "Gr\u{fc}\u{df}e"})).await;
    let file = &stored["structuredContent"]["file"];
    assert_eq!((&file["filename"], &file["size_bytes"]), (&json!("a b.txt"), &json!(7)), "{stored}");
    let binary = json!({"filename": "b.bin", "base64": "AAEC", "computer_id": scene.computer});
    let binary = scene.call("upload_file", binary).await;
    assert_eq!(binary["structuredContent"]["file"]["size_bytes"], 3, "{binary}");
    let exported = scene.call("export_file", json!({"computer_id": scene.computer, "path": "c.txt"})).await;
    assert_eq!(exported["structuredContent"]["file"]["filename"], "c.txt", "{exported}");
    let listed = scene.call("list_workspace_files", json!({})).await;
    assert_eq!(listed["structuredContent"]["total"], 3, "{listed}");
    let link = scene.call("download_file", json!({"file_id": file["id"]})).await;
    let link = link["structuredContent"]["url"].as_str().expect("a link").to_owned();
    let read =
        crate::harness::client().get(&link).send().await.expect("an answer").text().await.expect("text");
    assert_eq!(read, "Gr\u{fc}\u{df}e");
    for bad in [
        json!({"filename": "a\"b", "text": "x"}),
        json!({"filename": "a"}),
        json!({"filename": "a", "text": "x", "base64": "AA=="}),
        json!({"filename": "a", "base64": "?"}),
    ] {
        assert_eq!(scene.call("upload_file", bad.clone()).await["isError"], true, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_listed_read_and_deleted_within_the_workspace() {
    let scene = Scene::boot().await;
    let create = async |computer: &str| {
        let made = scene.controller.post("/chat/threads", json!({"desktopId": computer})).await;
        made.body["remoteId"].as_str().expect("an id").to_owned()
    };
    let (own, foreign) = (create(&scene.computer).await, create(&scene.elsewhere).await);
    let listed = scene.call("list_threads", json!({"computer_id": scene.computer})).await;
    let page = &listed["structuredContent"];
    assert_eq!((&page["total"], &page["threads"][0]["id"]), (&json!(1), &json!(own)), "{listed}");
    let read = scene.call("get_thread", json!({"thread_id": own})).await;
    assert_eq!(read["structuredContent"]["thread"]["computer_id"], json!(scene.computer), "{read}");
    let steps = scene.call("thread_steps", json!({"thread_id": own})).await;
    assert_eq!(steps["structuredContent"]["steps"], json!([]), "{steps}");
    for tool in ["get_thread", "thread_steps", "delete_thread", "wait_for_run"] {
        let refused = scene.call(tool, json!({"thread_id": foreign})).await;
        assert_eq!(refused["structuredContent"]["code"], "workspace_scope_mismatch", "{tool}: {refused}");
    }
    let without = scene.call("run_agent", json!({"computer_id": scene.computer, "prompt": ""})).await;
    assert_eq!(without["isError"], true, "{without}");
    assert_eq!(scene.call("delete_thread", json!({"thread_id": own})).await["isError"], false);
    assert_eq!(scene.call("get_thread", json!({"thread_id": own})).await["isError"], true);
}
