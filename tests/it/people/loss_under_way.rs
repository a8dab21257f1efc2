//! Does what somebody has under way at a computer end when they lose it, as it does for a key that is deleted, and nothing else?
//! (access.md A11)

use std::sync::Arc;
use std::time::Instant;

use hotdesk::domain::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::members::somebody;
use crate::harness::agent::answered;
use crate::harness::simulation::Simulation;
use crate::harness::underway::{SOON, Streams, patient_agent, until};

/// Waits until all of them have ended, because their sender does not belong there any more.
async fn end(streams: Streams) {
    let began = Instant::now();
    let answers = tokio::time::timeout(SOON, streams.end()).await.expect("every stream has ended");
    println!("every stream had ended after {:?}", began.elapsed());
    for answer in answers {
        assert_eq!(answer.status(), 403);
    }
}

async fn members(house: &Simulation, method: Method, home: &str, body: Value) {
    let asked = house.request(method, &format!("/workspaces/{home}/members")).json(&body);
    let done = answered(asked).await;
    assert_eq!(done.status, 200, "{}", done.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_removed_member_s_requests_end_and_those_elsewhere_and_of_others_do_not() {
    let begun = Arc::default();
    let house = Simulation::boot_with(patient_agent(&begun)).await;
    let (home, away) = (house.workspace("home").await, house.workspace("away").await);
    let (desk, elsewhere) = (house.computer(&home, "desk").await, house.computer(&away, "desk").await);
    let (member, member_id) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    let (other, _) = somebody(&house, "o@x.example", &home, Some(Role::Member)).await;
    let account = member_id.parse().expect("an id");
    let store = house.store().await;
    store.set_member(away.parse().expect("an id"), account, Role::Member).await.expect("a member");
    let mut going_on = [
        Streams::open(&house, &member.key, &elsewhere).await,
        Streams::open(&house, &other.key, &desk).await,
        Streams::open(&house, house.key(), &desk).await,
    ];
    let streams = Streams::open(&house, &member.key, &desk).await;
    until(&begun, 8).await;

    members(&house, Method::DELETE, &home, json!({ "memberId": member_id })).await;
    end(streams).await;
    for streams in &mut going_on {
        streams.flow().await;
    }
    assert_eq!(member.get(&format!("/computers/{desk}")).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_what_goes_on_ends_with_a_demotion_to_viewer_and_not_with_one_to_member() {
    let begun = Arc::default();
    let house = Simulation::boot_with(patient_agent(&begun)).await;
    let home = house.workspace("home").await;
    let desk = house.computer(&home, "desk").await;
    let (member, member_id) = somebody(&house, "m@x.example", &home, Some(Role::Admin)).await;
    let mut streams = Streams::open(&house, &member.key, &desk).await;
    until(&begun, 2).await;
    let role = |role: &str| json!({"memberId": member_id, "role": role});
    members(&house, Method::PATCH, &home, role("member")).await;
    streams.flow().await;
    members(&house, Method::PATCH, &home, role("viewer")).await;
    end(streams).await;
    // What a viewer begins goes on, also when it becomes one once more.
    let events = member.request(Method::GET, &format!("/desktops/{desk}/proxy/events"));
    let mut watched = events.send().await.expect("an answer");
    assert_eq!(watched.status(), 200);
    members(&house, Method::PATCH, &home, role("viewer")).await;
    for _ in 0..3 {
        assert!(watched.chunk().await.expect("it goes on").is_some());
    }
}
