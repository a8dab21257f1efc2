//! Removal of a member during their create request: the response has no password.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::domain::identity::access::Role;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::members::add_member;
use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn who_is_removed_while_a_computer_is_made_hears_that_it_is_made_and_no_password() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let (member, member_id) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    // The creation lasts until its requester is removed.
    let release = CancellationToken::new();
    let failure = Failure::Until(release.clone());
    controller.engine.plan(Fault { verb: Verb::Create, call: 1, failure });
    let ask = || {
        let request = member.request(Method::POST, "/computers").header("Idempotency-Key", "key-number-1");
        fetch_json(request.json(&json!({"workspace_id": home, "name": "desk"})))
    };
    let remove = async {
        let creating = || async { (controller.engine.calls(Verb::Create) == 1).then_some(()) };
        wait::until(TIMEOUT, creating).await.expect("a running creation");
        let path = format!("/workspaces/{home}/members");
        let request = controller.request(Method::DELETE, &path).json(&json!({ "memberId": member_id }));
        let removed = fetch_json(request).await;
        release.cancel();
        removed
    };
    let (created, removed) = tokio::join!(ask(), remove);
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!((created.status, &created.body["status"]), (201, &json!("running")), "{}", created.body);
    assert!(created.body["vnc_password"].is_null(), "the response has the password");
    let id = created.body["id"].as_str().expect("an id");
    assert_eq!(member.get(&format!("/computers/{id}")).await.status, 403);
    // A retry with the same key gets the same response and creates nothing.
    let again = ask().await;
    assert_eq!((again.status, again.body), (201, created.body.clone()));
    assert_eq!(controller.get("/computers").await.body["total"], 1);
}
