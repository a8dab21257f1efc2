//! Does a retry hear the truth wherever its first client hung up? Never an unknown outcome, while the service lives.

use std::time::Duration;

use hotdesk::base::wait;
use rand::RngExt;
use serde_json::json;

use super::{TIMEOUT, send, store};
use crate::harness::simulation::Simulation;

/// How often a client hangs up.
const ROUNDS: u32 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_before_its_request_is_noted_finds_its_answer() {
    let house = Simulation::boot().await;
    let body = json!({"name": "w"});
    // While somebody else writes to the store, nothing can be noted.
    let turn = store(&house).await.begin_with("BEGIN IMMEDIATE").await.expect("the only writer");
    let waiting = send(&house, "/workspaces", "key-number-1", &body);
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    turn.rollback().await.expect("others may write");
    let found = wait::until(TIMEOUT, || async {
        Some(send(&house, "/workspaces", "key-number-1", &body).await).filter(|again| again.status == 201)
    });
    let found = found.await.expect("its answer");
    let listed = house.get("/workspaces").await.body["workspaces"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["id"], found.body["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_at_any_moment_finds_its_answer() {
    let house = Simulation::boot().await;
    for round in 0..ROUNDS {
        let (key, body) = (format!("key-number-{round}"), json!({"name": format!("w{round}")}));
        let patience = Duration::from_micros(rand::rng().random_range(0..6_000));
        // Whether it was in time does not matter.
        let _heard = tokio::time::timeout(patience, send(&house, "/workspaces", &key, &body)).await;
        let found = wait::until(TIMEOUT, || async {
            let again = send(&house, "/workspaces", &key, &body).await;
            assert_ne!(again.body["code"], "outcome_unknown", "round {round}");
            (again.status == 201).then_some(())
        });
        assert!(found.await.is_some(), "round {round}");
    }
    let listed = house.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len);
    assert_eq!(listed, Some(ROUNDS as usize));
}
