//! Retries after the first client hung up at any moment: while the service runs, no outcome is unknown.

use std::time::Duration;

use hotdesk::base::wait;
use rand::RngExt;
use serde_json::json;

use super::{TIMEOUT, send};
use crate::harness::simulation::Simulation;

/// Number of hang-ups.
const ROUNDS: u32 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_before_its_request_is_noted_finds_its_answer() {
    let controller = Simulation::boot().await;
    let body = json!({"name": "w"});
    // A concurrent write transaction blocks the record of the request.
    let turn =
        controller.store_pool().await.begin_with("BEGIN IMMEDIATE").await.expect("a write transaction");
    let waiting = send(&controller, "/workspaces", "key-number-1", &body);
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    turn.rollback().await.expect("a rollback");
    let found = wait::until(TIMEOUT, || async {
        Some(send(&controller, "/workspaces", "key-number-1", &body).await)
            .filter(|again| again.status == 201)
    });
    let found = found.await.expect("the response");
    let listed = controller.get("/workspaces").await.body["workspaces"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["id"], found.body["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_at_any_moment_finds_its_answer() {
    let controller = Simulation::boot().await;
    for round in 0..ROUNDS {
        let (key, body) = (format!("key-number-{round}"), json!({"name": format!("w{round}")}));
        let timeout = Duration::from_micros(rand::rng().random_range(0..6_000));
        // The request may be in time or not.
        let _result = tokio::time::timeout(timeout, send(&controller, "/workspaces", &key, &body)).await;
        let found = wait::until(TIMEOUT, || async {
            let again = send(&controller, "/workspaces", &key, &body).await;
            assert_ne!(again.body["code"], "outcome_unknown", "round {round}");
            (again.status == 201).then_some(())
        });
        assert!(found.await.is_some(), "round {round}");
    }
    let listed = controller.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len);
    assert_eq!(listed, Some(ROUNDS as usize));
}
