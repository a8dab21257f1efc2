//! Does an account that nobody claims go, with all that it holds, whatever comes in between?

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::{Value, json};

use super::{agent, browser, config};
use crate::harness::agent::answered;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// An agent with a computer and a file; its record and its key.
async fn scene() -> (Simulation, Value, String) {
    let house = Simulation::boot_configured(config()).await;
    let (made, key) = agent(&house).await;
    let make =
        |path: &'static str, body: Value| answered(house.request_with(&key, Method::POST, path).json(&body));
    let workspace = id_of(&make("/workspaces", json!({"name": "work"})).await.body);
    let desk = make("/computers", json!({"workspace_id": workspace, "name": "desk"})).await;
    assert_eq!(desk.status, 201, "{}", desk.body);
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace)
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    let stored = answered(house.request_with(&key, Method::POST, "/files/upload").multipart(form)).await;
    assert_eq!(stored.status, 200, "{}", stored.body);
    (house, made, key)
}

/// Its time is over.
async fn expire(house: &Simulation) {
    house.sql("UPDATE agent_accounts SET expires_at = 1").await;
}

/// Whether nothing is left of the account, on the host and in the store.
async fn nothing_left(house: &Simulation, made: &Value) -> bool {
    let account = id_of(made).parse().expect("an id");
    let store = house.store().await;
    house.machines().is_empty()
        && store.account(account).await.expect("read").is_none()
        && store.file_ids().await.expect("read").is_empty()
}

async fn until_gone(house: &Simulation, made: &Value) {
    let gone =
        wait::until(Duration::from_secs(20), || async { nothing_left(house, made).await.then_some(()) });
    assert!(gone.await.is_some(), "something is left: {:?}", house.machines());
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_what_nobody_claims_goes_with_all_it_holds() {
    let (mut house, made, key) = scene().await;
    house.restart().await;
    assert_eq!(
        answered(house.request_with(&key, Method::GET, "/workspaces")).await.status,
        200,
        "it has time"
    );
    expire(&house).await;
    // From that moment nobody can claim it, whether it was removed yet or not.
    let (person, _) = house.account("person@example.org").await;
    let cookie = browser(&house, person).await;
    let path =
        made["claim_url"].as_str().expect("a link").split_once("/claim/").expect("a path").1.to_owned();
    let page = house.bare(Method::GET, &format!("/claim/{path}")).header("cookie", cookie).send().await;
    assert_eq!(page.expect("an answer").status(), 404);
    house.restart().await;
    until_gone(&house, &made).await;
    assert_eq!(answered(house.request_with(&key, Method::GET, "/workspaces")).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_removal_that_is_cut_short_is_gone_on_with() {
    let (mut house, made, key) = scene().await;
    let broken = |call| Fault {
        verb: Verb::Destroy,
        call,
        failure: Failure::Before(EngineError::failed("go", "on purpose")),
    };
    expire(&house).await;
    house.end().await;
    // Every try of the first round fails: keys are dead, the computer is there.
    house.begin(&[1, 2, 3].map(broken)).await;
    let dead = wait::until(Duration::from_secs(20), || async {
        let tried = house.engine.calls(Verb::Destroy) >= 3;
        let refused = answered(house.request_with(&key, Method::GET, "/workspaces")).await.status == 401;
        (tried && refused).then_some(())
    });
    assert!(dead.await.is_some(), "the first round did not come");
    assert!(!nothing_left(&house, &made).await);
    // And the controller is killed in the middle of the next one.
    let never = Fault { verb: Verb::Destroy, call: 1, failure: Failure::Never { done: true } };
    house.end().await;
    house.begin(&[never]).await;
    let stuck = wait::until(Duration::from_secs(20), || async { (house.engine.stuck() > 0).then_some(()) });
    assert!(stuck.await.is_some(), "the second round did not come");
    house.kill().await;
    until_gone(&house, &made).await;
}
