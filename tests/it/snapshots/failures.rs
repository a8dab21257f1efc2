//! What is a computer when a step of a snapshot or a rollback fails? What it was, and nothing half-made stays.

use std::time::Duration;

use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::json;

use crate::suspension::{Scene, refused};

pub fn broken() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

pub fn fail_next(scene: &Scene, verb: Verb, failure: Failure) {
    let call = scene.house.engine.calls(verb) + 1;
    scene.house.engine.plan(Fault { verb, call, failure });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_fails_leaves_nothing() {
    let scene = Scene::set().await;
    let text = "The snapshot could not be made";
    let full = "No host has room for this computer";
    let unable = "This computer's engine keeps no such snapshots";
    for (failure, status, code, text) in [
        (Failure::Before(broken()), 500, "SNAPSHOT_FAILED", text),
        (Failure::After(broken()), 500, "SNAPSHOT_FAILED", text),
        (Failure::Before(EngineError::NoCapacity("on purpose".to_owned())), 503, "no_capacity", full),
        (Failure::Before(EngineError::Unsupported("on purpose")), 400, "snapshot_unsupported", unable),
    ] {
        fail_next(&scene, Verb::Snapshot, failure);
        let answer = scene.keep(json!({"memory": true})).await;
        refused(&answer, status, Some(code), text);
        assert!(!answer.body.to_string().contains("on purpose"), "{}", answer.body);
        assert!(scene.snapshots().await.is_empty());
        scene.is("running").await;
    }
    // Not even the undo succeeds: it reads so, can be removed, and is nothing to go back to.
    fail_next(&scene, Verb::Snapshot, Failure::After(broken()));
    fail_next(&scene, Verb::RemoveSnapshot, Failure::Before(broken()));
    refused(&scene.keep(json!({})).await, 500, Some("SNAPSHOT_FAILED"), text);
    let left = scene.snapshots().await;
    let [left] = &left[..] else { panic!("{left:?}") };
    assert_eq!((&left["state"], &left["size_bytes"]), (&json!("creating"), &json!(null)));
    let id = left["id"].as_str().expect("an id");
    refused(&scene.roll_back(id).await, 409, Some("CONFLICT"), "The snapshot is not ready (state: creating)");
    let path = format!("/computers/{}/snapshots/{id}", scene.id);
    fail_next(&scene, Verb::RemoveSnapshot, Failure::Before(broken()));
    refused(
        &scene.house.delete(&path).await,
        500,
        Some("SNAPSHOT_FAILED"),
        "The snapshot could not be removed",
    );
    assert_eq!(scene.snapshots().await[0]["state"], "deleting");
    assert_eq!(scene.house.delete(&path).await.status, 200);
    assert!(scene.snapshots().await.is_empty());
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_fails_leaves_the_computer_as_it_was() {
    let scene = Scene::set().await;
    scene.write("early");
    let snapshot = scene.kept(true).await;
    scene.write("late");
    let text = "Computer could not be rolled back";
    let damaged = "The snapshot is damaged or missing; the computer is as it was";
    for (error, status, code, text) in [
        (broken(), 500, "SNAPSHOT_FAILED", text),
        (EngineError::NoCapacity("x".to_owned()), 503, "no_capacity", "No host has room for this computer"),
        (EngineError::Damaged("x".to_owned()), 503, "snapshot_unavailable", damaged),
    ] {
        assert_eq!(scene.count().await, 1);
        fail_next(&scene, Verb::Rollback, Failure::Before(error.clone()));
        refused(&scene.roll_back(&snapshot).await, status, Some(code), text);
        scene.is("running").await;
        assert_eq!((scene.reads().as_str(), scene.count().await), ("late", 1), "a new boot of the same disk");
        assert!(scene.row().await.rollback_to.is_none());

        scene.suspended().await;
        fail_next(&scene, Verb::Rollback, Failure::Before(error));
        refused(&scene.roll_back(&snapshot).await, status, Some(code), text);
        scene.is("suspended").await;
        assert_eq!(scene.count().await, 2, "it slept on");
        assert_eq!(scene.ask("restart").await.status, 200);
        scene.house.until_status(&scene.id, "running").await;
    }
    // It cannot be stopped: the status says so, and leads out.
    fail_next(&scene, Verb::Stop, Failure::Before(broken()));
    refused(&scene.roll_back(&snapshot).await, 500, Some("SNAPSHOT_FAILED"), text);
    scene.is("error").await;
    assert!(scene.row().await.rollback_to.is_none());
    scene.rolled_back(&snapshot, "suspended").await;
    assert_eq!((scene.reads().as_str(), scene.count().await), ("early", 1));
    // It does not wake from there: it sleeps and can be woken.
    fail_next(&scene, Verb::Resume, Failure::Before(broken()));
    refused(&scene.roll_back(&snapshot).await, 503, Some("wake_failed"), "Computer could not be woken");
    scene.is("suspended").await;
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_meanwhile_waits_for_its_turn() {
    let scene = Scene::set().await;
    scene.write("early");
    let snapshot = scene.kept(false).await;
    fail_next(&scene, Verb::Snapshot, Failure::Delay(Duration::from_millis(300)));
    let begun = async {
        let begun = hotdesk::base::wait::until(Duration::from_secs(30), || async {
            (scene.house.engine.calls(Verb::Snapshot) == 2).then_some(())
        });
        begun.await.expect("it began");
    };
    let others = async {
        begun.await;
        scene.is("running").await;
        tokio::join!(scene.roll_back(&snapshot), scene.roll_back(&snapshot))
    };
    let (made, (first, second)) = tokio::join!(scene.keep(json!({"memory": true})), others);
    assert_eq!((made.status, first.status, second.status), (201, 200, 200));
    scene.is("running").await;
    assert_eq!(scene.snapshots().await.len(), 2);
}
