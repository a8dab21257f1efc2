//! Drains of hosts, and their end.

use hotdesk::base::wait;
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::json;

use super::{DRAIN_TIMEOUT, Scene};

/// Computers on `m1` with each status that stays, by the status.
async fn computers(scene: &Scene) -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    for (name, verb, status) in
        [("one", None, "running"), ("two", Some("stop"), "stopped"), ("three", Some("suspend"), "suspended")]
    {
        let id = scene.computer_on(name, "m1").await;
        if let Some(verb) = verb {
            assert_eq!(scene.ask(&id, verb).await.status, 200);
            scene.controller.until_status(&id, status).await;
        }
        all.push((id, status));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_moves_every_computer_and_ends_as_drained() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    let computers = computers(&scene).await;
    let before = scene.count(&computers[0].0).await;
    let begun = scene.controller.post("/operator/hosts/m1/drain", json!({})).await;
    assert_eq!((begun.status, &begun.body["name"]), (200, &json!("m1")), "{}", begun.body);
    scene.until_host("m1", "drained").await;
    for (id, status) in &computers {
        assert_eq!(
            (scene.at(id), scene.controller.status(id).await),
            ("m2".to_owned(), (*status).to_owned())
        );
        assert_eq!(scene.record(id).await["host"], "m2");
    }
    assert_eq!(scene.count(&computers[0].0).await, before + 1, "its memory is kept");
    assert_eq!(scene.host("m1").await["computers"], 0);

    // It takes none until it is restored, and the last one cannot be drained.
    assert_eq!(scene.computer("four").await.1, "m2");
    let last = scene.controller.post("/operator/hosts/m2/drain", json!({})).await;
    assert_eq!(last.status, 409, "{}", last.body);
    let refused = scene.move_to(&computers[0].0, Some("m1")).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    let restored = scene.controller.post("/operator/hosts/m1/restore", json!({})).await;
    assert_eq!((restored.status, &restored.body["status"]), (200, &json!("online")), "{}", restored.body);
    assert_eq!(scene.computer("five").await.1, "m1");
    for verb in ["drain", "restore"] {
        let unknown = scene.controller.post(&format!("/operator/hosts/m9/{verb}"), json!({})).await;
        assert_eq!(unknown.status, 404, "{}", unknown.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_continues_after_the_controller_was_killed() {
    let mut scene = Scene::boot(&["m1", "m2"]).await;
    let computers = computers(&scene).await;
    let call = scene.controller.engine.calls(Verb::MoveMachine) + 2;
    let failure = Failure::Never { done: true };
    scene.controller.engine.plan(Fault { verb: Verb::MoveMachine, call, failure });
    assert_eq!(scene.controller.post("/operator/hosts/m1/drain", json!({})).await.status, 200);
    let stuck = wait::until(DRAIN_TIMEOUT, || async { (scene.controller.engine.stuck() == 1).then_some(()) });
    assert!(stuck.await.is_some(), "the drain does not reach the second computer");
    scene.controller.kill().await;
    scene.until_host("m1", "drained").await;
    for (id, status) in &computers {
        scene.controller.until_status(id, status).await;
        assert_eq!(scene.at(id), "m2");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_cannot_move_a_computer_says_why_and_leaves_it_running() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    let id = scene.computer_on("desk", "m1").await;
    let call = scene.controller.engine.calls(Verb::MoveMachine) + 1;
    let failure = Failure::Before(EngineError::failed("send the disk", "on purpose"));
    scene.controller.engine.plan(Fault { verb: Verb::MoveMachine, call, failure });
    assert_eq!(scene.controller.post("/operator/hosts/m1/drain", json!({})).await.status, 200);
    let told = wait::until(DRAIN_TIMEOUT, || async {
        let host = scene.host("m1").await;
        let message = host["message"].as_str().unwrap_or_default().to_owned();
        (!message.is_empty()).then_some((host, message))
    });
    let (host, message) = told.await.expect("a reason");
    assert_eq!(host["status"], "draining");
    assert!(message.contains(&id) && message.contains("could not be moved"), "{message}");
    assert!(!message.contains("on purpose"), "{message}");
    scene.controller.until_status(&id, "running").await;
    assert_eq!(scene.at(&id), "m1");
    // Each attempt ends its machine, so the next one is minutes later. A restore ends the drain at once.
    let restored = scene.controller.post("/operator/hosts/m1/restore", json!({})).await;
    assert_eq!((restored.status, &restored.body["status"]), (200, &json!("online")), "{}", restored.body);
    assert_eq!(restored.body["message"], "");
}
