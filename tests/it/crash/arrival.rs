//! Order of a boot: a computer becomes reachable only after the store records that it runs.
//!
//! T18 (docs/security.md). Otherwise a crash would lose what the boot acknowledged, because the next
//! controller would boot the computer again.

use std::time::Duration;

use axum::routing::put;
use axum::{Json, Router};
use hotdesk::engine::simulated::Verb;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use tokio::sync::watch;

use crate::harness::agent::fetch_json;
use crate::harness::long_requests::begin;
use crate::harness::simulation::Simulation;

/// Makes the store refuse running computers, as a store on a full disk would.
const REFUSE_RUNNING: &str = "CREATE TRIGGER full BEFORE UPDATE OF status ON computers WHEN NEW.status = 'running' \
                    BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
/// Longer than an undelayed answer takes.
const BLOCKED_FOR: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_a_boot_acknowledges_is_not_followed_by_another_boot() {
    let (release_sender, release) = watch::channel(false);
    // A guest that accepts its files when the test allows it.
    let receive_file = move || {
        let mut release = release.clone();
        async move {
            release.wait_for(|release_sender| *release_sender).await.expect("the test releases it");
            Json(json!({"path": "/root/Desktop/a.txt", "outcome": "created"}))
        }
    };
    let mut controller =
        Simulation::boot_with(Router::new().route("/files/desktop/{name}", put(receive_file))).await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    assert_eq!(controller.post(&format!("/computers/{id}/stop"), json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    let form = Form::new().text("projectId", workspace).text("desktopId", id.clone());
    let form = form.part("file", Part::text("hi").file_name("a.txt"));
    assert_eq!(
        fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await.status,
        200
    );

    let start = begin(controller.request(Method::POST, &format!("/computers/{id}/start")).json(&json!({})));
    controller.until_status(&id, "starting").await;
    let bash = |timeout| {
        let request = controller.request(Method::POST, &format!("/computers/{id}/bash"));
        request.json(&json!({"command": "true"})).timeout(timeout).send()
    };
    let early = bash(BLOCKED_FOR).await;
    assert!(early.is_err_and(|error| error.is_timeout()), "no action may run before the boot is stored");
    assert_eq!(controller.status(&id).await, "starting", "its files must still be pending");
    release_sender.send(true).expect("the guest waits");
    assert_eq!(bash(Duration::from_secs(10)).await.expect("an answer").status(), 200);

    controller.kill().await;
    controller.until_status(&id, "running").await;
    assert_eq!(
        controller.post(&format!("/computers/{id}/bash"), json!({"command": "true"})).await.status,
        200
    );
    assert_eq!(controller.engine.calls(Verb::Start), 0, "the computer must not be booted again");
    start.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_boot_that_could_not_be_stored_is_stored_once_it_can_be() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    assert_eq!(controller.post(&format!("/computers/{id}/stop"), json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    controller.sql(REFUSE_RUNNING).await;
    let start = begin(controller.request(Method::POST, &format!("/computers/{id}/start")).json(&json!({})));
    controller.until_status(&id, "starting").await;
    tokio::time::sleep(BLOCKED_FOR).await;
    assert_eq!(controller.status(&id).await, "starting");
    controller.sql("DROP TRIGGER full").await;
    controller.until_status(&id, "running").await;
    assert_eq!(
        controller.post(&format!("/computers/{id}/bash"), json!({"command": "true"})).await.status,
        200
    );
    assert_eq!(controller.engine.calls(Verb::Start), 2, "the start must boot it once");
    start.abort();
}
