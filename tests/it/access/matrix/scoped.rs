//! Reach of workspace-scoped keys, by every handle of a computer (A13-A15, docs/authentication-rules.md).

use reqwest::Method;
use serde_json::json;

use super::{Scene, WITHOUT_WORKSPACE, error_fields, is_account_only};
use crate::harness::agent::fetch_json;
use crate::harness::socket::{Client, SocketEvent};

#[tokio::test(flavor = "multi_thread")]
async fn a13_a_scoped_key_is_refused_on_every_operation_elsewhere() {
    let scene = Scene::new().await;
    let mut refused = 0;
    for operation in scene.guarded_operations() {
        let (request, targeted) = scene.request(&operation);
        let beyond = is_account_only(&operation);
        if !targeted && !beyond {
            assert!(
                WITHOUT_WORKSPACE.contains(&&*operation.name()),
                "{}: does not name its workspace",
                operation.name()
            );
            continue;
        }
        let answer = fetch_json(request.bearer_auth(&scene.scoped)).await;
        let name = format!("{}: {}", operation.name(), answer.body);
        let body = error_fields(&answer.body);
        assert_eq!(answer.status, 403, "{name}");
        assert_eq!(body["code"], "workspace_scope_mismatch", "{name}");
        assert_eq!(body["key_workspace_id"], scene.away.as_str(), "{name}");
        if beyond {
            refused += 1;
            continue;
        }
        assert_eq!(body["target_workspace_id"], scene.home.as_str(), "{name}");
        let error = body["error"].as_str().expect("a sentence");
        assert!(error.contains("\"away\"") && error.contains("\"home\""), "{name}");
        refused += 1;
    }
    assert!(refused > 25, "only {refused} operations have a target");
    // The refused requests have no effect.
    assert_eq!(scene.controller.status(&scene.computer).await, "running");
    assert_eq!(scene.controller.get(&format!("/workspaces/{}", scene.home)).await.body["name"], "home");
    assert_eq!(
        scene.controller.get(&format!("/files?projectId={}", scene.home)).await.body["files"][0]["id"],
        scene.file.as_str()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a15_no_handle_of_a_computer_is_a_way_around() {
    let scene = Scene::new().await;
    let record = scene.controller.get(&format!("/computers/{}", scene.computer)).await.body;
    let present = record["instance_id"].as_str().expect("a handle").to_owned();
    let earlier = "0e0e0e0e";
    let pool = scene.controller.store_pool().await;
    let insert = "INSERT INTO earlier_instances (instance_id, computer_id, ended_at) VALUES ($1, $2, 1)";
    let inserted = sqlx::query(insert).bind(earlier).bind(&scene.computer);
    inserted.execute(&pool).await.expect("an earlier handle");
    for handle in [present.as_str(), earlier] {
        let found = scene.controller.get(&format!("/computers/{handle}")).await;
        assert_eq!(found.body["id"], scene.computer.as_str(), "{handle} must name the computer");
        for operation in scene.guarded_operations() {
            let named = ["/computers/{id}", "/desktops/{id}"].iter().any(|it| operation.path.starts_with(it));
            if !named {
                continue;
            }
            let ask = async |key: &str| {
                let (request, _) = scene.request_naming(&operation, handle);
                let answer = fetch_json(request.bearer_auth(key)).await;
                (answer.status, answer.body)
            };
            let name = operation.name();
            let (status, body) = ask(&scene.scoped).await;
            assert_eq!((status, &body["code"]), (403, &json!("workspace_scope_mismatch")), "{name}: {body}");
            assert_eq!(body["target_workspace_id"], scene.home.as_str(), "{name}: {body}");
            let (status, body) = ask(&scene.foreign).await;
            assert_eq!((status, &body["error"]), (403, &json!("Access denied")), "{name}: {body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_a16_no_key_opens_a_socket() {
    let scene = Scene::new().await;
    let (controller, computer) = (&scene.controller, &scene.computer);
    for key in [controller.key(), &scene.scoped, &scene.foreign] {
        let header = format!("Bearer {key}");
        for channel in ["websockify", "video", "terminal", "audio", "events"] {
            for (query, fields) in
                [(format!("?token={key}"), vec![]), (String::new(), vec![("authorization", &*header)])]
            {
                let path = format!("/desktops/{computer}/ws/{channel}{query}");
                let mut socket =
                    Client::open(controller.address(), &path, &fields).await.expect("an upgrade");
                let message = socket.next().await;
                assert!(matches!(message, SocketEvent::Closed(4001 | 4401, _)), "{channel}: {message:?}");
            }
        }
        // The proxy path does not forward upgrades either, even for a key that may use it.
        let path = format!("/desktops/{computer}/proxy/ws/terminal");
        let refused = Client::open(controller.address(), &path, &[("authorization", &header)]).await;
        let expected = if key == controller.key() { 404 } else { 403 };
        assert_eq!(refused.err(), Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_scoped_key_sees_and_changes_its_own_workspace_only() {
    let scene = Scene::new().await;
    let ask = |method, path: &str| scene.controller.request_with(&scene.scoped, method, path);
    let listed = fetch_json(ask(Method::GET, "/workspaces")).await;
    assert_eq!(listed.body["workspaces"].as_array().map(Vec::len), Some(1), "{}", listed.body);
    assert_eq!(listed.body["workspaces"][0]["id"], scene.away.as_str());
    let computers = fetch_json(ask(Method::GET, "/computers")).await;
    assert_eq!(
        (computers.status, &computers.body["computers"], &computers.body["total"]),
        (200, &json!([]), &json!(0))
    );
    let created = fetch_json(ask(Method::POST, "/workspaces").json(&json!({"name": "third"}))).await;
    assert_eq!((created.status, &created.body["code"]), (403, &json!("workspace_scope_mismatch")));
    assert_eq!(created.body["key_workspace_id"], scene.away.as_str());
    let own =
        fetch_json(ask(Method::POST, "/computers").json(&json!({"workspace_id": scene.away, "name": "own"})))
            .await;
    assert_eq!(own.status, 201, "{}", own.body);
    let id = own.body["id"].as_str().expect("an id");
    for path in
        [format!("/computers/{id}"), format!("/computers/{}", own.body["instance_id"].as_str().expect("one"))]
    {
        assert_eq!(fetch_json(ask(Method::GET, &path)).await.status, 200);
    }
    // The instance handle does not bypass the scope check (A15).
    let record = scene.controller.get(&format!("/computers/{}", scene.computer)).await.body;
    let through_handle =
        fetch_json(ask(Method::GET, &format!("/computers/{}", record["instance_id"].as_str().expect("one"))))
            .await;
    assert_eq!(through_handle.status, 403, "{}", through_handle.body);
    // Deleting a workspace deletes its keys.
    assert_eq!(scene.controller.delete(&format!("/workspaces/{}", scene.away)).await.status, 200);
    assert_eq!(fetch_json(ask(Method::GET, "/workspaces")).await.status, 401);
}
