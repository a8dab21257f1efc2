//! End of a trial while its computer runs, and the reason that clients get. On simulated machines with short
//! trials.

use std::time::Duration;

use axum::Router;
use futures_util::SinkExt;
use hotdesk::base::clock;
use hotdesk::base::time::UnixMillis;
use hotdesk::controller::config::{AutoStopTiming, Config};
use hotdesk::domain::billing::{BillingChange, Payment, Variant};
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Capabilities, EngineError};
use hotdesk::store::billing::payments::BillingSubject;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::change_billing;
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

/// Length of a short trial.
const MOMENT: Duration = Duration::from_millis(300);

/// Delay of an engine's observation, during which a test acts.
const OBSERVE_DELAY: Duration = Duration::from_secs(10);

/// A controller that checks trials often, over an engine that can suspend or not.
async fn boot_controller(suspend: bool) -> Simulation {
    let pace = AutoStopTiming { every: Duration::from_millis(50), minute: Duration::from_secs(60) };
    let capabilities = Capabilities { suspend, ..Capabilities::default() };
    Simulation::boot_with_pace(Router::new(), pace, capabilities).await
}

async fn set_billing(
    controller: &Simulation,
    id: &str,
    variant: Variant,
    trial_ends: Option<UnixMillis>,
    device: bool,
) {
    let subject = BillingSubject::Computer(id.parse().expect("an id"));
    let change = BillingChange::Computer {
        variant: Some(variant),
        payment: Some(Payment::Current),
        trial_ends_at: Some(trial_ends),
        device: Some(device),
    };
    change_billing(controller, &Config::default(), subject, change).await;
}

async fn record(controller: &Simulation, id: &str) -> Value {
    controller.get(&format!("/computers/{id}")).await.body
}

/// A client of the event socket of a running computer.
async fn listen(controller: &Simulation, id: &str) -> Client {
    let record = record(controller, id).await;
    let password = record["vnc_password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    let mut client = Client::open(controller.address(), &path, &[]).await.expect("the upgrade is accepted");
    client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("an open socket");
    assert!(matches!(client.next().await, SocketEvent::Text(_)));
    client
}

/// Reads until the socket ends, and returns how it ended.
async fn end_of(mut client: Client) -> SocketEvent {
    loop {
        match client.next().await {
            SocketEvent::Text(_) | SocketEvent::Binary(_) => {}
            end @ (SocketEvent::Closed(..) | SocketEvent::Cut) => return end,
        }
    }
}

async fn ask(controller: &Simulation, id: &str, command: &str) -> u16 {
    controller.command(format!("/computers/{id}/{command}")).await.status
}

/// The audit entries about ended trials.
async fn trial_ends(controller: &Simulation) -> Vec<Value> {
    let log = controller.get("/audit?limit=500").await.body;
    let lines = log["entries"].as_array().expect("entries").iter();
    lines.filter(|line| line["action"] == "trial_end").cloned().collect()
}

/// Waits for the audit entry about a computer's trial.
async fn wait_for_entry(controller: &Simulation, id: &str) -> Value {
    // The log is written in the background, which a busy machine delays.
    let found = hotdesk::base::wait::until(Duration::from_secs(30), || async {
        trial_ends(controller).await.into_iter().find(|line| line["computer_id"] == id)
    });
    found.await.expect("an entry")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_ends_suspends_what_runs_and_a_plan_wakes_it_as_it_was() {
    let controller = boot_controller(true).await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await;
    let over = clock::now().plus(MOMENT);
    set_billing(&controller, &id, Variant::Trial, Some(over), false).await;
    controller.until_status(&id, "suspended").await;
    assert!(clock::now() >= over, "the suspend must not precede the end of the trial");
    assert_eq!(record(&controller, &id).await["status_reason"], "trial_ended");
    let listed = controller.get("/computers").await.body;
    assert_eq!(listed["computers"][0]["status_reason"], "trial_ended");
    let entry = wait_for_entry(&controller, &id).await;
    assert_eq!((&entry["result"], &entry["workspace_id"]), (&json!("done"), &json!(workspace)));
    assert_eq!(
        (&entry["account_id"], &entry["method"], &entry["status"]),
        (&Value::Null, &json!(""), &Value::Null)
    );
    // Commands of clients are refused while the trial is over (docs/lifecycle.md#suspend).
    for command in ["resume", "start", "click"] {
        assert_eq!(ask(&controller, &id, command).await, 402, "{command}");
    }
    set_billing(&controller, &id, Variant::Included, None, false).await;
    assert_eq!(ask(&controller, &id, "resume").await, 200, "the saved memory is restored");
    let woken = record(&controller, &id).await;
    assert_eq!((&woken["status"], &woken["status_reason"]), (&json!("running"), &Value::Null));
    // A stop by a person has no reason of the service.
    assert_eq!(ask(&controller, &id, "stop").await, 200);
    controller.until_status(&id, "stopped").await;
    assert_eq!(record(&controller, &id).await["status_reason"], Value::Null);
    assert_eq!(trial_ends(&controller).await.len(), 1, "one entry per ended trial");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_ends_stops_what_cannot_be_suspended() {
    let controller = boot_controller(false).await;
    let id = controller.computer(&controller.workspace("demo").await, "one").await;
    set_billing(&controller, &id, Variant::Trial, Some(clock::now().plus(MOMENT)), false).await;
    controller.until_status(&id, "stopped").await;
    assert_eq!(record(&controller, &id).await["status_reason"], "trial_ended");
    assert_eq!(ask(&controller, &id, "start").await, 402);
    wait_for_entry(&controller, &id).await;
    set_billing(&controller, &id, Variant::Included, None, false).await;
    assert_eq!(ask(&controller, &id, "start").await, 200);
    controller.until_status(&id, "running").await;
    assert_eq!(record(&controller, &id).await["status_reason"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_ends_with_a_trial_says_why_and_one_that_its_person_ends_does_not() {
    let controller = boot_controller(true).await;
    let id = controller.computer(&controller.workspace("demo").await, "one").await;
    let client = listen(&controller, &id).await;
    set_billing(&controller, &id, Variant::Trial, Some(UnixMillis::EPOCH), false).await;
    assert_eq!(end_of(client).await, SocketEvent::Closed(1001, "computer stopping: trial_ended".into()));
    controller.until_status(&id, "suspended").await;
    set_billing(&controller, &id, Variant::Included, None, false).await;
    assert_eq!(ask(&controller, &id, "resume").await, 200);
    controller.until_status(&id, "running").await;
    let client = listen(&controller, &id).await;
    assert_eq!(ask(&controller, &id, "stop").await, 200);
    assert_eq!(end_of(client).await, SocketEvent::Closed(1001, "computer stopping".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_computer_does_not_keep_it_up_after_its_trial() {
    let controller = boot_controller(true).await;
    let id = controller.computer(&controller.workspace("demo").await, "one").await;
    let broken = EngineError::failed("save memory", "on purpose");
    controller.engine.plan(Fault { verb: Verb::Suspend, call: 1, failure: Failure::Before(broken) });
    set_billing(&controller, &id, Variant::Trial, Some(UnixMillis::EPOCH), false).await;
    controller.until_status(&id, "stopped").await;
    assert_eq!(record(&controller, &id).await["status_reason"], "trial_ended");
    wait_for_entry(&controller, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_person_stops_before_the_service_does_is_not_told_as_the_end_of_a_trial() {
    let controller = boot_controller(true).await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await;
    // The suspend fails, and the runner would stop the computer instead. The delayed observation gives the
    // person's stop the time to come first. The first observation is that of the boot.
    let broken = EngineError::failed("save memory", "on purpose");
    controller.engine.plan(Fault { verb: Verb::Suspend, call: 1, failure: Failure::Before(broken) });
    controller.engine.plan(Fault { verb: Verb::Observe, call: 2, failure: Failure::Delay(OBSERVE_DELAY) });
    set_billing(&controller, &id, Variant::Trial, Some(UnixMillis::EPOCH), false).await;
    controller.until_status(&id, "suspending").await;
    assert_eq!(ask(&controller, &id, "stop").await, 200);
    controller.until_status(&id, "stopped").await;
    assert_eq!(record(&controller, &id).await["status_reason"], Value::Null);
    // The entry about a later trial comes after the one that the first computer must not have.
    let other = controller.computer(&workspace, "two").await;
    set_billing(&controller, &other, Variant::Trial, Some(UnixMillis::EPOCH), false).await;
    wait_for_entry(&controller, &other).await;
    let entry = trial_ends(&controller).await;
    assert_eq!(entry.len(), 1, "{entry:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_that_ended_while_nobody_looked_ends_with_the_next_controller() {
    let mut controller = boot_controller(true).await;
    let id = controller.computer(&controller.workspace("demo").await, "one").await;
    controller.end().await;
    controller.sql("UPDATE computers SET billing = 'trial', trial_ends_at = 1").await;
    controller.begin(&[]).await;
    controller.until_status(&id, "suspended").await;
    controller.restart().await;
    let entry = record(&controller, &id).await;
    assert_eq!((&entry["status"], &entry["status_reason"]), (&json!("suspended"), &json!("trial_ended")));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_on_a_trial_that_is_over_ends() {
    let controller = boot_controller(true).await;
    let workspace = controller.workspace("demo").await;
    let mut others = Vec::new();
    for (name, variant, trial_ends, device) in [
        ("included", Variant::Included, Some(UnixMillis::EPOCH), false),
        ("hourly", Variant::Hourly, Some(UnixMillis::EPOCH), false),
        ("bought", Variant::Dedicated, Some(UnixMillis::EPOCH), false),
        ("device", Variant::Trial, Some(UnixMillis::EPOCH), true),
        ("goes on", Variant::Trial, Some(clock::now().plus(Duration::from_secs(3600))), false),
        ("without end", Variant::Trial, None, false),
    ] {
        let id = controller.computer(&workspace, name).await;
        set_billing(&controller, &id, variant, trial_ends, device).await;
        others.push((name, id));
    }
    let last = controller.computer(&workspace, "over").await;
    set_billing(&controller, &last, Variant::Trial, Some(UnixMillis::EPOCH), false).await;
    controller.until_status(&last, "suspended").await;
    // The round that found the last trial has also checked the others.
    for (name, id) in &others {
        assert_eq!(controller.status(id).await, "running", "{name}");
    }
    wait_for_entry(&controller, &last).await;
    assert_eq!(trial_ends(&controller).await.len(), 1);
}
