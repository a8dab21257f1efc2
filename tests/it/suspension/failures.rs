//! What is a computer when its suspend, its wake or its renewal fails? As much as can be kept, and never a silent boot.

use std::time::Duration;

use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::json;

use super::agent::Manner;
use super::{Scene, refused};

fn broken() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

fn fail_next(scene: &Scene, verb: Verb, failure: Failure) {
    let call = scene.house.engine.calls(verb) + 1;
    scene.house.engine.plan(Fault { verb, call, failure });
}

/// Nobody can see the machine, however often it is looked for.
fn be_blind(scene: &Scene) {
    let seen = scene.house.engine.calls(Verb::Observe);
    for call in seen + 1..=seen + 3 {
        scene.house.engine.plan(Fault { verb: Verb::Observe, call, failure: Failure::Before(broken()) });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_that_fails_leaves_a_computer_that_runs_on() {
    let scene = Scene::set().await;
    let text = "Computer could not be suspended";
    for (turn, (error, status, code, text)) in [
        (broken(), 500, None, text),
        (EngineError::NoCapacity("on purpose".to_owned()), 500, None, text),
        (
            EngineError::Unsupported("on purpose"),
            400,
            Some("suspend_unsupported"),
            "This computer cannot be suspended",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        fail_next(&scene, Verb::Suspend, Failure::Before(error));
        let answer = scene.ask("suspend").await;
        refused(&answer, status, code, text);
        assert!(!answer.body.to_string().contains("on purpose"), "{}", answer.body);
        scene.is("running").await;
        assert_eq!(scene.count().await, u32::try_from(turn).expect("small") + 1, "it ran on");
    }
    // An answer that was lost: it is suspended all the same.
    let asked = scene.house.engine.calls(Verb::Suspend);
    fail_next(&scene, Verb::Suspend, Failure::After(broken()));
    scene.suspended().await;
    assert_eq!(scene.house.engine.calls(Verb::Suspend), asked + 2, "what was left of it is done");
    assert_eq!(scene.count().await, 4);
    // One look that fails gives nothing up.
    fail_next(&scene, Verb::Suspend, Failure::Before(broken()));
    fail_next(&scene, Verb::Observe, Failure::Before(broken()));
    refused(&scene.ask("suspend").await, 500, None, text);
    scene.is("running").await;
    assert_eq!(scene.count().await, 5);
    // Not even to be seen: the status says so, and leads out.
    fail_next(&scene, Verb::Suspend, Failure::Before(broken()));
    be_blind(&scene);
    refused(&scene.ask("suspend").await, 500, None, "Computer could not be adopted");
    scene.is("error").await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_ends_under_its_suspend_reads_stopped() {
    let scene = Scene::set().await;
    fail_next(&scene, Verb::Suspend, Failure::Delay(Duration::from_secs(5)));
    let crash = async {
        scene.house.until_status(&scene.id, "suspending").await;
        scene.house.host.crash(scene.id.parse().expect("an id"));
    };
    let (answer, ()) = tokio::join!(scene.ask("suspend"), crash);
    refused(&answer, 409, None, "Computer can't be suspended right now (status: stopped)");
    scene.is("stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_fails_leaves_a_computer_that_sleeps_on() {
    let scene = Scene::set().await;
    assert_eq!(scene.count().await, 1);
    scene.suspended().await;
    let awake = ("wake_failed", "Computer could not be woken");
    let full = ("no_capacity", "No host has room for this computer");
    for (error, (code, text)) in
        [(broken(), awake), (EngineError::Absent, awake), (EngineError::NoCapacity("x".to_owned()), full)]
    {
        for verb in ["resume", "ensure-running", "click"] {
            fail_next(&scene, Verb::Resume, Failure::Before(error.clone()));
            let path = format!("/computers/{}/{verb}", scene.id);
            let answer = scene.house.post(&path, json!({"x": 1, "y": 1})).await;
            refused(&answer, 503, Some(code), text);
            assert_eq!(answer.body["retry_after"], 30, "{}", answer.body);
            scene.is("suspended").await;
        }
    }
    // Nobody could look: still nothing is given up.
    fail_next(&scene, Verb::Resume, Failure::Before(broken()));
    fail_next(&scene, Verb::Observe, Failure::Before(broken()));
    refused(&scene.ask("resume").await, 503, Some("wake_failed"), "Computer could not be woken");
    scene.is("suspended").await;
    // The memory knows the token of the first boot still, however often it was to wake.
    assert_eq!(scene.count().await, 2);
    // An answer that was lost: it is awake.
    scene.suspended().await;
    fail_next(&scene, Verb::Resume, Failure::After(broken()));
    assert_eq!(scene.ask("resume").await.status, 200);
    assert_eq!(scene.count().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_or_lost_memory_has_a_name_and_is_never_booted() {
    let scene = Scene::set().await;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    let text =
        "The computer's saved memory is damaged or missing; stop it and start it to boot from its disk";
    scene.suspended().await;
    let memory = scene.house.memory(&scene.id);
    std::fs::write(&memory, "1 wh").expect("damaged");
    for verb in ["resume", "ensure-running", "bash"] {
        let path = format!("/computers/{}/{verb}", scene.id);
        let answer = scene.house.post(&path, json!({"command": "x"})).await;
        refused(&answer, 503, Some("saved_state_unavailable"), text);
        scene.is("suspended").await;
    }
    assert_eq!(scene.house.engine.calls(Verb::Start), 1, "booted once, when it was made");
    scene.ask("stop").await;
    scene.house.until_status(&scene.id, "stopped").await;
    scene.ask("start").await;
    assert_eq!(scene.count().await, 1);

    scene.suspended().await;
    std::fs::remove_file(&memory).expect("gone");
    refused(&scene.ask("resume").await, 503, Some("saved_state_unavailable"), text);
    scene.is("stopped").await;
    assert_eq!(scene.house.engine.calls(Verb::Start), 2);
    scene.ask("start").await;
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_without_its_new_identity_is_not_reachable() {
    let scene = Scene::set().await;
    for manner in [Manner::Fails, Manner::Lies, Manner::Keeps] {
        assert_eq!(scene.count().await, 1, "{manner:?}");
        scene.suspended().await;
        scene.agents.behave(manner);
        let text = "Computer woke and could not be given a new identity";
        refused(&scene.ask("resume").await, 503, Some("wake_failed"), text);
        scene.is("error").await;
        assert!(!scene.house.socket(&scene.id).exists(), "{manner:?}: nothing of it runs");
        let text = "Computer is not running (status: error)";
        refused(&scene.read("/screens").await, 409, None, text);
        scene.agents.behave(Manner::Honest);
        assert_eq!(scene.ask("start").await.status, 200);
    }
    assert_eq!(scene.count().await, 1);
    scene.suspended().await;
    scene.agents.behave(Manner::LosesItsAnswer);
    assert_eq!(scene.ask("resume").await.status, 200);
    assert_eq!(scene.count().await, 2);
}
