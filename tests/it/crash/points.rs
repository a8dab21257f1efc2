//! Is a controller killed at any point of a change followed by one that finishes or undoes it? (threats.md T18)

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::remains::Remains;
use crate::harness::controller::{RunningController, no_computers_here};

/// Rounds of a create; of each other change.
const CREATES: u64 = 12;
const OTHERS: u64 = 5;
/// Within this a change is begun, and mostly done, on an idle machine; a create waits for a desktop besides.
const WINDOW_MS: u64 = 300;
const CREATE_WINDOW_MS: u64 = 1200;
/// Until every computer is at rest after a start: a boot on a busy machine.
const REST_PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request, kills the controller after a while and starts it again; the answer's status, if one came.
async fn killed_during(
    house: &mut RunningController,
    request: reqwest::RequestBuilder,
    after: Duration,
) -> Option<u16> {
    let sent = tokio::time::timeout(after, request.send()).await;
    // An answer that came early still leaves the work behind it (stop and start answer first).
    if sent.is_ok() {
        tokio::time::sleep(after / 2).await;
    }
    house.kill();
    sent.ok().and_then(|answer| answer.ok()).map(|answer| answer.status().as_u16())
}

/// Every computer, once all are at rest.
async fn at_rest(house: &RunningController) -> Vec<Value> {
    let rested = wait::until(REST_PATIENCE, || async {
        let listed = house.get("/computers").await.body["computers"].as_array().expect("a list").clone();
        let resting = |computer: &Value| {
            ["running", "stopped", "error"].contains(&computer["status"].as_str().unwrap_or_default())
        };
        listed.iter().all(resting).then_some(listed)
    });
    match rested.await {
        Some(listed) => listed,
        None => panic!("not at rest: {}", house.get("/computers").await.body),
    }
}

fn ids(computers: &[Value]) -> Vec<String> {
    computers.iter().map(|computer| computer["id"].as_str().expect("an id").to_owned()).collect()
}

/// Points in time, spread over the window and different in every run.
fn moment(round: u64, rounds: u64, window_ms: u64) -> Duration {
    let slice = window_ms / rounds;
    Duration::from_millis(slice * round + rand::random::<u64>() % slice.max(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_create_killed_at_any_point_leaves_a_running_computer_or_nothing() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let mut house = RunningController::boot().await;
    let workspace = house.workspace("w").await;
    let remains = Remains::of(&house);
    let mut told = Vec::new();
    for round in 0..CREATES {
        let after = moment(round, CREATES, CREATE_WINDOW_MS);
        let body = json!({"workspace_id": workspace, "name": "desk"});
        let request = house.request(Method::POST, "/computers").json(&body);
        let status = killed_during(&mut house, request, after).await;
        remains.look();
        house.start_again().await;
        let listed = at_rest(&house).await;
        told.push(format!("{} ms: {status:?} -> {}", after.as_millis(), listed.len()));
        // Nobody was told of it: undone. Somebody was: there, and running.
        assert!(listed.iter().all(|computer| computer["status"] == "running"), "{listed:?}");
        assert!(status != Some(201) || listed.len() == 1, "{told:?}");
        remains.are_those_of(&ids(&listed)).await;
        for id in ids(&listed) {
            assert_eq!(house.bash(&id, "echo hi").await, "hi\n");
            assert_eq!(house.delete(&format!("/computers/{id}")).await.status, 200);
        }
    }
    println!("killed during create at {told:?}");
    // The name is free.
    let made = house.computer(&workspace, "desk").await;
    remains.are_those_of(&[made["id"].as_str().expect("an id").to_owned()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_delete_killed_at_any_point_is_finished() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let mut house = RunningController::boot().await;
    let workspace = house.workspace("w").await;
    let remains = Remains::of(&house);
    for round in 0..OTHERS {
        let id = house.computer(&workspace, "desk").await["id"].as_str().expect("an id").to_owned();
        remains.look();
        let request = house.request(Method::DELETE, &format!("/computers/{id}"));
        let after = moment(round, OTHERS, WINDOW_MS);
        let status = killed_during(&mut house, request, after).await;
        house.start_again().await;
        let listed = at_rest(&house).await;
        println!("delete killed after {after:?}: {status:?} -> {} left", listed.len());
        assert!(status != Some(200) || listed.is_empty(), "told to be gone: {listed:?}");
        remains.are_those_of(&ids(&listed)).await;
        for id in ids(&listed) {
            // Not begun: as it was.
            assert_eq!(house.bash(&id, "echo hi").await, "hi\n");
            assert_eq!(house.delete(&format!("/computers/{id}")).await.status, 200);
        }
    }
    remains.are_those_of(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_stop_start_or_restart_killed_at_any_point_ends_in_a_state_that_works() {
    let Some((mut house, _, id)) = RunningController::with_a_computer().await else { return };
    let remains = Remains::of(&house);
    house.bash(&id, "echo kept > /root/kept; sync").await;
    for round in 0..OTHERS {
        for (command, from, goal) in [
            ("stop", "running", "stopped"),
            ("start", "stopped", "running"),
            ("restart", "running", "running"),
        ] {
            let path = |command: &str| format!("/computers/{id}/{command}");
            if house.get(&format!("/computers/{id}")).await.body["status"] != from {
                assert_eq!(
                    house
                        .post(&path(if from == "running" { "start" } else { "stop" }), json!({}))
                        .await
                        .status,
                    200
                );
                house.until_status(&id, from).await;
            }
            let request = house.request(Method::POST, &path(command)).json(&json!({}));
            let after = moment(round, OTHERS, WINDOW_MS);
            let status = killed_during(&mut house, request, after).await;
            remains.look();
            house.start_again().await;
            let listed = at_rest(&house).await;
            let name = format!("{command} killed after {after:?}: {status:?} -> {}", listed[0]["status"]);
            println!("{name}");
            // Begun is finished; not begun is as it was. Told is done.
            assert!(listed[0]["status"] == goal || status.is_none() && listed[0]["status"] == from, "{name}");
            if listed[0]["status"] == "running" {
                assert_eq!(house.bash(&id, "cat /root/kept").await, "kept\n", "{name}");
                remains.are_those_of(std::slice::from_ref(&id)).await;
            }
        }
    }
    assert_eq!(house.delete(&format!("/computers/{id}")).await.status, 200);
    remains.are_those_of(&[]).await;
}
