//! Public SSH keys of an account, and who may open an SSH connection.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hotdesk::domain::identity::access::Role;
use hotdesk::domain::identity::ssh_key::MAX_KEYS;
use reqwest::Method;
use serde_json::{Value, json};

use super::cast::{add_account, add_key};
use crate::harness::agent::fetch_json;
use crate::harness::browser::person;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

/// A public key that differs by `number`.
pub fn public_key(number: u8) -> String {
    let field = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let blob = [field(b"ssh-ed25519"), field(&[number; 32])].concat();
    format!("ssh-ed25519 {}", BASE64_STANDARD.encode(blob))
}

async fn names(controller: &Simulation, key: &str) -> Vec<String> {
    let listed = fetch_json(controller.request_with(key, Method::GET, "/keys/ssh")).await;
    assert_eq!(listed.status, 200, "{}", listed.body);
    let keys = listed.body["keys"].as_array().expect("keys");
    keys.iter().map(|key| key["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_key_is_added_once_and_deleted() {
    let controller = Simulation::boot().await;
    let text = format!("{} me@laptop\n", public_key(1));
    let added = controller.create("/keys/ssh", json!({"public_key": text})).await;
    assert_eq!((&added["name"], &added["workspace_id"]), (&json!("me@laptop"), &Value::Null));
    assert_eq!(added["public_key"], public_key(1));
    let fingerprint = added["fingerprint"].as_str().expect("a fingerprint").to_owned();
    assert!(fingerprint.starts_with("SHA256:") && added["created_at"].is_string(), "{added}");
    let named = controller.create("/keys/ssh", json!({"name": " desk ", "public_key": public_key(2)})).await;
    assert_eq!(named["name"], "desk");
    let unnamed = controller.create("/keys/ssh", json!({"public_key": public_key(3)})).await;
    assert_eq!(unnamed["name"], unnamed["fingerprint"]);
    assert_eq!(names(&controller, controller.key()).await[..2], ["me@laptop", "desk"]);

    let again = controller.post("/keys/ssh", json!({"name": "other", "public_key": public_key(1)})).await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("ssh_key_exists")), "{}", again.body);
    for body in [
        json!({}),
        json!({"public_key": ""}),
        json!({"public_key": format!("-----BEGIN OPENSSH {} KEY-----\nx", "PRIVATE")}),
        json!({"public_key": format!("{}\n{}", public_key(8), public_key(9))}),
        json!({"public_key": public_key(8), "name": ""}),
        json!({"public_key": public_key(8), "options": "no-pty"}),
    ] {
        assert_eq!(controller.post("/keys/ssh", body.clone()).await.status, 400, "{body}");
    }

    let path = format!("/keys/ssh/{}", id_of(&added));
    assert_eq!(controller.delete(&path).await.status, 200);
    assert_eq!(controller.delete(&path).await.status, 404);
    assert_eq!(controller.delete("/keys/ssh/nonsense").await.status, 404);
    assert_eq!(names(&controller, controller.key()).await.len(), 2);
    let log = controller.get("/audit").await.body;
    let entries = log["entries"].as_array().expect("entries");
    for (method, route) in [("POST", "/keys/ssh"), ("DELETE", "/keys/ssh/{ssh_key_id}")] {
        let of_key = |entry: &&Value| entry["method"] == method && entry["target_id"] == added["id"];
        let entry = entries.iter().find(of_key).unwrap_or_else(|| panic!("{method}: {log}"));
        assert_eq!((&entry["route"], &entry["result"]), (&json!(route), &json!("done")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_have_a_limit_for_each_scope() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let scoped = add_key(&store, operator, Some(&home)).await;
    let add = async |key: &str, number: u8| {
        let request = controller.request_with(key, Method::POST, "/keys/ssh");
        fetch_json(request.json(&json!({"public_key": public_key(number)}))).await
    };
    for number in 0..MAX_KEYS as u8 {
        assert_eq!(add(controller.key(), number).await.status, 201);
    }
    let refused = add(controller.key(), 200).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("ssh_key_limit")), "{}", refused.body);
    // A workspace's key cannot use up the account's limit, nor be refused by it.
    assert_eq!(add(&scoped, 1).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scoped_key_adds_keys_for_its_workspace_only() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let scoped = add_key(&store, operator, Some(&home)).await;
    let stranger = add_account(&store, "other@localhost").await;
    let foreign = add_key(&store, stranger, None).await;
    let wide = controller.create("/keys/ssh", json!({"name": "wide", "public_key": public_key(1)})).await;
    let request = controller.request_with(&scoped, Method::POST, "/keys/ssh");
    let own = fetch_json(request.json(&json!({"name": "own", "public_key": public_key(1)}))).await;
    assert_eq!((own.status, &own.body["workspace_id"]), (201, &json!(home)), "{}", own.body);

    assert_eq!(names(&controller, controller.key()).await, ["wide", "own"]);
    assert_eq!(names(&controller, &scoped).await, ["own"]);
    assert!(names(&controller, &foreign).await.is_empty());
    let delete = async |key: &str, id: &Value| {
        let path = format!("/keys/ssh/{}", id.as_str().expect("an id"));
        fetch_json(controller.request_with(key, Method::DELETE, &path)).await
    };
    let refused = delete(&scoped, &wide["id"]).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("workspace_scope_mismatch")));
    for id in [&wide["id"], &own.body["id"]] {
        let refused = delete(&foreign, id).await;
        assert_eq!((refused.status, &refused.body["error"]), (403, &json!("Access denied")));
    }
    assert_eq!(delete(&scoped, &own.body["id"]).await.status, 200);
    assert_eq!(delete(controller.key(), &wide["id"]).await.status, 200);
    // A key for a workspace ends with it.
    let request = controller.request_with(&scoped, Method::POST, "/keys/ssh");
    assert_eq!(fetch_json(request.json(&json!({"public_key": public_key(2)}))).await.status, 201);
    assert_eq!(controller.delete(&format!("/workspaces/{home}")).await.status, 200);
    assert!(names(&controller, controller.key()).await.is_empty());
}

/// An agent without an SSH server once `missing` is a file.
fn agent(missing: std::path::PathBuf) -> Router {
    let answer = move || {
        let gone = missing.exists();
        async move {
            if gone {
                let refusal = json!({"error": "The computer has no SSH server", "code": "ssh_not_installed"});
                return (axum::http::StatusCode::CONFLICT, axum::Json(refusal)).into_response();
            }
            axum::Json(json!({"user": "root", "host_keys": [format!("{} x", public_key(7))]})).into_response()
        }
    };
    Router::new().route("/ssh/host-keys", get(answer))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_needs_a_key_with_access_and_an_ssh_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    let controller = Simulation::boot_with(agent(missing.clone())).await;
    let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
    let id = controller.computer(&home, "desk").await;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let scoped = add_key(&store, operator, Some(&away)).await;
    let stranger = add_account(&store, "other@localhost").await;
    let foreign = add_key(&store, stranger, None).await;
    let watching = person(&store, "viewer@localhost").await.id;
    store.set_member(home.parse().expect("an id"), watching, Role::Viewer).await.expect("a member");
    let viewer = add_key(&store, watching, None).await;
    let path = format!("/api/computers/{id}/ssh");
    let open = async |key: &str| {
        let bearer = format!("Bearer {key}");
        Client::open(controller.address(), &path, &[("authorization", bearer.as_str())]).await
    };
    // Without an upgrade, the answer has the reason of each refusal.
    for (key, status, code) in [
        (&*scoped, 403, "workspace_scope_mismatch"),
        (&*foreign, 403, ""),
        (&*viewer, 403, "workspace_read_only"),
        (controller.key(), 409, "ssh_key_missing"),
    ] {
        assert_eq!(open(key).await.err(), Some(status), "{code}");
    }
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await.body;
    let password = password["password"].as_str().expect("a password");
    assert_eq!(open(password).await.err(), Some(401), "the computer's password opens no SSH");
    let by_password = format!("/desktops/{id}/ws/ssh?token={password}");
    assert_eq!(Client::open(controller.address(), &by_password, &[]).await.err(), Some(404));
    assert_eq!(Client::open(controller.address(), &path, &[]).await.err(), Some(401));

    // A key that was added for another workspace opens nothing here.
    let request = controller.request_with(&scoped, Method::POST, "/keys/ssh");
    assert_eq!(fetch_json(request.json(&json!({"public_key": public_key(1)}))).await.status, 201);
    assert_eq!(open(controller.key()).await.err(), Some(409));
    controller.create("/keys/ssh", json!({"public_key": public_key(1)})).await;
    std::fs::write(&missing, "").expect("a file");
    assert_eq!(open(controller.key()).await.err(), Some(409));
    let refused = controller.get(&format!("/computers/{id}/ssh/host-keys")).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("ssh_not_installed")));
    std::fs::remove_file(&missing).expect("a file");
    let shown = controller.get(&format!("/computers/{id}/ssh/host-keys")).await;
    assert_eq!(shown.body, json!({"user": "root", "host_keys": [public_key(7)]}));
    for key in [&viewer, &foreign, &scoped] {
        let path = format!("/computers/{id}/ssh/host-keys");
        assert_eq!(fetch_json(controller.request_with(key, Method::GET, &path)).await.status, 403);
    }
    // The simulated agent has no channel; the socket says so by its code.
    let mut socket = open(controller.key()).await.expect("accepted");
    assert!(matches!(socket.next().await, SocketEvent::Closed(4500, _)));
    let log = controller.get("/audit").await.body;
    let entries = log["entries"].as_array().expect("entries");
    assert!(entries.iter().any(|it| it["route"] == "/computers/{id}/ssh" && it["result"] == "done"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_an_agent_cannot_write_into_files_of_ssh() {
    for answer in [
        json!({"user": "-oProxyCommand=x", "host_keys": [public_key(7)]}),
        json!({"user": "root\nHost *", "host_keys": [public_key(7)]}),
        json!({"user": "root", "host_keys": [format!("{}\n@cert-authority * x", public_key(7))]}),
        json!({"user": "root", "host_keys": ["x"]}),
    ] {
        let shown = answer.clone();
        let agent = Router::new().route("/ssh/host-keys", get(async move || axum::Json(shown)));
        let controller = Simulation::boot_with(agent).await;
        let id = controller.computer(&controller.workspace("home").await, "desk").await;
        let refused = controller.get(&format!("/computers/{id}/ssh/host-keys")).await;
        assert_eq!(refused.status, 500, "{answer}: {}", refused.body);
    }
}
