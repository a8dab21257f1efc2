//! Saved RTMP connections: access, validation, and keys that no response shows (docs/api/streaming.md).

use std::sync::{Arc, Mutex};

use axum::body::to_bytes;
use axum::extract::Request;
use axum::{Json, Router};
use hotdesk::base::ids::{KeyId, WorkspaceId};
use hotdesk::base::tasks::Tasks;
use hotdesk::controller::identity::auth::keys;
use hotdesk::domain::desktop::stream::MAX_CONNECTIONS;
use hotdesk::http::serve::{BoundListener, serve};
use hotdesk::store::identity::accounts::NewKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

const URL: &str = "rtmp://live.example.org/app";

async fn save(controller: &Simulation, name: &str) -> (u16, Value) {
    let answer =
        controller.post("/stream/connections", json!({"name": name, "url": URL, "key": "hunter2"})).await;
    (answer.status, answer.body)
}

async fn names(controller: &Simulation, key: &str) -> Vec<String> {
    let listed = fetch_json(controller.request_with(key, Method::GET, "/stream/connections")).await;
    assert!(!listed.body.to_string().contains("hunter2"), "{}", listed.body);
    let all = listed.body["connections"].as_array().expect("a list").clone();
    all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_saved_replaced_listed_and_removed_and_their_keys_are_not_shown() {
    let mut controller = Simulation::boot().await;
    assert_eq!(controller.get("/stream/connections").await.body, json!({"connections": []}));
    let (status, first) = save(&controller, " My Channel ").await;
    assert_eq!((status, &first["name"], &first["url"]), (201, &json!("My Channel"), &json!(URL)), "{first}");
    assert_eq!(first.as_object().expect("a record").len(), 5, "{first}");
    // The same name in another case replaces the connection.
    let (status, again) = save(&controller, "my channel").await;
    assert_eq!(
        (status, &again["name"], &again["created_at"]),
        (200, &json!("my channel"), &first["created_at"])
    );
    assert_eq!(save(&controller, "\u{8a9e} 2").await.0, 201);
    controller.restart().await;
    assert_eq!(names(&controller, controller.key()).await, ["my channel", "\u{8a9e} 2"]);
    let removed = controller.delete("/stream/connections/MY%20CHANNEL").await;
    assert_eq!((removed.status, &removed.body), (200, &json!({"success": true})));
    let gone = controller.delete("/stream/connections/my%20channel").await;
    assert_eq!((gone.status, &gone.body["error"]), (404, &json!("Connection not found")));
    assert_eq!(controller.delete("/stream/connections/%20").await.status, 404);
    for number in 1..MAX_CONNECTIONS {
        assert_eq!(save(&controller, &number.to_string()).await.0, 201);
    }
    let (status, full) = save(&controller, "one more").await;
    assert_eq!((status, &full["code"]), (403, &json!("CONNECTION_LIMIT")));
    assert_eq!(save(&controller, "7").await.0, 200, "an existing connection can be replaced");
}

#[tokio::test(flavor = "multi_thread")]
async fn t6_what_is_no_connection_or_leads_to_a_private_address_is_refused() {
    let controller = Simulation::boot().await;
    let fine = json!({"name": "a", "url": URL, "key": "hunter2"});
    for (field, value, code) in [
        ("name", json!("a/b"), "INVALID_REQUEST"),
        ("name", json!(".."), "INVALID_REQUEST"),
        ("name", json!(""), "INVALID_REQUEST"),
        ("url", json!("https://live.example.org/app"), "INVALID_REQUEST"),
        ("url", json!("rtmp://live.example.org"), "INVALID_REQUEST"),
        ("url", json!("rtmp://user:hunter2@live.example.org/app"), "INVALID_REQUEST"),
        ("url", json!("rtmp://2130706433/app"), "INVALID_REQUEST"),
        ("key", json!("hunter2 "), "INVALID_REQUEST"),
        ("key", json!(""), "INVALID_REQUEST"),
        ("url", json!("rtmp://127.0.0.1/app"), "private_address"),
        ("url", json!("rtmp://localhost/app"), "private_address"),
        ("url", json!("rtmps://10.0.0.1:1935/app"), "private_address"),
        ("url", json!("rtmp://169.254.169.254/app"), "private_address"),
        ("url", json!("rtmp://100.64.0.1/app"), "private_address"),
        ("url", json!("rtmp://[::ffff:8.8.8.8]/app"), "private_address"),
        ("url", json!("rtmp://[fd00::1]/app"), "private_address"),
    ] {
        let mut body = fine.clone();
        body[field] = value;
        let refused = controller.post("/stream/connections", body.clone()).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!(code)), "{body}: {}", refused.body);
        assert!(!refused.body.to_string().contains("hunter2"), "{}", refused.body);
    }
    assert_eq!(controller.post("/stream/connections", json!({"name": "a"})).await.status, 400);
    assert_eq!(names(&controller, controller.key()).await, Vec::<String>::new());
}

/// A key that is limited to one workspace.
async fn scoped_key(controller: &Simulation, workspace: &str) -> String {
    let store = controller.store().await;
    let (text, account) = (keys::generate(), store.operator_account().await.expect("the operator"));
    let workspace = Some(workspace.parse::<WorkspaceId>().expect("an id"));
    let (digest, last_four) = (keys::digest(text.reveal()), keys::last_four(&text));
    let key = NewKey { account, workspace, name: "scoped", digest: &digest, last_four };
    let _id: KeyId = store.add_key(&key).await.expect("the key is stored");
    text.reveal().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_the_key_of_a_workspace_has_the_connections_of_its_workspace_alone() {
    let controller = Simulation::boot().await;
    let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
    let computer = controller.computer(&home, "desk").await;
    let key = scoped_key(&controller, &home).await;
    let ask = async |method: Method, path: &str, body: Value| {
        fetch_json(controller.request_with(&key, method, path).json(&body)).await
    };
    let connection = |name: &str| json!({"name": name, "url": URL, "key": "hunter2"});
    let given = |name: &str, workspace: &str| json!({"name": name, "url": URL, "key": "hunter2", "workspace_id": workspace});
    save(&controller, "account").await;
    controller.create("/stream/connections", given("away", &away)).await;
    controller.create("/stream/connections", given("given", &home)).await;
    let own = ask(Method::POST, "/stream/connections", connection("own")).await;
    assert_eq!((own.status, &own.body["workspace_id"]), (201, &json!(home)), "{}", own.body);
    assert_eq!(names(&controller, &key).await, ["given", "own"]);
    assert_eq!(names(&controller, controller.key()).await, ["account", "away", "given", "own"]);
    let start = format!("/computers/{computer}/stream/start");
    for (name, target) in [("account", Value::Null), ("away", json!(away))] {
        for answer in [
            ask(Method::DELETE, &format!("/stream/connections/{name}"), json!({})).await,
            ask(Method::POST, "/stream/connections", connection(name)).await,
            ask(Method::POST, &start, json!({"connection_name": name})).await,
        ] {
            assert_eq!(
                (answer.status, &answer.body["code"]),
                (403, &json!("workspace_scope_mismatch")),
                "{name}"
            );
            assert_eq!(
                (&answer.body["key_workspace_id"], &answer.body["target_workspace_id"]),
                (&json!(home), &target)
            );
        }
    }
    assert_eq!(ask(Method::POST, "/stream/connections", given("x", &away)).await.status, 403);
    assert_eq!(ask(Method::POST, "/stream/connections", connection("given")).await.status, 200);
    assert_eq!(ask(Method::DELETE, "/stream/connections/given", json!({})).await.status, 200);
    // A delete of the workspace deletes its connections.
    assert_eq!(controller.delete(&format!("/workspaces/{away}")).await.status, 200);
    assert_eq!(names(&controller, controller.key()).await, ["account", "own"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_given_the_whole_destination_and_what_it_answers_is_read_strictly() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let computer = controller.computer(&workspace, "one").await;
    let requests = Arc::<Mutex<Vec<Value>>>::default();
    let recorded = Arc::clone(&requests);
    // The agent repeats the key in every response.
    let agent = Router::new().fallback(async move |request: Request| {
        let path = request.uri().path().to_owned();
        let body = to_bytes(request.into_body(), 10_000).await.expect("a body");
        recorded.lock().expect("no panic").push(serde_json::from_slice(&body).unwrap_or(Value::Null));
        Json(match path.as_str() {
            "/stream/start" => json!({"success": true, "status": "streaming", "pid": 7, "key": "hunter2"}),
            "/stream/status" => json!({"status": "terminated", "reason": "server_gone", "key": "hunter2"}),
            _ => json!({"success": true, "key": "hunter2"}),
        })
    });
    let (tasks, listener) = (Tasks::new(), controller.replace_agent(&computer));
    let group = tasks.clone();
    let _serving =
        tasks.spawn("agent", async move { serve(BoundListener::Unix(listener), agent, &group).await });
    let at = |what: &str| format!("/computers/{computer}/stream/{what}");
    let unknown = controller.post(&at("start"), json!({"connection_name": "saved"})).await;
    assert_eq!((unknown.status, &unknown.body["error"]), (404, &json!("Connection not found")));
    assert_eq!(controller.post(&at("start"), json!({})).await.status, 400);
    save(&controller, "saved").await;
    let body = json!({"connection_name": "SAVED", "screen": "screen-100"});
    let started = controller.post(&at("start"), body).await;
    assert_eq!(
        (started.status, &started.body),
        (200, &json!({"success": true, "status": "streaming", "pid": 7}))
    );
    let received = requests.lock().expect("no panic").pop().expect("a request");
    assert_eq!(
        received,
        json!({"url": URL, "key": "hunter2", "screen": "screen-100", "allow_private": false})
    );
    let status = controller.get(&at("status")).await;
    assert_eq!(status.body, json!({"status": "terminated", "reason": "server_gone"}));
    // Some clients send no body with the content type (docs/api/compatibility.md).
    let stopped =
        fetch_json(controller.request(Method::POST, &at("stop")).header("content-type", "application/json"))
            .await;
    assert_eq!((stopped.status, &stopped.body), (200, &json!({"success": true})));
    // The proxy path has no access to the agent's own route, which accepts any destination.
    let proxied = controller.bare(Method::POST, &format!("/desktops/{computer}/proxy/stream/start"));
    assert_eq!(fetch_json(proxied.bearer_auth(controller.key())).await.status, 404);
    tasks.drain(std::time::Duration::from_secs(5)).await;
}
