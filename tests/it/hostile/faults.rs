//! Failures of engine steps: T18 (docs/security.md). The status is right, nothing partial remains, and a
//! retry works.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::controller::{self, config::Config};
use hotdesk::engine::simulated::{Failure, Fault, SimulatedEngine, SimulatedHost, Verb};
use hotdesk::engine::{EngineError, Shortage};
use serde_json::json;

use crate::harness::agent::HttpAnswer;
use crate::harness::simulation::Simulation;

/// Attempts of a removal before it is deferred to the next start.
const REMOVAL_TRIES: u32 = 3;

/// Plans failures of the next `times` calls of a verb.
fn fail_next(controller: &Simulation, verb: Verb, times: u32, failure: &Failure) {
    for turn in 1..=times {
        let call = controller.engine.calls(verb) + turn;
        controller.engine.plan(Fault { verb, call, failure: failure.clone() });
    }
}

fn broken() -> EngineError {
    EngineError::failed("do the step", "/secret/path: on purpose")
}

fn assert_error(answer: &HttpAnswer, status: u16, name: &str) {
    assert_eq!(answer.status, status, "{name}: {}", answer.body);
    assert!(
        answer.body["error"].is_string() && answer.body["request_id"].is_string(),
        "{name}: {}",
        answer.body
    );
    assert!(
        !answer.body.to_string().contains("on purpose"),
        "{name} shows internal details: {}",
        answer.body
    );
}

async fn create(controller: &Simulation, workspace: &str) -> HttpAnswer {
    controller.post("/computers", json!({"workspace_id": workspace, "name": "desk"})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_create_that_fails_leaves_nothing_and_its_name_is_free() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    for verb in [Verb::Create, Verb::Start] {
        for (failure, status) in [
            (Failure::Before(broken()), 500),
            (Failure::After(broken()), 500),
            (Failure::Before(EngineError::NoCapacity(Shortage::DiskSpace, "on purpose".to_owned())), 503),
            (Failure::After(EngineError::NoCapacity(Shortage::DiskSpace, "on purpose".to_owned())), 503),
            (Failure::Before(EngineError::Absent), 500),
        ] {
            let name = format!("{verb:?}, {failure:?}");
            fail_next(&controller, verb, 1, &failure);
            let refused = create(&controller, &workspace).await;
            assert_error(&refused, status, &name);
            assert_eq!(refused.body["code"] == "no_capacity", status == 503, "{name}: {}", refused.body);
            assert_eq!(controller.get("/computers").await.body["computers"], json!([]), "{name}");
            assert_eq!(controller.machines(), Vec::<String>::new(), "{name}");
        }
    }
    let created = create(&controller, &workspace).await;
    assert_eq!(created.status, 201, "{}", created.body);
    // A create succeeds even if the address of the machine cannot be read.
    fail_next(&controller, Verb::Observe, 1, &Failure::Before(broken()));
    let second = controller.post("/computers", json!({"workspace_id": workspace, "name": "second"})).await;
    assert_eq!(second.status, 201, "{}", second.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_an_undo_that_fails_is_done_at_the_next_start() {
    let mut controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    fail_next(&controller, Verb::Start, 1, &Failure::After(broken()));
    fail_next(&controller, Verb::Destroy, REMOVAL_TRIES, &Failure::Before(broken()));
    assert_error(&create(&controller, &workspace).await, 500, "create");
    let listed = controller.get("/computers").await;
    assert_eq!(listed.body["computers"][0]["status"], "deleting", "{}", listed.body);
    let id = listed.body["computers"][0]["id"].as_str().expect("an id").to_owned();
    controller.restart().await;
    controller.until_status(&id, "none").await;
    assert_eq!(controller.machines(), Vec::<String>::new());
    assert_eq!(create(&controller, &workspace).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_delete_that_fails_can_be_asked_again() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let path = |id: &str| format!("/computers/{id}");
    // The controller repeats a failed removal by itself.
    let id = controller.computer(&workspace, "desk").await;
    fail_next(&controller, Verb::Destroy, REMOVAL_TRIES - 1, &Failure::Before(broken()));
    assert_eq!(controller.delete(&path(&id)).await.status, 200);
    // The machine is removed but the call fails: the next attempt finds no machine.
    let id = controller.computer(&workspace, "desk").await;
    fail_next(&controller, Verb::Destroy, 1, &Failure::After(broken()));
    assert_eq!(controller.delete(&path(&id)).await.status, 200);
    let id = controller.computer(&workspace, "desk").await;
    fail_next(&controller, Verb::Destroy, REMOVAL_TRIES, &Failure::Before(broken()));
    assert_error(&controller.delete(&path(&id)).await, 500, "delete");
    assert_eq!(controller.status(&id).await, "deleting");
    assert_error(&controller.post(&format!("{}/start", path(&id)), json!({})).await, 409, "start");
    assert_eq!(controller.delete(&path(&id)).await.status, 200);
    assert_eq!(controller.delete(&path(&id)).await.status, 404);
    assert_eq!(controller.machines(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_stop_start_or_restart_that_fails_says_error_and_leads_out_of_it() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    let ask = |command: &'static str| controller.command(format!("/computers/{id}/{command}"));
    for (first, verb, failure, out) in [
        ("stop", Verb::Stop, Failure::Before(broken()), "start"),
        ("stop", Verb::Stop, Failure::After(broken()), "restart"),
        ("restart", Verb::Stop, Failure::Before(broken()), "restart"),
        ("restart", Verb::Start, Failure::Before(broken()), "start"),
        ("restart", Verb::Start, Failure::After(broken()), "start"),
    ] {
        let name = format!("{first}, {verb:?}, {failure:?}");
        fail_next(&controller, verb, 1, &failure);
        assert_eq!(ask(first).await.status, 200, "{name}");
        controller.until_status(&id, "error").await;
        assert_error(&ask("click").await, 409, &name);
        assert_eq!(ask(out).await.status, 200, "{name}");
        controller.until_status(&id, "running").await;
    }
    ask("stop").await;
    controller.until_status(&id, "stopped").await;
    fail_next(&controller, Verb::Start, 1, &Failure::After(broken()));
    let ensured = ask("ensure-running").await;
    assert_error(&ensured, 500, "ensure-running");
    assert_eq!(controller.status(&id).await, "error");
    assert_eq!(ask("ensure-running").await.body["status"], "running");
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    assert_eq!(controller.machines(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_without_capacity_is_refused_before_anything_ends() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    let ask = |command: &'static str| controller.command(format!("/computers/{id}/{command}"));
    for (short, named) in [
        (Shortage::DiskSpace, "disk space"),
        (Shortage::Slots, "slots for computers"),
        (Shortage::LoopDevices, "loop devices"),
    ] {
        for (verb, status, what) in [
            ("restart", "running", "Computer could not be restarted"),
            ("start", "stopped", "Computer could not be started"),
        ] {
            let failure = Failure::Before(EngineError::NoCapacity(short, "on purpose".to_owned()));
            fail_next(&controller, Verb::CheckCapacity, 1, &failure);
            let refused = ask(verb).await;
            assert_error(&refused, 503, verb);
            assert_eq!(refused.body["code"], "no_capacity", "{}", refused.body);
            assert_eq!(refused.body["error"], format!("{what}: the host is short of {named}"));
            assert_eq!(controller.status(&id).await, status);
            ask("stop").await;
            controller.until_status(&id, "stopped").await;
        }
        assert_eq!(ask("ensure-running").await.body["status"], "running");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_goes_with_a_computer_that_is_being_removed_already() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await;
    fail_next(&controller, Verb::Destroy, 1, &Failure::Delay(Duration::from_secs(5)));
    let path = format!("/computers/{id}");
    let both = async {
        let deleting = wait::until(Duration::from_secs(30), || async {
            (controller.status(&id).await == "deleting").then_some(())
        });
        deleting.await.expect("the status `deleting`");
        controller.delete(&format!("/workspaces/{workspace}")).await
    };
    let (computer, workspace) = tokio::join!(controller.delete(&path), both);
    assert_eq!((computer.status, workspace.status), (200, 200), "{} {}", computer.body, workspace.body);
    assert_eq!(controller.get("/workspaces").await.body["workspaces"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_that_fails_keeps_its_key_for_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = SimulatedHost::new(folder.path().join("machines"), Arc::new(|_| Router::new()));
    let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
    let engine = Arc::new(SimulatedEngine::open(host));
    engine.plan(Fault { verb: Verb::List, call: 1, failure: Failure::Before(broken()) });
    let tasks = Tasks::new();
    let failed = controller::start(config.clone(), Arc::clone(&engine) as _, &tasks).await;
    assert!(failed.is_err(), "the engine cannot list its machines");
    let ready = controller::start(config, engine, &tasks).await.expect("started");
    assert!(ready.first_key.is_some(), "the failed start showed no key");
    tasks.drain(Duration::from_secs(5)).await;
}
