//! Retries with an idempotency key after the controller was killed during the first request.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use rand::RngExt;
use reqwest::Method;
use serde_json::json;

use super::{TIMEOUT, send};
use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;
use crate::harness::simulation::Simulation;

/// Number of kills of a real controller.
const ROUNDS: u32 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_broken_off_is_told_as_unknown_and_never_begun_again() {
    for done in [false, true] {
        let mut controller = Simulation::boot().await;
        let workspace = controller.workspace("w").await;
        controller.engine.plan(Fault { verb: Verb::Create, call: 1, failure: Failure::Never { done } });
        let body = json!({"workspace_id": workspace, "name": "desk"});
        let endless = send(&controller, "/computers", "key-number-1", &body);
        let stuck = wait::until(TIMEOUT, || async { (controller.engine.stuck() == 1).then_some(()) });
        tokio::select! {
            ended = endless => panic!("the creation must not end: {}", ended.body),
            stuck = stuck => stuck.expect("a running creation"),
        }
        let in_progress = wait::until(TIMEOUT, || async {
            let meanwhile = send(&controller, "/computers", "key-number-1", &body).await;
            (meanwhile.body["code"] == "idempotency_in_progress").then_some(())
        });
        assert!(in_progress.await.is_some(), "the first request must be in progress");
        controller.kill().await;
        for _ in 0..2 {
            let unknown = send(&controller, "/computers", "key-number-1", &body).await;
            assert_eq!(
                (unknown.status, &unknown.body["code"]),
                (409, &json!("outcome_unknown")),
                "{}",
                unknown.body
            );
        }
        let other =
            send(&controller, "/computers", "key-number-1", &json!({"workspace_id": workspace})).await;
        assert_eq!(other.body["code"], "idempotency_key_reused");
        // No client got the computer, so it is removed. The client may retry under another key.
        let none = wait::until(TIMEOUT, || async {
            (controller.get("/computers").await.body["total"] == 0 && controller.machines().is_empty())
                .then_some(())
        });
        assert!(none.await.is_some(), "the unfinished computer must be removed");
        assert_eq!(send(&controller, "/computers", "key-number-2", &body).await.status, 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_a_request_is_carried_out_at_most_once() {
    let mut controller = RunningController::boot().await;
    let (mut answers, mut unknown) = (0, 0);
    for round in 0..ROUNDS {
        let body = json!({"name": format!("w{round}")});
        let request_workspace = |controller: &RunningController| {
            controller
                .request(Method::POST, "/workspaces")
                .header("Idempotency-Key", format!("key-number-{round}"))
                .json(&body)
        };
        let sending = request_workspace(&controller).send();
        let (first, ()) = tokio::join!(sending, async {
            // The kill may hit any moment between the record of the request and its response, which takes a
            // few milliseconds.
            tokio::time::sleep(Duration::from_micros(rand::rng().random_range(0..12_000))).await;
            controller.kill();
        });
        controller.start_again().await;
        let again = fetch_json(request_workspace(&controller)).await;
        let listed = controller.get("/workspaces").await;
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
        // A retry must get the response that the client has already seen.
        if let Ok(first) = first
            && let Ok(seen) = first.json::<serde_json::Value>().await
        {
            assert_eq!(seen, again.body, "round {round}");
            answers += 1;
        }
    }
    println!("{ROUNDS} kills: {answers} after the answer, {unknown} with an unknown outcome");
}
