//! Auto-stop of idle computers (`auto_stop_minutes`, docs/lifecycle.md) on simulated machines with short
//! minutes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::routing::get;
use axum::{Json, Router};
use hotdesk::base::wait;
use hotdesk::controller::config::AutoStopTiming;
use hotdesk::engine::Capabilities;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// Length of a minute in these tests: enough for several actions on a loaded machine.
const MINUTE: Duration = Duration::from_secs(6);
/// Longest delay of a suspend on a loaded machine.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(30);

/// The activity that the agents report, and when one last reported a reason against the suspend.
#[derive(Clone, Default)]
struct AgentActivity(Arc<Mutex<(Value, Option<Instant>)>>);

impl AgentActivity {
    fn set(&self, idle_ms: u64, held_by: Value) {
        self.0.lock().expect("no panic").0 = json!({"idle_ms": idle_ms, "held_by": held_by});
    }

    fn report(&self) -> Value {
        let mut activity = self.0.lock().expect("no panic");
        if activity.0["held_by"] != json!([]) {
            activity.1 = Some(Instant::now());
        }
        activity.0.clone()
    }
}

/// A controller whose agents report an hour without activity.
async fn boot_controller() -> (Simulation, AgentActivity) {
    boot_controller_with(Capabilities::default()).await
}

/// [`boot_controller`] over an engine with these capabilities.
async fn boot_controller_with(capabilities: Capabilities) -> (Simulation, AgentActivity) {
    let activity = AgentActivity::default();
    activity.set(3_600_000, json!([]));
    let reported = activity.clone();
    let route = get(async move || Json(reported.report()));
    let pace = AutoStopTiming { every: Duration::from_millis(50), minute: MINUTE };
    (Simulation::boot_with_pace(Router::new().route("/activity", route), pace, capabilities).await, activity)
}

/// A computer with this auto-stop.
async fn computer(controller: &Simulation, name: &str, minutes: u32) -> String {
    let workspace = controller.workspace(name).await;
    let body = json!({"workspace_id": workspace, "name": name, "auto_stop_minutes": minutes});
    id_of(&controller.create("/computers", body).await)
}

async fn auto_stop(controller: &Simulation, id: &str) -> Value {
    controller.get(&format!("/computers/{id}")).await.body["auto_stop"].clone()
}

/// Waits until the `auto_stop` object of a record satisfies a condition.
async fn until(controller: &Simulation, id: &str, what: impl Fn(&Value) -> bool) -> Value {
    let found =
        wait::until(SUSPEND_TIMEOUT, || async { Some(auto_stop(controller, id).await).filter(&what) });
    match found.await {
        Some(found) => found,
        None => panic!("{}", auto_stop(controller, id).await),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_keeps_memory_suspends_what_is_idle() {
    let (controller, _activity) =
        boot_controller_with(Capabilities { suspend: true, ..Capabilities::default() }).await;
    let id = computer(&controller, "idle", 1).await;
    controller.until_status(&id, "suspended").await;
    let record = controller.get(&format!("/computers/{id}")).await.body;
    assert_eq!(
        (&record["status_reason"], &record["auto_stop"]["keeps_memory"]),
        (&json!("auto_stop"), &json!(true))
    );
    // A stop by a person has no reason of the service, and no action starts the computer again.
    assert_eq!(controller.command(format!("/computers/{id}/stop")).await.status, 200);
    controller.until_status(&id, "stopped").await;
    assert_eq!(controller.get(&format!("/computers/{id}")).await.body["status_reason"], Value::Null);
    assert_eq!(controller.command(format!("/computers/{id}/click")).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_loses_memory_says_so_and_the_next_action_starts_the_computer() {
    let (mut controller, activity) = boot_controller().await;
    let workspace = controller.workspace("idle").await;
    let body = json!({"workspace_id": workspace, "name": "idle", "auto_stop_minutes": 0});
    let created = controller.create("/computers", body).await;
    assert_eq!(created["auto_stop"]["keeps_memory"], json!(false));
    let path = format!("/computers/{}", id_of(&created));
    let setting = controller.get(&format!("{path}/auto-stop")).await.body;
    assert_eq!(setting, json!({"auto_stop_minutes": 0, "configurable": true, "keeps_memory": false}));
    let changed = controller.patch(&format!("{path}/auto-stop"), json!({"auto_stop_minutes": 1})).await;
    let expected = json!({"auto_stop_minutes": 1, "auto_suspend_after": "1m", "keeps_memory": false});
    assert_eq!(changed.body, expected);

    let id = id_of(&created);
    let stopped = async |controller: &Simulation| {
        controller.until_status(&id, "stopped").await;
        assert_eq!(controller.get(&path).await.body["status_reason"], json!("auto_stop"));
    };
    // Each kind of request starts it: an action, a read, and both after a restart of the controller.
    stopped(&controller).await;
    // It is in use until its record is read, however long that takes.
    activity.set(0, json!([]));
    assert_eq!(controller.command(format!("{path}/click")).await.status, 200);
    let running = controller.get(&path).await.body;
    assert_eq!((&running["status"], &running["status_reason"]), (&json!("running"), &Value::Null));
    activity.set(3_600_000, json!([]));
    stopped(&controller).await;
    assert_eq!(controller.get(&format!("{path}/screens")).await.status, 200);
    stopped(&controller).await;
    controller.kill().await;
    stopped(&controller).await;
    assert_eq!(controller.command(format!("{path}/click")).await.status, 200);
    // A resume needs memory. A stop by a person ends the sleep.
    stopped(&controller).await;
    assert_eq!(controller.command(format!("{path}/resume")).await.status, 409);
    assert_eq!(controller.command(format!("{path}/stop")).await.status, 200);
    let settled = hotdesk::base::wait::until(SUSPEND_TIMEOUT, || async {
        let record = controller.get(&path).await.body;
        (record["status"] == "stopped" && record["status_reason"].is_null()).then_some(())
    });
    assert!(settled.await.is_some());
    assert_eq!(controller.command(format!("{path}/click")).await.status, 409);
    // The computer works again after a start.
    activity.set(0, json!([]));
    assert_eq!(controller.command(format!("{path}/ensure-running")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_rests_a_while_after_its_last_action_and_no_other_does() {
    let (controller, activity) = boot_controller().await;
    let always = computer(&controller, "always-on", 0).await;
    // It is in use until its record is read, however long that takes.
    activity.set(0, json!([]));
    let id = computer(&controller, "idle", 1).await;
    assert_eq!(
        auto_stop(&controller, &always).await,
        json!({"minutes": 0, "suspends_at": null, "held_by": [], "keeps_memory": false})
    );
    let record = until(&controller, &id, |auto_stop| auto_stop["suspends_at"].is_string()).await;
    assert_eq!((&record["minutes"], &record["held_by"]), (&json!(1), &json!([])));

    activity.set(3_600_000, json!([]));
    let began = Instant::now();
    let mut acted = began;
    while began.elapsed() < 2 * MINUTE {
        acted = Instant::now();
        assert_eq!(controller.command(format!("/computers/{id}/click")).await.status, 200);
        tokio::time::sleep(MINUTE / 8).await;
    }
    controller.until_status(&id, "stopped").await;
    assert!(acted.elapsed() >= MINUTE, "suspended after {:?}", acted.elapsed());
    let stopped = json!({"minutes": 1, "suspends_at": null, "held_by": [], "keeps_memory": false});
    assert_eq!(auto_stop(&controller, &id).await, stopped);
    assert_eq!(controller.status(&always).await, "running");

    // The start counts as activity: a whole minute passes, though the agent reports that it was idle before.
    let started = Instant::now();
    assert_eq!(controller.command(format!("/computers/{id}/ensure-running")).await.status, 200);
    controller.until_status(&id, "stopped").await;
    assert!(started.elapsed() >= MINUTE, "suspended after {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_at_work_keeps_a_computer_up_and_its_end_counts_as_use() {
    let (controller, activity) = boot_controller().await;
    let hold = json!({"kind": "terminal", "detail": "bash runs make"});
    activity.set(3_600_000, json!([hold]));
    let id = computer(&controller, "busy", 1).await;
    let record = until(&controller, &id, |auto_stop| auto_stop["held_by"] != json!([])).await;
    let busy = json!({"minutes": 1, "suspends_at": null, "held_by": [hold], "keeps_memory": false});
    assert_eq!(record, busy);
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(controller.status(&id).await, "running");
    activity.set(3_600_000, json!([]));
    controller.until_status(&id, "stopped").await;
    let worked = activity.0.lock().expect("no panic").1.expect("a report");
    assert!(worked.elapsed() >= MINUTE, "suspended {:?} after the work", worked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn input_in_the_computer_counts_from_when_it_was() {
    let (controller, activity) = boot_controller().await;
    activity.set(0, json!([]));
    let id = computer(&controller, "used", 1).await;
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(controller.status(&id).await, "running");
    activity.set(u64::MAX, json!([]));
    controller.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_acts_while_rest_waits_for_its_turn_keeps_the_computer_up() {
    let copies = Capabilities { copy_while_running: true, ..Capabilities::default() };
    let (controller, _activity) = boot_controller_with(copies).await;
    let id = computer(&controller, "kept", 1).await;
    let (call, stops) = (controller.engine.calls(Verb::Snapshot) + 1, controller.engine.calls(Verb::Stop));
    let held = CancellationToken::new();
    controller.engine.plan(Fault { verb: Verb::Snapshot, call, failure: Failure::Until(held.clone()) });
    let path = format!("/computers/{id}/snapshots");
    let made = CancellationToken::new();
    let snapshot = async {
        let created = controller.post(&path, json!({})).await;
        made.cancel();
        created
    };
    // The suspend comes due during the snapshot and waits for its end.
    let acting = async {
        tokio::time::sleep(2 * MINUTE).await;
        let mut turn_came = None;
        while turn_came.is_none_or(|at: Instant| at.elapsed() < MINUTE / 2) {
            assert_eq!(controller.command(format!("/computers/{id}/click")).await.status, 200);
            held.cancel();
            if turn_came.is_none() && made.is_cancelled() {
                turn_came = Some(Instant::now());
            }
            tokio::time::sleep(MINUTE / 8).await;
        }
    };
    let (created, ()) = tokio::join!(snapshot, acting);
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(
        (controller.status(&id).await.as_str(), controller.engine.calls(Verb::Stop)),
        ("running", stops)
    );
    controller.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hangs_holds_up_itself_alone() {
    let (controller, _activity) = boot_controller().await;
    let hung = computer(&controller, "hung", 0).await;
    // The kernel accepts connections to this socket, and no agent answers.
    let _silent = controller.replace_agent(&hung);
    let setting = format!("/computers/{hung}/auto-stop");
    assert_eq!(controller.patch(&setting, json!({"auto_stop_minutes": 1})).await.status, 200);
    let fine = computer(&controller, "fine", 1).await;
    let began = Instant::now();
    controller.until_status(&fine, "stopped").await;
    // A round with the hanging agent lasts three seconds.
    assert!(began.elapsed() < SUSPEND_TIMEOUT, "{:?}", began.elapsed());
    let auto_stop = until(&controller, &hung, |auto_stop| auto_stop["held_by"][0]["kind"] == "unknown").await;
    assert_eq!(auto_stop["suspends_at"], Value::Null);
    assert_eq!(controller.status(&hung).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_starts_again_counts_anew() {
    let (mut controller, _activity) = boot_controller().await;
    // It has an auto-stop from the second controller on: the first one must not stop it, however busy the
    // machine is.
    let id = computer(&controller, "adopted", 0).await;
    tokio::time::sleep(MINUTE / 2).await;
    controller.end().await;
    controller.sql(&format!("UPDATE computers SET auto_stop_minutes = 1 WHERE id = '{id}'")).await;
    let restarted = Instant::now();
    controller.begin(&[]).await;
    controller.until_status(&id, "stopped").await;
    assert!(restarted.elapsed() >= MINUTE, "suspended {:?} after the restart", restarted.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_at_an_open_port_do_not_keep_a_computer_up() {
    let (controller, activity) = boot_controller().await;
    // It is in use until somebody was admitted, however long that takes.
    activity.set(0, json!([]));
    let id = computer(&controller, "open", 1).await;
    controller.sql("UPDATE computers SET ports = '3000:http:open:site'").await;
    let path = format!("/api/computers/{id}/ports/3000/");
    let ask = async || controller.bare(Method::GET, &path).send().await.expect("an answer").status().as_u16();
    let first = ask().await;
    assert!(
        ![401, 404, 409, 429].contains(&first),
        "it is admitted, and the agent has no such program: {first}"
    );
    activity.set(3_600_000, json!([]));
    let began = Instant::now();
    while ask().await != 409 {
        assert!(began.elapsed() < SUSPEND_TIMEOUT, "requests of strangers count as actions");
        tokio::time::sleep(MINUTE / 8).await;
    }
    controller.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passive_read_neither_holds_a_computer_up_nor_wakes_it() {
    let (controller, _activity) = boot_controller().await;
    let id = computer(&controller, "watched", 1).await;
    let look = async |path: String| {
        let request = controller.request(Method::GET, &path).header("x-hotdesk-passive", "true");
        crate::harness::agent::fetch_json(request).await
    };
    let paths = [format!("/computers/{id}/readiness"), format!("/desktops/{id}/proxy/health")];
    // It stops although somebody looks all the time.
    let stopped = wait::until(SUSPEND_TIMEOUT, || async {
        for path in &paths {
            let seen = look(path.clone()).await;
            assert!([200, 409, 503].contains(&seen.status), "{path}: {} {}", seen.status, seen.body);
        }
        (controller.status(&id).await == "stopped").then_some(())
    });
    assert!(stopped.await.is_some(), "it is {}", controller.status(&id).await);
    for path in &paths {
        let asleep = look(path.clone()).await;
        assert_eq!((asleep.status, &asleep.body["code"]), (409, &json!("computer_asleep")), "{path}");
    }
    assert_eq!(controller.status(&id).await, "stopped");
    // The same field does not hide an action, and a read without it wakes.
    let click = controller.request(Method::POST, &format!("/computers/{id}/click"));
    let click = click.header("x-hotdesk-passive", "true").json(&json!({"x": 1, "y": 1}));
    assert_eq!(crate::harness::agent::fetch_json(click).await.status, 200);
    controller.until_status(&id, "stopped").await;
    let awake = controller.get(&paths[0]).await;
    assert_eq!((awake.status, &awake.body["status"]), (200, &json!("ok")), "{}", awake.body);
}
