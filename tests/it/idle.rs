//! Does a computer that nobody uses suspend itself, and only such a one? (interface.md `auto_stop_minutes`) On simulated
//! machines, whose minutes are short.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::routing::get;
use axum::{Json, Router};
use hotdesk::base::wait;
use hotdesk::controller::config::Pace;
use hotdesk::engine::Capabilities;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::{Value, json};

use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// A minute of these tests, long enough for a loaded machine to act in it several times.
const MINUTE: Duration = Duration::from_secs(6);
/// How late a computer may rest on a loaded machine.
const LATE: Duration = Duration::from_secs(30);

/// What the agents of a house say of themselves, and when one last said that something holds it up.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<(Value, Option<Instant>)>>);

impl Told {
    fn is(&self, idle_ms: u64, held_by: Value) {
        self.0.lock().expect("no panic").0 = json!({"idle_ms": idle_ms, "held_by": held_by});
    }

    fn answer(&self) -> Value {
        let mut told = self.0.lock().expect("no panic");
        if told.0["held_by"] != json!([]) {
            told.1 = Some(Instant::now());
        }
        told.0.clone()
    }
}

/// A house whose agents tell that nothing has happened for an hour.
async fn house() -> (Simulation, Told) {
    house_over(Capabilities::default()).await
}

/// As [`house`], over an engine that says that it can do this.
async fn house_over(capabilities: Capabilities) -> (Simulation, Told) {
    let told = Told::default();
    told.is(3_600_000, json!([]));
    let says = told.clone();
    let activity = get(async move || Json(says.answer()));
    let pace = Pace { every: Duration::from_millis(50), minute: MINUTE };
    (Simulation::boot_paced(Router::new().route("/activity", activity), pace, capabilities).await, told)
}

/// A computer that suspends itself after so many minutes.
async fn computer(house: &Simulation, name: &str, minutes: u32) -> String {
    let workspace = house.workspace(name).await;
    let order = json!({"workspace_id": workspace, "name": name, "auto_stop_minutes": minutes});
    id_of(&house.made("/computers", order).await)
}

async fn auto_stop(house: &Simulation, id: &str) -> Value {
    house.get(&format!("/computers/{id}")).await.body["auto_stop"].clone()
}

/// Waits until a record tells something of auto-stop.
async fn until(house: &Simulation, id: &str, what: impl Fn(&Value) -> bool) -> Value {
    let found = wait::until(LATE, || async { Some(auto_stop(house, id).await).filter(&what) });
    match found.await {
        Some(told) => told,
        None => panic!("{}", auto_stop(house, id).await),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_keeps_memory_suspends_what_is_idle() {
    let (house, _told) = house_over(Capabilities { suspend: true, ..Capabilities::default() }).await;
    let id = computer(&house, "idle", 1).await;
    house.until_status(&id, "suspended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_rests_a_while_after_its_last_action_and_no_other_does() {
    let (house, _told) = house().await;
    let always = computer(&house, "always-on", 0).await;
    let id = computer(&house, "idle", 1).await;
    assert_eq!(auto_stop(&house, &always).await, json!({"minutes": 0, "suspends_at": null, "held_by": []}));
    let told = until(&house, &id, |told| told["suspends_at"].is_string()).await;
    assert_eq!((&told["minutes"], &told["held_by"]), (&json!(1), &json!([])));

    let began = Instant::now();
    let mut acted = began;
    while began.elapsed() < 2 * MINUTE {
        acted = Instant::now();
        assert_eq!(house.command(format!("/computers/{id}/click")).await.status, 200);
        tokio::time::sleep(MINUTE / 8).await;
    }
    house.until_status(&id, "stopped").await;
    assert!(acted.elapsed() >= MINUTE, "it rested after {:?}", acted.elapsed());
    assert_eq!(auto_stop(&house, &id).await, json!({"minutes": 1, "suspends_at": null, "held_by": []}));
    assert_eq!(house.status(&always).await, "running");

    // Started again, it is used: a whole minute passes, though its agent says that it was idle before.
    let started = Instant::now();
    assert_eq!(house.command(format!("/computers/{id}/ensure-running")).await.status, 200);
    house.until_status(&id, "stopped").await;
    assert!(started.elapsed() >= MINUTE, "it rested after {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_at_work_keeps_a_computer_up_and_its_end_counts_as_use() {
    let (house, told) = house().await;
    let hold = json!({"kind": "terminal", "detail": "bash runs make"});
    told.is(3_600_000, json!([hold]));
    let id = computer(&house, "busy", 1).await;
    let record = until(&house, &id, |told| told["held_by"] != json!([])).await;
    assert_eq!(record, json!({"minutes": 1, "suspends_at": null, "held_by": [hold]}));
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(house.status(&id).await, "running");
    told.is(3_600_000, json!([]));
    house.until_status(&id, "stopped").await;
    let worked = told.0.lock().expect("no panic").1.expect("it was asked");
    assert!(worked.elapsed() >= MINUTE, "it rested {:?} after the work", worked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn input_in_the_computer_counts_from_when_it_was() {
    let (house, told) = house().await;
    told.is(0, json!([]));
    let id = computer(&house, "used", 1).await;
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(house.status(&id).await, "running");
    told.is(u64::MAX, json!([]));
    house.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_acts_while_rest_waits_for_its_turn_keeps_the_computer_up() {
    let copies = Capabilities { copy_while_running: true, ..Capabilities::default() };
    let (house, _told) = house_over(copies).await;
    let id = computer(&house, "kept", 1).await;
    let (call, stops) = (house.engine.calls(Verb::Snapshot) + 1, house.engine.calls(Verb::Stop));
    house.engine.plan(Fault { verb: Verb::Snapshot, call, failure: Failure::Delay(3 * MINUTE) });
    let path = format!("/computers/{id}/snapshots");
    let snapshot = house.post(&path, json!({}));
    // Rest is asked for in the middle of the snapshot, and its turn comes at the end.
    let acting = async {
        tokio::time::sleep(2 * MINUTE).await;
        let began = Instant::now();
        while began.elapsed() < MINUTE * 3 / 2 {
            assert_eq!(house.command(format!("/computers/{id}/click")).await.status, 200);
            tokio::time::sleep(MINUTE / 8).await;
        }
    };
    let (made, ()) = tokio::join!(snapshot, acting);
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!((house.status(&id).await.as_str(), house.engine.calls(Verb::Stop)), ("running", stops));
    house.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hangs_holds_up_itself_alone() {
    let (house, _told) = house().await;
    let hung = computer(&house, "hung", 1).await;
    // Connections are taken by the kernel, and nobody answers.
    let _silent = house.possess(&hung);
    let fine = computer(&house, "fine", 1).await;
    let began = Instant::now();
    house.until_status(&fine, "stopped").await;
    // A round with the one that hangs lasts three seconds.
    assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
    let told = until(&house, &hung, |told| told["held_by"][0]["kind"] == "unknown").await;
    assert_eq!(told["suspends_at"], Value::Null);
    assert_eq!(house.status(&hung).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_starts_again_counts_anew() {
    let (mut house, _told) = house().await;
    let id = computer(&house, "adopted", 1).await;
    tokio::time::sleep(MINUTE / 2).await;
    let restarted = Instant::now();
    house.restart().await;
    house.until_status(&id, "stopped").await;
    assert!(restarted.elapsed() >= MINUTE, "it rested {:?} after the restart", restarted.elapsed());
}
