//! Long-running requests of a person who loses access: they end, like those of a deleted key. A11
//! (docs/authentication-rules.md).

use std::sync::Arc;
use std::time::Instant;

use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::members::add_member;
use crate::harness::agent::fetch_json;
use crate::harness::long_requests::{REVOCATION_TIMEOUT, Streams, hanging_agent, until};
use crate::harness::simulation::Simulation;

/// Waits until all streams have ended with 403.
async fn end(streams: Streams) {
    let began = Instant::now();
    let answers =
        tokio::time::timeout(REVOCATION_TIMEOUT, streams.end()).await.expect("every stream has ended");
    println!("every stream had ended after {:?}", began.elapsed());
    for answer in answers {
        assert_eq!(answer.status(), 403);
    }
}

async fn members(controller: &Simulation, method: Method, home: &str, body: Value) {
    let request = controller.request(method, &format!("/workspaces/{home}/members")).json(&body);
    let done = fetch_json(request).await;
    assert_eq!(done.status, 200, "{}", done.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_removed_member_s_requests_end_and_those_elsewhere_and_of_others_do_not() {
    let started = Arc::default();
    let controller = Simulation::boot_with(hanging_agent(&started)).await;
    let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
    let (desk, elsewhere) =
        (controller.computer(&home, "desk").await, controller.computer(&away, "desk").await);
    let (member, member_id) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    let (other, _) = add_member(&controller, "o@x.example", &home, Some(Role::Member)).await;
    let account = member_id.parse().expect("an id");
    let store = controller.store().await;
    store.set_member(away.parse().expect("an id"), account, Role::Member).await.expect("a member");
    let mut unaffected = [
        Streams::open(&controller, &member.key, &elsewhere).await,
        Streams::open(&controller, &other.key, &desk).await,
        Streams::open(&controller, controller.key(), &desk).await,
    ];
    let streams = Streams::open(&controller, &member.key, &desk).await;
    until(&started, 8).await;

    members(&controller, Method::DELETE, &home, json!({ "memberId": member_id })).await;
    end(streams).await;
    for streams in &mut unaffected {
        streams.flow().await;
    }
    assert_eq!(member.get(&format!("/computers/{desk}")).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_what_goes_on_ends_with_a_demotion_to_viewer_and_not_with_one_to_member() {
    let started = Arc::default();
    let controller = Simulation::boot_with(hanging_agent(&started)).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let (member, member_id) = add_member(&controller, "m@x.example", &home, Some(Role::Admin)).await;
    let mut streams = Streams::open(&controller, &member.key, &desk).await;
    until(&started, 2).await;
    let role = |role: &str| json!({"memberId": member_id, "role": role});
    members(&controller, Method::PATCH, &home, role("member")).await;
    streams.flow().await;
    members(&controller, Method::PATCH, &home, role("viewer")).await;
    end(streams).await;
    // A viewer's own stream continues, also after a repeated change to viewer.
    let events = member.request(Method::GET, &format!("/desktops/{desk}/proxy/events"));
    let mut watched = events.send().await.expect("an answer");
    assert_eq!(watched.status(), 200);
    members(&controller, Method::PATCH, &home, role("viewer")).await;
    for _ in 0..3 {
        assert!(watched.chunk().await.expect("a running stream").is_some());
    }
}
