//! What does a retry hear when the controller was killed while it carried the first request out?

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use rand::RngExt;
use reqwest::Method;
use serde_json::json;

use super::{TIMEOUT, send};
use crate::harness::agent::answered;
use crate::harness::controller::RunningController;
use crate::harness::simulation::Simulation;

/// How often a real controller is killed.
const ROUNDS: u32 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_broken_off_is_told_as_unknown_and_never_begun_again() {
    for done in [false, true] {
        let mut house = Simulation::boot().await;
        let workspace = house.workspace("w").await;
        house.engine.plan(Fault { verb: Verb::Create, call: 1, failure: Failure::Never { done } });
        let body = json!({"workspace_id": workspace, "name": "desk"});
        let endless = send(&house, "/computers", "key-number-1", &body);
        let stuck = wait::until(TIMEOUT, || async { (house.engine.stuck() == 1).then_some(()) });
        tokio::select! {
            ended = endless => panic!("it has an end: {}", ended.body),
            stuck = stuck => stuck.expect("it is being made"),
        }
        let begun = wait::until(TIMEOUT, || async {
            let meanwhile = send(&house, "/computers", "key-number-1", &body).await;
            (meanwhile.body["code"] == "idempotency_in_progress").then_some(())
        });
        assert!(begun.await.is_some(), "it is being carried out");
        house.kill().await;
        for _ in 0..2 {
            let unknown = send(&house, "/computers", "key-number-1", &body).await;
            assert_eq!(
                (unknown.status, &unknown.body["code"]),
                (409, &json!("outcome_unknown")),
                "{}",
                unknown.body
            );
        }
        let other = send(&house, "/computers", "key-number-1", &json!({"workspace_id": workspace})).await;
        assert_eq!(other.body["code"], "idempotency_key_reused");
        // Nobody was told of a computer, so there is none; whoever looked may ask again under another key.
        let none = wait::until(TIMEOUT, || async {
            (house.get("/computers").await.body["total"] == 0 && house.machines().is_empty()).then_some(())
        });
        assert!(none.await.is_some(), "half a computer is undone");
        assert_eq!(send(&house, "/computers", "key-number-2", &body).await.status, 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_a_request_is_carried_out_at_most_once() {
    let mut house = RunningController::boot().await;
    let (mut answers, mut unknown) = (0, 0);
    for round in 0..ROUNDS {
        let body = json!({"name": format!("w{round}")});
        let ask = |house: &RunningController| {
            let request = house
                .request(Method::POST, "/workspaces")
                .header("Idempotency-Key", format!("key-number-{round}"));
            request.json(&body)
        };
        let sending = ask(&house).send();
        let (first, ()) = tokio::join!(sending, async {
            // From before it is noted to after it is answered: all of it takes a few milliseconds.
            tokio::time::sleep(Duration::from_micros(rand::rng().random_range(0..12_000))).await;
            house.kill();
        });
        house.start_again().await;
        let again = answered(ask(&house)).await;
        let listed = house.get("/workspaces").await;
        let named = listed.body["workspaces"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|one| one["name"] == body["name"]);
        let ids: Vec<_> = named.map(|one| one["id"].clone()).collect();
        assert!(ids.len() <= 1, "round {round}: {ids:?}");
        match again.status {
            201 => assert_eq!(ids, [again.body["id"].clone()], "round {round}"),
            _ => {
                assert_eq!(
                    (again.status, &again.body["code"]),
                    (409, &json!("outcome_unknown")),
                    "{}",
                    again.body
                );
                unknown += 1;
            }
        }
        // What a client was told is told again.
        if let Ok(first) = first
            && let Ok(told) = first.json::<serde_json::Value>().await
        {
            assert_eq!(told, again.body, "round {round}");
            answers += 1;
        }
    }
    println!("{ROUNDS} kills: {answers} after the answer, {unknown} with an unknown outcome");
}
