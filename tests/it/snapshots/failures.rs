//! Failures of snapshots and rollbacks: the computer is unchanged and nothing partial remains.

use std::time::Duration;

use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{EngineError, Shortage};
use serde_json::json;

use crate::suspension::{Scene, assert_refused};

pub fn broken() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

pub fn fail_next(scene: &Scene, verb: Verb, failure: Failure) {
    let call = scene.controller.engine.calls(verb) + 1;
    scene.controller.engine.plan(Fault { verb, call, failure });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_fails_leaves_nothing() {
    let scene = Scene::boot().await;
    let text = "The snapshot could not be made";
    let full = "The snapshot could not be made: the host is short of disk space";
    let unable = "This computer's engine does not support such snapshots";
    for (failure, status, code, text) in [
        (Failure::Before(broken()), 500, "SNAPSHOT_FAILED", text),
        (Failure::After(broken()), 500, "SNAPSHOT_FAILED", text),
        (
            Failure::Before(EngineError::NoCapacity(Shortage::DiskSpace, "on purpose".to_owned())),
            503,
            "no_capacity",
            full,
        ),
        (Failure::Before(EngineError::Unsupported("on purpose")), 400, "snapshot_unsupported", unable),
    ] {
        fail_next(&scene, Verb::Snapshot, failure);
        let answer = scene.post_snapshot(json!({"memory": true})).await;
        assert_refused(&answer, status, Some(code), text);
        assert!(!answer.body.to_string().contains("on purpose"), "{}", answer.body);
        assert!(scene.snapshots().await.is_empty());
        scene.assert_status("running").await;
    }
    // The undo fails, too: the snapshot's state shows it. It can be removed, but not used.
    fail_next(&scene, Verb::Snapshot, Failure::After(broken()));
    fail_next(&scene, Verb::RemoveSnapshot, Failure::Before(broken()));
    assert_refused(&scene.post_snapshot(json!({})).await, 500, Some("SNAPSHOT_FAILED"), text);
    let left = scene.snapshots().await;
    let [left] = &left[..] else { panic!("{left:?}") };
    assert_eq!((&left["state"], &left["size_bytes"]), (&json!("creating"), &json!(null)));
    let id = left["id"].as_str().expect("an id");
    assert_refused(
        &scene.roll_back(id).await,
        409,
        Some("CONFLICT"),
        "The snapshot is not ready (state: creating)",
    );
    let path = format!("/computers/{}/snapshots/{id}", scene.id);
    fail_next(&scene, Verb::RemoveSnapshot, Failure::Before(broken()));
    assert_refused(
        &scene.controller.delete(&path).await,
        500,
        Some("SNAPSHOT_FAILED"),
        "The snapshot could not be removed",
    );
    assert_eq!(scene.snapshots().await[0]["state"], "deleting");
    assert_eq!(scene.controller.delete(&path).await.status, 200);
    assert!(scene.snapshots().await.is_empty());
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_fails_leaves_the_computer_as_it_was() {
    let scene = Scene::boot().await;
    scene.write_note("early");
    let snapshot = scene.create_snapshot(true).await;
    scene.write_note("late");
    let text = "Computer could not be rolled back";
    let full = "Computer could not be rolled back: the host is short of disk space";
    let damaged = "The snapshot is damaged or missing; the computer is as it was";
    for (error, status, code, text) in [
        (broken(), 500, "SNAPSHOT_FAILED", text),
        (EngineError::NoCapacity(Shortage::DiskSpace, "x".to_owned()), 503, "no_capacity", full),
        (EngineError::Damaged("x".to_owned()), 503, "snapshot_unavailable", damaged),
    ] {
        assert_eq!(scene.count().await, 1);
        fail_next(&scene, Verb::Rollback, Failure::Before(error.clone()));
        assert_refused(&scene.roll_back(&snapshot).await, status, Some(code), text);
        scene.assert_status("running").await;
        assert_eq!(
            (scene.read_note().as_str(), scene.count().await),
            ("late", 1),
            "a new boot of the unchanged disk"
        );
        assert!(scene.row().await.rollback_to.is_none());

        scene.suspend().await;
        fail_next(&scene, Verb::Rollback, Failure::Before(error));
        assert_refused(&scene.roll_back(&snapshot).await, status, Some(code), text);
        scene.assert_status("suspended").await;
        assert_eq!(scene.count().await, 2, "the memory is unchanged");
        assert_eq!(scene.ask("restart").await.status, 200);
        scene.controller.until_status(&scene.id, "running").await;
    }
    // What can be known before is checked before: the computer does not even stop.
    for (error, code, text) in [
        (EngineError::NoCapacity(Shortage::DiskSpace, "x".to_owned()), "no_capacity", full),
        (EngineError::Damaged("x".to_owned()), "snapshot_unavailable", damaged),
    ] {
        let (stops, count) = (scene.controller.engine.calls(Verb::Stop), scene.count().await);
        fail_next(&scene, Verb::CheckCapacity, Failure::Before(error));
        assert_refused(&scene.roll_back(&snapshot).await, 503, Some(code), text);
        scene.assert_status("running").await;
        assert_eq!((scene.controller.engine.calls(Verb::Stop), scene.count().await), (stops, count + 1));
    }
    // The stop fails: the status is `error`, and a further rollback works.
    fail_next(&scene, Verb::Stop, Failure::Before(broken()));
    assert_refused(&scene.roll_back(&snapshot).await, 500, Some("SNAPSHOT_FAILED"), text);
    scene.assert_status("error").await;
    assert!(scene.row().await.rollback_to.is_none());
    scene.assert_roll_back(&snapshot, "suspended").await;
    assert_eq!((scene.read_note().as_str(), scene.count().await), ("early", 1));
    // The resume fails: the computer stays suspended and can be resumed later.
    fail_next(&scene, Verb::Resume, Failure::Before(broken()));
    assert_refused(
        &scene.roll_back(&snapshot).await,
        503,
        Some("wake_failed"),
        "Computer could not be woken",
    );
    scene.assert_status("suspended").await;
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_meanwhile_waits_for_its_turn() {
    let scene = Scene::boot().await;
    scene.write_note("early");
    let snapshot = scene.create_snapshot(false).await;
    fail_next(&scene, Verb::Snapshot, Failure::Delay(Duration::from_millis(300)));
    let started = async {
        let calls = hotdesk::base::wait::until(Duration::from_secs(30), || async {
            (scene.controller.engine.calls(Verb::Snapshot) == 2).then_some(())
        });
        calls.await.expect("a running snapshot");
    };
    let others = async {
        started.await;
        scene.assert_status("running").await;
        tokio::join!(scene.roll_back(&snapshot), scene.roll_back(&snapshot))
    };
    let (created, (first, second)) = tokio::join!(scene.post_snapshot(json!({"memory": true})), others);
    assert_eq!((created.status, first.status, second.status), (201, 200, 200));
    scene.assert_status("running").await;
    assert_eq!(scene.snapshots().await.len(), 2);
}
