//! Is a request with an `Idempotency-Key` carried out at most once by the controller, whatever becomes of its client and of the
//! controller? (threats.md, consequence 6)

mod crash;
mod hang_ups;
mod large;
mod room;

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use futures_util::future::join_all;
use hotdesk::base::wait;
use hotdesk::controller::auth::keys;
use hotdesk::controller::config::Limits;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::store::accounts::NewKey;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::simulation::Simulation;
use crate::openapi::{document, operations};

/// How long what is awaited may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(40);
/// How long a machine is made that somebody asks about meanwhile: longer than a busy machine needs for the question.
const SLOW: Duration = Duration::from_secs(10);

async fn send(house: &Simulation, path: &str, key: &str, body: &Value) -> Answered {
    answered(keyed(house, Method::POST, path, key).json(body)).await
}

fn keyed(house: &Simulation, method: Method, path: &str, key: &str) -> RequestBuilder {
    house.request(method, path).header("Idempotency-Key", key)
}

/// How many keys the store remembers.
async fn remembered(house: &Simulation) -> i64 {
    let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM idempotent_requests")
        .fetch_one(&store(house).await)
        .await
        .expect("a count");
    count
}

/// The store's file, for what its own interface does not do.
async fn store(house: &Simulation) -> sqlx::AnyPool {
    sqlx::any::install_default_drivers();
    sqlx::AnyPool::connect(&format!("sqlite://{}", house.store_file().display())).await.expect("the store")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_sent_again_is_answered_and_not_repeated() {
    let house = Simulation::boot().await;
    let body = json!({"name": "w"});
    let first = send(&house, "/workspaces", "key-number-1", &body).await;
    assert_eq!(first.status, 201, "{}", first.body);
    // The other name of a path is the same path.
    for path in ["/workspaces", "/projects"] {
        let again =
            keyed(&house, Method::POST, path, "key-number-1").json(&body).send().await.expect("an answer");
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
        let reused = answered(keyed(&house, method.clone(), &path, "key-number-1").json(&other)).await;
        assert_eq!(
            (reused.status, &reused.body["code"]),
            (422, &json!("idempotency_key_reused")),
            "{method} {path}"
        );
    }
    for bad in ["short", "with a space", &"x".repeat(256)] {
        assert_eq!(send(&house, "/workspaces", bad, &body).await.status, 400, "{bad:?}");
    }
    let twice =
        keyed(&house, Method::POST, "/workspaces", "key-number-2").header("Idempotency-Key", "key-number-3");
    assert_eq!(answered(twice.json(&json!({"name": "x"}))).await.status, 400);
    let all = house.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len);
    assert_eq!(all, Some(1));
    // Who is nobody is told that, and a request that changes nothing needs no key.
    let nobody =
        house.bare(Method::POST, "/api/workspaces").header("Idempotency-Key", "key-number-1").json(&body);
    assert_eq!(answered(nobody).await.status, 401);
    assert_eq!(answered(keyed(&house, Method::GET, "/workspaces", "key-number-1")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_belong_to_the_credential_that_they_came_with() {
    let house = Simulation::boot().await;
    let first = send(&house, "/workspaces", "key-number-1", &json!({"name": "w"})).await;
    let store = house.store().await;
    let (text, account) = (keys::fresh(), store.operator().await.expect("the operator"));
    let (digest, workspace) =
        (keys::digest(text.reveal()), first.body["id"].as_str().expect("an id").parse().ok());
    let key =
        NewKey { account, workspace, name: "scoped", digest: &digest, last_four: keys::last_four(&text) };
    store.add_key(&key).await.expect("a second key");
    let other = house
        .request_with(text.reveal(), Method::POST, "/workspaces")
        .header("Idempotency-Key", "key-number-1");
    let other = answered(other.json(&json!({"name": "w"}))).await;
    assert_eq!(
        (other.status, &other.body["code"]),
        (403, &json!("workspace_scope_mismatch")),
        "{}",
        other.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_is_carried_out() {
    let house = Simulation::boot().await;
    let body = json!({"name": "w"});
    let answers = join_all((0..50).map(|_| send(&house, "/workspaces", "key-number-1", &body))).await;
    let made: Vec<&Answered> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert!(!made.is_empty() && made.iter().all(|answer| answer.body == made[0].body));
    for waiting in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(
            (waiting.status, &waiting.body["code"]),
            (409, &json!("idempotency_in_progress")),
            "{}",
            waiting.body
        );
        assert_eq!(waiting.body["retry_after"], 1);
    }
    assert_eq!(house.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_may_be_asked_again_and_what_failed_is_told_again() {
    let house = Simulation::boot_limited(Limits { max_computers: 1, ..Limits::default() }).await;
    let workspace = house.workspace("w").await;
    let first = house.computer(&workspace, "first").await;
    let body = json!({"workspace_id": workspace, "name": "second"});
    assert_eq!(send(&house, "/computers", "key-number-1", &body).await.status, 403);
    assert_eq!(remembered(&house).await, 0);
    assert_eq!(house.delete(&format!("/computers/{first}")).await.status, 200);
    assert_eq!(send(&house, "/computers", "key-number-1", &body).await.status, 201);
    // A mistake stays one, with the id of the request that made it.
    let mistaken = json!({"workspace_id": workspace, "name": "third", "cpu": 3});
    let refused = send(&house, "/computers", "key-number-2", &mistaken).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let again = send(&house, "/computers", "key-number-2", &mistaken).await;
    assert_eq!((again.status, again.body), (400, refused.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_kept() {
    let house = Simulation::boot().await;
    let workspace = house.workspace("w").await;
    let computer = house.computer(&workspace, "desk").await;
    let path = format!("/computers/{computer}/stream-tickets");
    let ticket = send(&house, &path, "key-number-1", &json!({"mode": "view"})).await;
    assert_eq!(ticket.status, 201, "{}", ticket.body);
    let again = send(&house, &path, "key-number-1", &json!({"mode": "view"})).await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("answer_not_kept")), "{}", again.body);
    assert_eq!(again.body["status"], 201);
    let text = ticket.body["ticket"].as_str().expect("a ticket");
    let kept = std::fs::read(house.store_file()).expect("the store");
    let log = std::fs::read(house.store_file().with_extension("db-wal")).unwrap_or_default();
    for bytes in [kept, log] {
        assert!(
            !bytes.windows(text.len()).any(|window| window == text.as_bytes()),
            "the store holds the ticket"
        );
        assert!(!bytes.windows(12).any(|window| window == b"key-number-1"), "the store holds the key");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_finds_its_answer_later() {
    let house = Simulation::boot().await;
    let workspace = house.workspace("w").await;
    let slow = Fault { verb: Verb::Create, call: 1, failure: Failure::Delay(SLOW) };
    house.engine.plan(slow);
    let body = json!({"workspace_id": workspace, "name": "desk"});
    let impatient = send(&house, "/computers", "key-number-1", &body);
    let begun = wait::until(TIMEOUT, || async { (house.engine.calls(Verb::Create) == 1).then_some(()) });
    tokio::select! {
        early = impatient => panic!("it did not wait: {}", early.body),
        begun = begun => begun.expect("it is being made"),
    }
    let meanwhile = send(&house, "/computers", "key-number-1", &body).await;
    assert_eq!((meanwhile.status, &meanwhile.body["code"]), (409, &json!("idempotency_in_progress")));
    let found = wait::until(TIMEOUT, || async {
        Some(send(&house, "/computers", "key-number-1", &body).await).filter(|again| again.status == 201)
    });
    let found = found.await.expect("its answer");
    let listed = house.get("/computers").await;
    assert_eq!((&listed.body["total"], &listed.body["computers"][0]["id"]), (&json!(1), &found.body["id"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_outlive_the_controller_and_end_after_a_day() {
    let mut house = Simulation::boot().await;
    let body = json!({"name": "w"});
    let first = send(&house, "/workspaces", "key-number-1", &body).await;
    house.restart().await;
    let again = send(&house, "/workspaces", "key-number-1", &body).await;
    assert_eq!((again.status, again.body), (201, first.body));
    let aged = sqlx::query("UPDATE idempotent_requests SET created_at = created_at - 24 * 3600000");
    aged.execute(&store(&house).await).await.expect("they age");
    // It is a new request, and there is such a workspace.
    let late = send(&house, "/workspaces", "key-number-1", &body).await;
    assert!(
        (400..500).contains(&late.status) && late.body["code"] != "idempotency_key_reused",
        "{}",
        late.body
    );
    let aged = sqlx::query("UPDATE idempotent_requests SET created_at = created_at - 24 * 3600000");
    aged.execute(&store(&house).await).await.expect("they age");
    house.restart().await;
    let swept = wait::until(TIMEOUT, || async { (remembered(&house).await == 0).then_some(()) });
    assert!(swept.await.is_some(), "old keys are swept");
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
    let house = Simulation::boot_with(Router::new().route("/click", echo)).await;
    let workspace = house.workspace("w").await;
    let computer = house.computer(&workspace, "desk").await;
    for path in [format!("/computers/{computer}/click"), format!("/desktops/{computer}/proxy/click")] {
        let clicked = send(&house, &path, "key-number-1", &json!({"x": 1, "y": 1})).await;
        assert_eq!(clicked.body["details"]["key"], "key-number-1", "{path}: {}", clicked.body);
    }
    assert_eq!(remembered(&house).await, 0);
}

#[test]
fn every_operation_that_changes_something_documents_its_key() {
    for (method, path, said) in operations(&document()) {
        let named = said["parameters"].as_array().is_some_and(|all| {
            all.iter().any(|one| one["in"] == "header" && one["name"] == "Idempotency-Key")
        });
        // A key is its caller's: what needs nobody has none.
        let guarded = said["security"].is_array();
        let changes = guarded && method != Method::GET;
        assert_eq!(named, changes, "{method} {path}");
        assert!(!changes || said["responses"]["422"].is_object(), "{method} {path}");
    }
}
