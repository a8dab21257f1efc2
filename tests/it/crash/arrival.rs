//! Is a computer reached only once it is stored that it runs? Else what is acknowledged of a boot would be lost with the
//! controller, whose next life makes another boot of it. (threats.md T18)

use std::time::Duration;

use axum::routing::put;
use axum::{Json, Router};
use hotdesk::engine::simulated::Verb;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use tokio::sync::watch;

use crate::harness::agent::answered;
use crate::harness::simulation::Simulation;
use crate::harness::underway::begin;

/// The store takes no computer that runs, as one whose disk is full would.
const FULL: &str = "CREATE TRIGGER full BEFORE UPDATE OF status ON computers WHEN NEW.status = 'running' \
                    BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
/// Longer than an answer takes that nothing holds up.
const A_WHILE: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_a_boot_acknowledges_is_not_followed_by_another_boot() {
    let (open, gate) = watch::channel(false);
    // A guest that takes its files when the test says so.
    let take = move || {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.expect("the test opens it");
            Json(json!({"path": "/root/Desktop/a.txt", "outcome": "created"}))
        }
    };
    let mut house = Simulation::boot_with(Router::new().route("/files/desktop/{name}", put(take))).await;
    let workspace = house.workspace("w").await;
    let id = house.computer(&workspace, "desk").await;
    assert_eq!(house.post(&format!("/computers/{id}/stop"), json!({})).await.status, 200);
    house.until_status(&id, "stopped").await;
    let form = Form::new().text("projectId", workspace).part("file", Part::text("hi").file_name("a.txt"));
    assert_eq!(answered(house.request(Method::POST, "/files/upload").multipart(form)).await.status, 200);

    let start = begin(house.request(Method::POST, &format!("/computers/{id}/start")).json(&json!({})));
    house.until_status(&id, "starting").await;
    let bash = |patience| {
        let request = house.request(Method::POST, &format!("/computers/{id}/bash"));
        request.json(&json!({"command": "true"})).timeout(patience).send()
    };
    let early = bash(A_WHILE).await;
    assert!(early.is_err_and(|error| error.is_timeout()), "nobody acts before the boot is stored");
    assert_eq!(house.status(&id).await, "starting", "its files are not there yet");
    open.send(true).expect("the guest waits");
    assert_eq!(bash(Duration::from_secs(10)).await.expect("an answer").status(), 200);

    house.kill().await;
    house.until_status(&id, "running").await;
    assert_eq!(house.post(&format!("/computers/{id}/bash"), json!({"command": "true"})).await.status, 200);
    assert_eq!(house.engine.calls(Verb::Start), 0, "it runs on");
    start.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_boot_that_could_not_be_stored_is_stored_once_it_can_be() {
    let house = Simulation::boot().await;
    let workspace = house.workspace("w").await;
    let id = house.computer(&workspace, "desk").await;
    assert_eq!(house.post(&format!("/computers/{id}/stop"), json!({})).await.status, 200);
    house.until_status(&id, "stopped").await;
    house.sql(FULL).await;
    let start = begin(house.request(Method::POST, &format!("/computers/{id}/start")).json(&json!({})));
    house.until_status(&id, "starting").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(house.status(&id).await, "starting");
    house.sql("DROP TRIGGER full").await;
    house.until_status(&id, "running").await;
    assert_eq!(house.post(&format!("/computers/{id}/bash"), json!({"command": "true"})).await.status, 200);
    assert_eq!(house.engine.calls(Verb::Start), 2, "it was booted once for its start");
    start.abort();
}
