//! What does a key reach that is for one workspace, and by which handle? (access.md A13-A15)

use reqwest::Method;
use serde_json::json;

use super::{BEYOND_SCOPES, OF_THE_ACCOUNT, Scene};
use crate::harness::agent::answered;
use crate::harness::socket::{Came, Client};

#[tokio::test(flavor = "multi_thread")]
async fn a13_a_scoped_key_is_refused_on_every_operation_elsewhere() {
    let scene = Scene::set().await;
    let mut refused = 0;
    for operation in scene.guarded() {
        let (request, targeted) = scene.request(&operation);
        let beyond = BEYOND_SCOPES.iter().any(|path| operation.path.starts_with(path));
        if !targeted && !beyond {
            assert!(OF_THE_ACCOUNT.contains(&&*operation.name()), "{}: what is it about?", operation.name());
            continue;
        }
        let answer = answered(request.bearer_auth(&scene.scoped)).await;
        let name = format!("{}: {}", operation.name(), answer.body);
        assert_eq!(answer.status, 403, "{name}");
        assert_eq!(answer.body["code"], "workspace_scope_mismatch", "{name}");
        assert_eq!(answer.body["key_workspace_id"], scene.away.as_str(), "{name}");
        if beyond {
            refused += 1;
            continue;
        }
        assert_eq!(answer.body["target_workspace_id"], scene.home.as_str(), "{name}");
        let error = answer.body["error"].as_str().expect("a sentence");
        assert!(error.contains("\"away\"") && error.contains("\"home\""), "{name}");
        refused += 1;
    }
    assert!(refused > 25, "only {refused} operations have a target");
    // And nothing of it happened.
    assert_eq!(scene.house.status(&scene.computer).await, "running");
    assert_eq!(scene.house.get(&format!("/workspaces/{}", scene.home)).await.body["name"], "home");
    assert_eq!(
        scene.house.get(&format!("/files?projectId={}", scene.home)).await.body["files"][0]["id"],
        scene.file.as_str()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a15_no_handle_of_a_computer_is_a_way_around() {
    let scene = Scene::set().await;
    let record = scene.house.get(&format!("/computers/{}", scene.computer)).await.body;
    let present = record["instance_id"].as_str().expect("a handle").to_owned();
    let earlier = "0e0e0e0e";
    let url = format!("sqlite://{}", scene.house.store_file().display());
    let pool = sqlx::AnyPool::connect(&url).await.expect("the store");
    let insert = "INSERT INTO earlier_instances (instance_id, computer_id, ended_at) VALUES ($1, $2, 1)";
    let inserted = sqlx::query(insert).bind(earlier).bind(&scene.computer);
    inserted.execute(&pool).await.expect("an earlier handle");
    for handle in [present.as_str(), earlier] {
        let found = scene.house.get(&format!("/computers/{handle}")).await;
        assert_eq!(found.body["id"], scene.computer.as_str(), "{handle} is the computer's");
        for operation in scene.guarded() {
            let named = ["/computers/{id}", "/desktops/{id}"].iter().any(|it| operation.path.starts_with(it));
            if !named {
                continue;
            }
            let ask = async |key: &str| {
                let (request, _) = scene.request_naming(&operation, handle);
                let answer = answered(request.bearer_auth(key)).await;
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
    let scene = Scene::set().await;
    let (house, computer) = (&scene.house, &scene.computer);
    for key in [house.key(), &scene.scoped, &scene.foreign] {
        let header = format!("Bearer {key}");
        for channel in ["websockify", "terminal", "audio", "events"] {
            for (query, fields) in
                [(format!("?token={key}"), vec![]), (String::new(), vec![("authorization", &*header)])]
            {
                let path = format!("/desktops/{computer}/ws/{channel}{query}");
                let mut socket = Client::open(house.address(), &path, &fields).await.expect("an upgrade");
                let came = socket.next().await;
                assert!(matches!(came, Came::Closed(4001 | 4401, _)), "{channel}: {came:?}");
            }
        }
        // Nor is an upgrade passed on by the proxy path, to whoever may use that.
        let path = format!("/desktops/{computer}/proxy/ws/terminal");
        let refused = Client::open(house.address(), &path, &[("authorization", &header)]).await;
        let expected = if key == house.key() { 404 } else { 403 };
        assert_eq!(refused.err(), Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_scoped_key_sees_and_changes_its_own_workspace_only() {
    let scene = Scene::set().await;
    let ask = |method, path: &str| scene.house.request_with(&scene.scoped, method, path);
    let listed = answered(ask(Method::GET, "/workspaces")).await;
    assert_eq!(listed.body["workspaces"].as_array().map(Vec::len), Some(1), "{}", listed.body);
    assert_eq!(listed.body["workspaces"][0]["id"], scene.away.as_str());
    let computers = answered(ask(Method::GET, "/computers")).await;
    assert_eq!(
        (computers.status, &computers.body["computers"], &computers.body["total"]),
        (200, &json!([]), &json!(0))
    );
    let made = answered(ask(Method::POST, "/workspaces").json(&json!({"name": "third"}))).await;
    assert_eq!((made.status, &made.body["code"]), (403, &json!("workspace_scope_mismatch")));
    assert_eq!(made.body["key_workspace_id"], scene.away.as_str());
    let own =
        answered(ask(Method::POST, "/computers").json(&json!({"workspace_id": scene.away, "name": "own"})))
            .await;
    assert_eq!(own.status, 201, "{}", own.body);
    let id = own.body["id"].as_str().expect("an id");
    for path in
        [format!("/computers/{id}"), format!("/computers/{}", own.body["instance_id"].as_str().expect("one"))]
    {
        assert_eq!(answered(ask(Method::GET, &path)).await.status, 200);
    }
    // The instance handle is no way around the check (A15).
    let desk = scene.house.get(&format!("/computers/{}", scene.computer)).await.body;
    let around =
        answered(ask(Method::GET, &format!("/computers/{}", desk["instance_id"].as_str().expect("one"))))
            .await;
    assert_eq!(around.status, 403, "{}", around.body);
    // A workspace that goes takes its keys along.
    assert_eq!(scene.house.delete(&format!("/workspaces/{}", scene.away)).await.status, 200);
    assert_eq!(answered(ask(Method::GET, "/workspaces")).await.status, 401);
}
