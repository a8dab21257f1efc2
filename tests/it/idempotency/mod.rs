//! At-most-once execution of requests with an `Idempotency-Key`, through hang-ups and controller restarts: D6
//! (docs/security.md).

mod crash;
mod eviction;
mod hang_ups;
mod large;

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use futures_util::future::join_all;
use hotdesk::base::wait;
use hotdesk::controller::config::Limits;
use hotdesk::controller::identity::auth::keys;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::store::identity::accounts::NewKey;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;
use crate::openapi::{document, needs_key, operations};

/// Longest wait for a condition, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(40);

async fn send(controller: &Simulation, path: &str, key: &str, body: &Value) -> HttpAnswer {
    fetch_json(keyed(controller, Method::POST, path, key).json(body)).await
}

fn keyed(controller: &Simulation, method: Method, path: &str, key: &str) -> RequestBuilder {
    controller.request(method, path).header("Idempotency-Key", key)
}

/// Number of keys in the store.
async fn count_keys(controller: &Simulation) -> i64 {
    let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM idempotent_requests")
        .fetch_one(&controller.store_pool().await)
        .await
        .expect("a count");
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_sent_again_is_answered_and_not_repeated() {
    let controller = Simulation::boot().await;
    let body = json!({"name": "w"});
    let first = send(&controller, "/workspaces", "key-number-1", &body).await;
    assert_eq!(first.status, 201, "{}", first.body);
    // An alias of a path counts as the same path.
    for path in ["/workspaces", "/projects"] {
        let again = keyed(&controller, Method::POST, path, "key-number-1")
            .json(&body)
            .send()
            .await
            .expect("an answer");
        assert_eq!(
            (again.status().as_u16(), &again.headers()["idempotency-replayed"]),
            (201, &"true".parse().unwrap())
        );
        assert_eq!(again.headers()["content-type"], "application/json");
        assert_eq!(again.json::<Value>().await.expect("JSON"), first.body);
    }
    let id = first.body["id"].as_str().expect("an id");
    for (method, path, other) in [
        (Method::POST, "/workspaces".to_owned(), json!({"name": "v"})),
        (Method::POST, "/workspaces?x=1".to_owned(), body.clone()),
        (Method::POST, format!("/workspaces/{id}/delete"), json!({})),
        (Method::DELETE, format!("/workspaces/{id}"), body.clone()),
    ] {
        let reused = fetch_json(keyed(&controller, method.clone(), &path, "key-number-1").json(&other)).await;
        assert_eq!(
            (reused.status, &reused.body["code"]),
            (422, &json!("idempotency_key_reused")),
            "{method} {path}"
        );
    }
    for bad in ["short", "with a space", &"x".repeat(256)] {
        assert_eq!(send(&controller, "/workspaces", bad, &body).await.status, 400, "{bad:?}");
    }
    let twice = keyed(&controller, Method::POST, "/workspaces", "key-number-2")
        .header("Idempotency-Key", "key-number-3");
    assert_eq!(fetch_json(twice.json(&json!({"name": "x"}))).await.status, 400);
    let all = controller.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len);
    assert_eq!(all, Some(1));
    // A request without a credential is refused, and a read needs no idempotency key.
    let anonymous = controller
        .bare(Method::POST, "/api/workspaces")
        .header("Idempotency-Key", "key-number-1")
        .json(&body);
    assert_eq!(fetch_json(anonymous).await.status, 401);
    assert_eq!(fetch_json(keyed(&controller, Method::GET, "/workspaces", "key-number-1")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_belong_to_the_credential_that_they_came_with() {
    let controller = Simulation::boot().await;
    let first = send(&controller, "/workspaces", "key-number-1", &json!({"name": "w"})).await;
    let store = controller.store().await;
    let (text, account) = (keys::generate(), store.operator_account().await.expect("the operator"));
    let (digest, workspace) =
        (keys::digest(text.reveal()), first.body["id"].as_str().expect("an id").parse().ok());
    let key =
        NewKey { account, workspace, name: "scoped", digest: &digest, last_four: keys::last_four(&text) };
    store.add_key(&key).await.expect("a second key");
    let other = controller
        .request_with(text.reveal(), Method::POST, "/workspaces")
        .header("Idempotency-Key", "key-number-1");
    let other = fetch_json(other.json(&json!({"name": "w"}))).await;
    assert_eq!(
        (other.status, &other.body["code"]),
        (403, &json!("workspace_scope_mismatch")),
        "{}",
        other.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_is_carried_out() {
    let controller = Simulation::boot().await;
    let body = json!({"name": "w"});
    let answers = join_all((0..50).map(|_| send(&controller, "/workspaces", "key-number-1", &body))).await;
    let created: Vec<&HttpAnswer> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert!(!created.is_empty() && created.iter().all(|answer| answer.body == created[0].body));
    for waiting in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(
            (waiting.status, &waiting.body["code"]),
            (409, &json!("idempotency_in_progress")),
            "{}",
            waiting.body
        );
        assert_eq!(waiting.body["retry_after"], 1);
    }
    assert_eq!(controller.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_may_be_asked_again_and_what_failed_is_told_again() {
    let controller = Simulation::boot_limited(Limits { max_computers: 1, ..Limits::default() }).await;
    let workspace = controller.workspace("w").await;
    let first = controller.computer(&workspace, "first").await;
    let body = json!({"workspace_id": workspace, "name": "second"});
    assert_eq!(send(&controller, "/computers", "key-number-1", &body).await.status, 403);
    assert_eq!(count_keys(&controller).await, 0);
    assert_eq!(controller.delete(&format!("/computers/{first}")).await.status, 200);
    assert_eq!(send(&controller, "/computers", "key-number-1", &body).await.status, 201);
    // A refused mistake stays refused, with the request id of the first attempt.
    let mistaken = json!({"workspace_id": workspace, "name": "third", "cpu": 3});
    let refused = send(&controller, "/computers", "key-number-2", &mistaken).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let again = send(&controller, "/computers", "key-number-2", &mistaken).await;
    assert_eq!((again.status, again.body), (400, refused.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_kept() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let computer = controller.computer(&workspace, "desk").await;
    let path = format!("/computers/{computer}/stream-tickets");
    let ticket = send(&controller, &path, "key-number-1", &json!({"mode": "view"})).await;
    assert_eq!(ticket.status, 201, "{}", ticket.body);
    let again = send(&controller, &path, "key-number-1", &json!({"mode": "view"})).await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("answer_not_kept")), "{}", again.body);
    assert_eq!(again.body["status"], 201);
    let text = ticket.body["ticket"].as_str().expect("a ticket");
    let database = std::fs::read(controller.store_file()).expect("the store");
    let log = std::fs::read(controller.store_file().with_extension("db-wal")).unwrap_or_default();
    for bytes in [database, log] {
        assert!(
            !bytes.windows(text.len()).any(|window| window == text.as_bytes()),
            "the store holds the ticket"
        );
        assert!(!bytes.windows(12).any(|window| window == b"key-number-1"), "the store holds the key");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_finds_its_answer_later() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let release = CancellationToken::new();
    let failure = Failure::Until(release.clone());
    controller.engine.plan(Fault { verb: Verb::Create, call: 1, failure });
    let body = json!({"workspace_id": workspace, "name": "desk"});
    let cut_short = send(&controller, "/computers", "key-number-1", &body);
    let creating =
        wait::until(TIMEOUT, || async { (controller.engine.calls(Verb::Create) == 1).then_some(()) });
    tokio::select! {
        early = cut_short => panic!("no wait for the machine: {}", early.body),
        creating = creating => creating.expect("a running creation"),
    }
    let meanwhile = send(&controller, "/computers", "key-number-1", &body).await;
    assert_eq!((meanwhile.status, &meanwhile.body["code"]), (409, &json!("idempotency_in_progress")));
    release.cancel();
    let found = wait::until(TIMEOUT, || async {
        Some(send(&controller, "/computers", "key-number-1", &body).await).filter(|again| again.status == 201)
    });
    let found = found.await.expect("the response");
    let listed = controller.get("/computers").await;
    assert_eq!((&listed.body["total"], &listed.body["computers"][0]["id"]), (&json!(1), &found.body["id"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_outlive_the_controller_and_end_after_a_day() {
    let mut controller = Simulation::boot().await;
    let body = json!({"name": "w"});
    let first = send(&controller, "/workspaces", "key-number-1", &body).await;
    controller.restart().await;
    let again = send(&controller, "/workspaces", "key-number-1", &body).await;
    assert_eq!((again.status, again.body), (201, first.body));
    let aged = sqlx::query("UPDATE idempotent_requests SET created_at = created_at - 24 * 3600000");
    aged.execute(&controller.store_pool().await).await.expect("aged rows");
    // The key has expired, so this is a new request, and a workspace of that name exists.
    let late = send(&controller, "/workspaces", "key-number-1", &body).await;
    assert!(
        (400..500).contains(&late.status) && late.body["code"] != "idempotency_key_reused",
        "{}",
        late.body
    );
    let aged = sqlx::query("UPDATE idempotent_requests SET created_at = created_at - 24 * 3600000");
    aged.execute(&controller.store_pool().await).await.expect("aged rows");
    controller.restart().await;
    let swept = wait::until(TIMEOUT, || async { (count_keys(&controller).await == 0).then_some(()) });
    assert!(swept.await.is_some(), "expired keys must be removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_and_the_proxy_path_keep_the_agent_s_own_journal() {
    let echo = post(async |request: Request| {
        let key = request
            .headers()
            .get("idempotency-key")
            .and_then(|key| key.to_str().ok())
            .unwrap_or("none")
            .to_owned();
        axum::Json(json!({"success": true, "action": "click", "details": {"key": key}}))
    });
    let controller = Simulation::boot_with(Router::new().route("/click", echo)).await;
    let workspace = controller.workspace("w").await;
    let computer = controller.computer(&workspace, "desk").await;
    for path in [format!("/computers/{computer}/click"), format!("/desktops/{computer}/proxy/click")] {
        let clicked = send(&controller, &path, "key-number-1", &json!({"x": 1, "y": 1})).await;
        assert_eq!(clicked.body["details"]["key"], "key-number-1", "{path}: {}", clicked.body);
    }
    assert_eq!(count_keys(&controller).await, 0);
}

#[test]
fn every_operation_that_changes_something_documents_its_key() {
    for (method, path, operation) in operations(&document()) {
        let named = operation["parameters"].as_array().is_some_and(|all| {
            all.iter().any(|one| one["in"] == "header" && one["name"] == "Idempotency-Key")
        });
        // A key belongs to a credential, so an operation without one has no key.
        let guarded = needs_key(&operation);
        let changes = guarded && method != Method::GET;
        assert_eq!(named, changes, "{method} {path}");
        assert!(!changes || operation["responses"]["422"].is_object(), "{method} {path}");
    }
}
