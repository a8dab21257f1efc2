//! Failures of suspend, resume and renewal: the best possible status remains, and there is never a silent
//! boot.

use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{EngineError, Shortage};
use serde_json::json;

use super::agent::RenewalBehaviour;
use super::{SETTINGS, Scene, assert_refused, hold_next};

fn broken() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

fn fail_next(scene: &Scene, verb: Verb, failure: Failure) {
    let call = scene.controller.engine.calls(verb) + 1;
    scene.controller.engine.plan(Fault { verb, call, failure });
}

/// Plans failures of all observations of the machine.
fn fail_observations(scene: &Scene) {
    let seen = scene.controller.engine.calls(Verb::Observe);
    for call in seen + 1..=seen + 3 {
        scene.controller.engine.plan(Fault { verb: Verb::Observe, call, failure: Failure::Before(broken()) });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_that_fails_leaves_a_computer_that_runs_on() {
    let scene = Scene::boot().await;
    let text = "Computer could not be suspended";
    let full = "Computer could not be suspended: the host is short of disk space";
    let unsupported = format!("This computer cannot be suspended: its engine saves no memory. {SETTINGS}");
    for (turn, (error, status, code, text)) in [
        (broken(), 500, None, text),
        (
            EngineError::NoCapacity(Shortage::DiskSpace, "on purpose".to_owned()),
            503,
            Some("no_capacity"),
            full,
        ),
        (EngineError::Unsupported("on purpose"), 400, Some("suspend_unsupported"), &unsupported),
    ]
    .into_iter()
    .enumerate()
    {
        fail_next(&scene, Verb::Suspend, Failure::Before(error));
        let answer = scene.ask("suspend").await;
        assert_refused(&answer, status, code, text);
        assert!(!answer.body.to_string().contains("on purpose"), "{}", answer.body);
        scene.assert_status("running").await;
        assert_eq!(
            scene.count().await,
            u32::try_from(turn).expect("small") + 1,
            "the computer continues to run"
        );
    }
    // Only the response is lost: the computer is suspended.
    let calls = scene.controller.engine.calls(Verb::Suspend);
    fail_next(&scene, Verb::Suspend, Failure::After(broken()));
    scene.suspend().await;
    assert_eq!(scene.controller.engine.calls(Verb::Suspend), calls + 2, "the suspend is completed");
    assert_eq!(scene.count().await, 4);
    // One failed observation is retried.
    fail_next(&scene, Verb::Suspend, Failure::Before(broken()));
    fail_next(&scene, Verb::Observe, Failure::Before(broken()));
    assert_refused(&scene.ask("suspend").await, 500, None, text);
    scene.assert_status("running").await;
    assert_eq!(scene.count().await, 5);
    // All observations fail: the status is `error`, and a start leads out of it.
    fail_next(&scene, Verb::Suspend, Failure::Before(broken()));
    fail_observations(&scene);
    assert_refused(&scene.ask("suspend").await, 500, None, "Computer could not be adopted");
    scene.assert_status("error").await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_ends_under_its_suspend_reads_stopped() {
    let scene = Scene::boot().await;
    let held = hold_next(&scene, Verb::Suspend);
    let crash = async {
        scene.controller.until_status(&scene.id, "suspending").await;
        scene.controller.host.crash(scene.id.parse().expect("an id"));
        held.cancel();
    };
    let (answer, ()) = tokio::join!(scene.ask("suspend"), crash);
    assert_refused(&answer, 409, None, "Computer can't be suspended right now (status: stopped)");
    scene.assert_status("stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_fails_leaves_a_computer_that_sleeps_on() {
    let scene = Scene::boot().await;
    assert_eq!(scene.count().await, 1);
    scene.suspend().await;
    let awake = ("wake_failed", "Computer could not be woken");
    let full = ("no_capacity", "Computer could not be woken: the host is short of disk space");
    for (error, (code, text)) in [
        (broken(), awake),
        (EngineError::Absent, awake),
        (EngineError::NoCapacity(Shortage::DiskSpace, "x".to_owned()), full),
    ] {
        for verb in ["resume", "ensure-running", "click"] {
            fail_next(&scene, Verb::Resume, Failure::Before(error.clone()));
            let path = format!("/computers/{}/{verb}", scene.id);
            let answer = scene.controller.post(&path, json!({"x": 1, "y": 1})).await;
            assert_refused(&answer, 503, Some(code), text);
            assert_eq!(answer.body["retry_after"], 30, "{}", answer.body);
            scene.assert_status("suspended").await;
        }
    }
    // A failed observation changes nothing.
    fail_next(&scene, Verb::Resume, Failure::Before(broken()));
    fail_next(&scene, Verb::Observe, Failure::Before(broken()));
    assert_refused(&scene.ask("resume").await, 503, Some("wake_failed"), "Computer could not be woken");
    scene.assert_status("suspended").await;
    // After any number of failed resumes, the memory still has the token of the first boot.
    assert_eq!(scene.count().await, 2);
    // Only the response is lost: the computer is resumed.
    scene.suspend().await;
    fail_next(&scene, Verb::Resume, Failure::After(broken()));
    assert_eq!(scene.ask("resume").await.status, 200);
    assert_eq!(scene.count().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_or_lost_memory_has_a_name_and_is_never_booted() {
    let scene = Scene::boot().await;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    let text =
        "The computer's saved memory is damaged or missing; stop it and start it to boot from its disk";
    scene.suspend().await;
    let memory = scene.controller.memory(&scene.id);
    std::fs::write(&memory, "1 wh").expect("a damaged file");
    for verb in ["resume", "ensure-running", "bash"] {
        let path = format!("/computers/{}/{verb}", scene.id);
        let answer = scene.controller.post(&path, json!({"command": "x"})).await;
        assert_refused(&answer, 503, Some("saved_state_unavailable"), text);
        scene.assert_status("suspended").await;
    }
    assert_eq!(scene.controller.engine.calls(Verb::Start), 1, "no boot after the create");
    scene.ask("stop").await;
    scene.controller.until_status(&scene.id, "stopped").await;
    scene.ask("start").await;
    assert_eq!(scene.count().await, 1);

    scene.suspend().await;
    std::fs::remove_file(&memory).expect("a removed file");
    assert_refused(&scene.ask("resume").await, 503, Some("saved_state_unavailable"), text);
    scene.assert_status("stopped").await;
    assert_eq!(scene.controller.engine.calls(Verb::Start), 2);
    scene.ask("start").await;
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_without_its_new_identity_is_not_reachable() {
    let scene = Scene::boot().await;
    for behaviour in [RenewalBehaviour::Fails, RenewalBehaviour::Lies, RenewalBehaviour::Keeps] {
        assert_eq!(scene.count().await, 1, "{behaviour:?}");
        scene.suspend().await;
        scene.agents.behave(behaviour);
        let text = "Computer was resumed but did not accept its new identity; start it again";
        assert_refused(&scene.ask("resume").await, 503, Some("wake_failed"), text);
        scene.assert_status("error").await;
        assert!(!scene.controller.socket(&scene.id).exists(), "{behaviour:?}: the machine must not run");
        let text = "Computer is not running (status: error)";
        assert_refused(&scene.read("/screens").await, 409, None, text);
        scene.agents.behave(RenewalBehaviour::Honest);
        assert_eq!(scene.ask("start").await.status, 200);
    }
    assert_eq!(scene.count().await, 1);
    scene.suspend().await;
    scene.agents.behave(RenewalBehaviour::LosesResponse);
    assert_eq!(scene.ask("resume").await.status, 200);
    assert_eq!(scene.count().await, 2);
}
