//! What is answered to whoever loses a computer while it is made?

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::domain::access::Role;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::json;

use super::members::somebody;
use crate::harness::agent::answered;
use crate::harness::simulation::Simulation;

/// How long a machine is made, in which its maker is removed.
const SLOW: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn who_is_removed_while_a_computer_is_made_hears_that_it_is_made_and_no_password() {
    let house = Simulation::boot().await;
    let home = house.workspace("home").await;
    let (member, member_id) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    house.engine.plan(Fault { verb: Verb::Create, call: 1, failure: Failure::Delay(SLOW) });
    let ask = || {
        let request = member.request(Method::POST, "/computers").header("Idempotency-Key", "key-number-1");
        answered(request.json(&json!({"workspace_id": home, "name": "desk"})))
    };
    let remove = async {
        let under_way = || async { (house.engine.calls(Verb::Create) == 1).then_some(()) };
        wait::until(TIMEOUT, under_way).await.expect("it is being made");
        let path = format!("/workspaces/{home}/members");
        answered(house.request(Method::DELETE, &path).json(&json!({ "memberId": member_id }))).await
    };
    let (made, removed) = tokio::join!(ask(), remove);
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!((made.status, &made.body["status"]), (201, &json!("running")), "{}", made.body);
    assert!(made.body["vnc_password"].is_null(), "its password is told");
    let id = made.body["id"].as_str().expect("an id");
    assert_eq!(member.get(&format!("/computers/{id}")).await.status, 403);
    // It was done: the key stands for that, and nothing is made twice.
    let again = ask().await;
    assert_eq!((again.status, again.body), (201, made.body.clone()));
    assert_eq!(house.get("/computers").await.body["total"], 1);
}
