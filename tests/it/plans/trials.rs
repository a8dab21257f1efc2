//! Does a computer that runs end with its trial, and does it say why? On simulated machines, with trials of a moment.

use std::time::Duration;

use axum::Router;
use futures_util::SinkExt;
use hotdesk::base::clock::now_ms;
use hotdesk::controller::config::{Config, Pace};
use hotdesk::domain::billing::{Change, Payment, Variant};
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Capabilities, EngineError};
use hotdesk::store::billing::Subject;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::say;
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Came, Client};

/// A moment in which a trial can be over.
const MOMENT_MS: i64 = 300;

/// How long an engine looks at a machine where a test needs the time to act meanwhile.
const LONG_LOOK: Duration = Duration::from_secs(10);

/// A house that looks often, over an engine that keeps memory or not.
async fn house(suspend: bool) -> Simulation {
    let pace = Pace { every: Duration::from_millis(50), minute: Duration::from_secs(60) };
    let capabilities = Capabilities { suspend, ..Capabilities::default() };
    Simulation::boot_paced(Router::new(), pace, capabilities).await
}

async fn becomes(house: &Simulation, id: &str, variant: Variant, ends: Option<i64>, device: bool) {
    let subject = Subject::Computer(id.parse().expect("an id"));
    let change = Change::Computer {
        variant: Some(variant),
        payment: Some(Payment::Current),
        trial_ends_at: Some(ends),
        device: Some(device),
    };
    say(house, &Config::default(), subject, change).await;
}

async fn record(house: &Simulation, id: &str) -> Value {
    house.get(&format!("/computers/{id}")).await.body
}

/// A socket for the events of a computer that runs.
async fn listen(house: &Simulation, id: &str) -> Client {
    let told = record(house, id).await;
    let password = told["vnc_password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    let mut client = Client::open(house.address(), &path, &[]).await.expect("the upgrade is accepted");
    client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it listens");
    assert!(matches!(client.next().await, Came::Text(_)));
    client
}

/// How it ends, whatever comes before.
async fn end_of(mut client: Client) -> Came {
    loop {
        match client.next().await {
            Came::Text(_) | Came::Binary(_) => {}
            end @ (Came::Closed(..) | Came::Cut) => return end,
        }
    }
}

async fn ask(house: &Simulation, id: &str, command: &str) -> u16 {
    house.command(format!("/computers/{id}/{command}")).await.status
}

/// What the owner reads of the ends of trials.
async fn ends(house: &Simulation) -> Vec<Value> {
    let log = house.get("/audit?limit=500").await.body;
    let lines = log["entries"].as_array().expect("entries").iter();
    lines.filter(|line| line["action"] == "trial_end").cloned().collect()
}

/// Waits for the line of one that was ended.
async fn until_told(house: &Simulation, id: &str) -> Value {
    // The log is written in the background, which a busy machine delays.
    let found = hotdesk::base::wait::until(Duration::from_secs(30), || async {
        ends(house).await.into_iter().find(|line| line["computer_id"] == id)
    });
    found.await.expect("its end is told")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_ends_suspends_what_runs_and_a_plan_wakes_it_as_it_was() {
    let house = house(true).await;
    let workspace = house.workspace("demo").await;
    let id = house.computer(&workspace, "one").await;
    let over = now_ms() + MOMENT_MS;
    becomes(&house, &id, Variant::Trial, Some(over), false).await;
    house.until_status(&id, "suspended").await;
    assert!(now_ms() >= over, "it was not over yet");
    assert_eq!(record(&house, &id).await["status_reason"], "trial_ended");
    let listed = house.get("/computers").await.body;
    assert_eq!(listed["computers"][0]["status_reason"], "trial_ended");
    let told = until_told(&house, &id).await;
    assert_eq!((&told["result"], &told["workspace_id"]), (&json!("done"), &json!(workspace)));
    assert_eq!(
        (&told["account_id"], &told["method"], &told["status"]),
        (&Value::Null, &json!(""), &Value::Null)
    );
    // A client's own commands are refused as before (interface.md "Suspend", errors).
    for command in ["resume", "start", "click"] {
        assert_eq!(ask(&house, &id, command).await, 402, "{command}");
    }
    becomes(&house, &id, Variant::Included, None, false).await;
    assert_eq!(ask(&house, &id, "resume").await, 200, "its memory is there");
    let woken = record(&house, &id).await;
    assert_eq!((&woken["status"], &woken["status_reason"]), (&json!("running"), &Value::Null));
    // What its person does is no reason of the service's.
    assert_eq!(ask(&house, &id, "stop").await, 200);
    house.until_status(&id, "stopped").await;
    assert_eq!(record(&house, &id).await["status_reason"], Value::Null);
    assert_eq!(ends(&house).await.len(), 1, "it is told once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_ends_stops_what_cannot_be_suspended() {
    let house = house(false).await;
    let id = house.computer(&house.workspace("demo").await, "one").await;
    becomes(&house, &id, Variant::Trial, Some(now_ms() + MOMENT_MS), false).await;
    house.until_status(&id, "stopped").await;
    assert_eq!(record(&house, &id).await["status_reason"], "trial_ended");
    assert_eq!(ask(&house, &id, "start").await, 402);
    until_told(&house, &id).await;
    becomes(&house, &id, Variant::Included, None, false).await;
    assert_eq!(ask(&house, &id, "start").await, 200);
    house.until_status(&id, "running").await;
    assert_eq!(record(&house, &id).await["status_reason"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_ends_with_a_trial_says_why_and_one_that_its_person_ends_does_not() {
    let house = house(true).await;
    let id = house.computer(&house.workspace("demo").await, "one").await;
    let client = listen(&house, &id).await;
    becomes(&house, &id, Variant::Trial, Some(1), false).await;
    assert_eq!(end_of(client).await, Came::Closed(1001, "computer stopping: trial_ended".into()));
    house.until_status(&id, "suspended").await;
    becomes(&house, &id, Variant::Included, None, false).await;
    assert_eq!(ask(&house, &id, "resume").await, 200);
    house.until_status(&id, "running").await;
    let client = listen(&house, &id).await;
    assert_eq!(ask(&house, &id, "stop").await, 200);
    assert_eq!(end_of(client).await, Came::Closed(1001, "computer stopping".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_computer_does_not_keep_it_up_after_its_trial() {
    let house = house(true).await;
    let id = house.computer(&house.workspace("demo").await, "one").await;
    let broken = EngineError::failed("save memory", "on purpose");
    house.engine.plan(Fault { verb: Verb::Suspend, call: 1, failure: Failure::Before(broken) });
    becomes(&house, &id, Variant::Trial, Some(1), false).await;
    house.until_status(&id, "stopped").await;
    assert_eq!(record(&house, &id).await["status_reason"], "trial_ended");
    until_told(&house, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_person_stops_before_the_service_does_is_not_told_as_the_end_of_a_trial() {
    let house = house(true).await;
    let workspace = house.workspace("demo").await;
    let id = house.computer(&workspace, "one").await;
    // Its memory cannot be kept, and before it is stopped instead its person's stop waits: while the runner looks at what has
    // become of it, for which the engine takes its time. The first look was at its boot.
    let broken = EngineError::failed("save memory", "on purpose");
    house.engine.plan(Fault { verb: Verb::Suspend, call: 1, failure: Failure::Before(broken) });
    house.engine.plan(Fault { verb: Verb::Observe, call: 2, failure: Failure::Delay(LONG_LOOK) });
    becomes(&house, &id, Variant::Trial, Some(1), false).await;
    house.until_status(&id, "suspending").await;
    assert_eq!(ask(&house, &id, "stop").await, 200);
    house.until_status(&id, "stopped").await;
    assert_eq!(record(&house, &id).await["status_reason"], Value::Null);
    // A later one's end is told, and by then the first one's would have been.
    let other = house.computer(&workspace, "two").await;
    becomes(&house, &other, Variant::Trial, Some(1), false).await;
    until_told(&house, &other).await;
    let told = ends(&house).await;
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_ended_while_nobody_looked_ends_with_the_next_controller() {
    let mut house = house(true).await;
    let id = house.computer(&house.workspace("demo").await, "one").await;
    house.end().await;
    house.sql("UPDATE computers SET billing = 'trial', trial_ends_at = 1").await;
    house.begin(&[]).await;
    house.until_status(&id, "suspended").await;
    house.restart().await;
    let told = record(&house, &id).await;
    assert_eq!((&told["status"], &told["status_reason"]), (&json!("suspended"), &json!("trial_ended")));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_on_a_trial_that_is_over_ends() {
    let house = house(true).await;
    let workspace = house.workspace("demo").await;
    let mut others = Vec::new();
    for (name, variant, ends, device) in [
        ("included", Variant::Included, Some(1), false),
        ("hourly", Variant::Hourly, Some(1), false),
        ("bought", Variant::Dedicated, Some(1), false),
        ("device", Variant::Trial, Some(1), true),
        ("goes on", Variant::Trial, Some(now_ms() + 3_600_000), false),
        ("without end", Variant::Trial, None, false),
    ] {
        let id = house.computer(&workspace, name).await;
        becomes(&house, &id, variant, ends, device).await;
        others.push((name, id));
    }
    let last = house.computer(&workspace, "over").await;
    becomes(&house, &last, Variant::Trial, Some(1), false).await;
    house.until_status(&last, "suspended").await;
    // A round that saw the last one saw the others too.
    for (name, id) in &others {
        assert_eq!(house.status(id).await, "running", "{name}");
    }
    until_told(&house, &last).await;
    assert_eq!(ends(&house).await.len(), 1);
}
