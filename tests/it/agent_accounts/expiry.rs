//! Removal of expired agent accounts with all their contents, across failures and restarts.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::{Value, json};

use super::{config, create_agent, sign_in};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// An agent's account with a computer and a file; its record and its key.
async fn boot_with_account() -> (Simulation, Value, String) {
    let controller = Simulation::boot_configured(config()).await;
    let (created, key) = create_agent(&controller).await;
    let make = |path: &'static str, body: Value| {
        fetch_json(controller.request_with(&key, Method::POST, path).json(&body))
    };
    let workspace = id_of(&make("/workspaces", json!({"name": "work"})).await.body);
    let computer = make("/computers", json!({"workspace_id": workspace, "name": "desk"})).await;
    assert_eq!(computer.status, 201, "{}", computer.body);
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace)
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    let stored =
        fetch_json(controller.request_with(&key, Method::POST, "/files/upload").multipart(form)).await;
    assert_eq!(stored.status, 200, "{}", stored.body);
    (controller, created, key)
}

/// Lets every agent account expire.
async fn expire(controller: &Simulation) {
    controller.sql("UPDATE agent_accounts SET expires_at = 1").await;
}

/// Whether nothing is left of the account on the host and in the store.
async fn is_removed(controller: &Simulation, created: &Value) -> bool {
    let account = id_of(created).parse().expect("an id");
    let store = controller.store().await;
    controller.machines().is_empty()
        && store.account(account).await.expect("read").is_none()
        && store.file_ids().await.expect("read").is_empty()
}

async fn until_gone(controller: &Simulation, created: &Value) {
    let gone = wait::until(Duration::from_secs(20), || async {
        is_removed(controller, created).await.then_some(())
    });
    assert!(gone.await.is_some(), "contents of the account are left: {:?}", controller.machines());
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_what_nobody_claims_goes_with_all_it_holds() {
    let (mut controller, created, key) = boot_with_account().await;
    controller.restart().await;
    assert_eq!(
        fetch_json(controller.request_with(&key, Method::GET, "/workspaces")).await.status,
        200,
        "the account must not expire yet"
    );
    expire(&controller).await;
    // An expired account cannot be claimed, even before its removal.
    let (person, _) = controller.account("person@example.org").await;
    let cookie = sign_in(&controller, person).await;
    let path =
        created["claim_url"].as_str().expect("a link").split_once("/claim/").expect("a path").1.to_owned();
    let page = controller.bare(Method::GET, &format!("/claim/{path}")).header("cookie", cookie).send().await;
    assert_eq!(page.expect("an answer").status(), 404);
    controller.restart().await;
    until_gone(&controller, &created).await;
    assert_eq!(fetch_json(controller.request_with(&key, Method::GET, "/workspaces")).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_removal_that_is_cut_short_is_gone_on_with() {
    let (mut controller, created, key) = boot_with_account().await;
    let failing_destroy = |call| Fault {
        verb: Verb::Destroy,
        call,
        failure: Failure::Before(EngineError::failed("go", "on purpose")),
    };
    expire(&controller).await;
    controller.end().await;
    // Every attempt of the first round fails: the keys are revoked and the computer still exists.
    controller.begin(&[1, 2, 3].map(failing_destroy)).await;
    let keys_revoked = wait::until(Duration::from_secs(20), || async {
        let attempted = controller.engine.calls(Verb::Destroy) >= 3;
        let refused =
            fetch_json(controller.request_with(&key, Method::GET, "/workspaces")).await.status == 401;
        (attempted && refused).then_some(())
    });
    assert!(keys_revoked.await.is_some(), "the first round must begin");
    assert!(!is_removed(&controller, &created).await);
    // The next round kills the controller in the middle.
    let hanging_destroy = Fault { verb: Verb::Destroy, call: 1, failure: Failure::Never { done: true } };
    controller.end().await;
    controller.begin(&[hanging_destroy]).await;
    let second_round =
        wait::until(Duration::from_secs(20), || async { (controller.engine.stuck() > 0).then_some(()) });
    assert!(second_round.await.is_some(), "the second round must begin");
    controller.kill().await;
    until_gone(&controller, &created).await;
}
