//! Moves of computers between hosts.

use hotdesk::base::wait;
use hotdesk::engine::simulated::{FIRST_HOST, Failure, Fault, SECOND_HOST, Verb};
use hotdesk::engine::{Capabilities, EngineError};
use serde_json::json;

use super::{DRAIN_TIMEOUT, Scene};
use crate::harness::simulation::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_runs_moves_with_its_memory() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    let id = scene.computer_on("desk", "m1").await;
    let before = scene.count(&id).await;
    let moved = scene.move_to(&id, None).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    let expected = json!({"id": id, "host": "m2", "status": "running", "moving": false});
    assert_eq!(moved.body, expected);
    assert_eq!(scene.at(&id), "m2");
    assert_eq!(scene.count(&id).await, before + 1, "the agent goes on");
    assert_eq!(scene.record(&id).await["host"], "m2");
    // It is there, so nothing ends.
    let suspends = scene.controller.engine.calls(Verb::Suspend);
    assert_eq!(scene.move_to(&id, Some("m2")).await.body, expected);
    assert_eq!(scene.controller.engine.calls(Verb::Suspend), suspends);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_whose_memory_cannot_be_saved_boots_again_with_its_disk() {
    let capabilities = Capabilities { suspend: false, encrypt: false, ..Capabilities::ALL };
    let setup = Setup { capabilities: Some(capabilities), ..Setup::default() };
    let scene = Scene::boot_with(&["m1", "m2"], setup).await;
    let id = scene.computer_on("desk", "m1").await;
    scene.count(&id).await;
    std::fs::write(scene.controller.disk(&id).join("note"), "kept").expect("a file on its disk");
    let password = scene.record(&id).await["vnc_password"].clone();
    let moved = scene.move_to(&id, Some("m2")).await;
    assert_eq!((moved.status, &moved.body["status"]), (200, &json!("running")), "{}", moved.body);
    assert_eq!(scene.at(&id), "m2");
    assert_eq!(scene.count(&id).await, 1, "the agent began anew");
    assert_eq!(std::fs::read_to_string(scene.controller.disk(&id).join("note")).expect("a file"), "kept");
    assert_ne!(scene.record(&id).await["vnc_password"], password, "a boot changes the password");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_does_not_run_moves_and_does_not_run() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    for (verb, status) in [("stop", "stopped"), ("suspend", "suspended")] {
        let id = scene.computer_on(verb, "m1").await;
        assert_eq!(scene.ask(&id, verb).await.status, 200);
        scene.controller.until_status(&id, status).await;
        let boots = scene.controller.engine.calls(Verb::Start) + scene.controller.engine.calls(Verb::Resume);
        let moved = scene.move_to(&id, Some("m2")).await;
        assert_eq!((moved.status, &moved.body["status"]), (200, &json!(status)), "{}", moved.body);
        assert_eq!(scene.at(&id), "m2");
        let after = scene.controller.engine.calls(Verb::Start) + scene.controller.engine.calls(Verb::Resume);
        assert_eq!(after, boots);
        assert_eq!(scene.ask(&id, "start").await.status, 200);
        scene.controller.until_status(&id, "running").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verbs_of_a_computer_that_is_being_moved_are_told_to_come_back() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    let running = scene.computer_on("desk", "m1").await;
    let stopped = scene.computer_on("stopped", "m1").await;
    assert_eq!(scene.ask(&stopped, "stop").await.status, 200);
    scene.controller.until_status(&stopped, "stopped").await;
    for (id, during, verbs) in [
        (
            &running,
            "restarting",
            &["stop", "start", "restart", "suspend", "resume", "ensure-running", "click", "snapshots"][..],
        ),
        (&stopped, "stopped", &["start", "stop", "restart", "ensure-running"][..]),
    ] {
        let before = scene.controller.engine.calls(Verb::MoveMachine);
        let held = scene.hold_next(Verb::MoveMachine);
        let requests = async {
            let reached = wait::until(DRAIN_TIMEOUT, || async {
                (scene.controller.engine.calls(Verb::MoveMachine) > before).then_some(())
            });
            assert!(reached.await.is_some(), "the move does not begin");
            assert_eq!(scene.controller.status(id).await, during);
            let again = scene.move_to(id, None).await;
            assert_eq!((again.status, &again.body["code"]), (409, &json!("migrating")), "{}", again.body);
            for verb in verbs {
                let answer = scene.ask(id, verb).await;
                assert_eq!(
                    (answer.status, &answer.body["code"]),
                    (409, &json!("migrating")),
                    "{verb}: {}",
                    answer.body
                );
            }
            let deleted = scene.controller.delete(&format!("/computers/{id}")).await;
            assert_eq!((deleted.status, &deleted.body["code"]), (409, &json!("migrating")));
            held.cancel();
        };
        let (moved, ()) = tokio::join!(scene.move_to(id, None), requests);
        assert_eq!((moved.status, &moved.body["host"]), (200, &json!("m2")), "{}", moved.body);
        let goal = if during == "stopped" { "stopped" } else { "running" };
        scene.controller.until_status(id, goal).await;
        assert_eq!(scene.at(id), "m2");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_fails_leaves_the_computer_running_where_it_was() {
    let scene = Scene::boot(&["m1", "m2", "m3"]).await;
    let id = scene.computer_on("desk", "m1").await;
    let before = scene.count(&id).await;
    let call = scene.controller.engine.calls(Verb::MoveMachine) + 1;
    let failure = Failure::Before(EngineError::failed("send the disk", "on purpose"));
    scene.controller.engine.plan(Fault { verb: Verb::MoveMachine, call, failure });
    let failed = scene.move_to(&id, Some("m2")).await;
    assert_eq!((failed.status, &failed.body["error"]), (500, &json!("Computer could not be moved")));
    scene.controller.until_status(&id, "running").await;
    assert_eq!((scene.at(&id), scene.count(&id).await), ("m1".to_owned(), before + 1));

    scene.controller.host.set_online("m3", false);
    for (host, status) in [("m3", 409), ("m4", 404), ("", 404)] {
        let refused = scene.move_to(&id, Some(host)).await;
        assert_eq!(refused.status, status, "{host}: {}", refused.body);
    }
    let missing = scene.move_to("00000000-0000-4000-8000-000000000000", None).await;
    assert_eq!(missing.status, 404, "{}", missing.body);
    assert_eq!(scene.controller.status(&id).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_a_crash_interrupts_is_completed_by_the_next_controller() {
    let mut scene = Scene::boot(&["m1", "m2"]).await;
    let id = scene.computer_on("desk", "m1").await;
    let before = scene.count(&id).await;
    let call = scene.controller.engine.calls(Verb::MoveMachine) + 1;
    scene.controller.engine.plan(Fault {
        verb: Verb::MoveMachine,
        call,
        failure: Failure::Never { done: false },
    });
    let stuck = wait::until(DRAIN_TIMEOUT, || async { (scene.controller.engine.stuck() == 1).then_some(()) });
    tokio::select! {
        answer = scene.move_to(&id, Some("m2")) => panic!("{}", answer.body),
        stuck = stuck => assert!(stuck.is_some()),
    }
    scene.controller.kill().await;
    scene.controller.until_status(&id, "running").await;
    assert_eq!((scene.at(&id), scene.count(&id).await), ("m2".to_owned(), before + 1));
    assert_eq!(scene.record(&id).await["host"], "m2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_somebody_else_moved_is_found_at_the_next_start() {
    let mut scene = Scene::boot(&["m1", "m2"]).await;
    let id = scene.computer_on("desk", "m1").await;
    scene.controller.host.put_on(id.parse().expect("an id"), "m2");
    scene.controller.restart().await;
    let found =
        wait::until(DRAIN_TIMEOUT, || async { (scene.record(&id).await["host"] == "m2").then_some(()) });
    assert!(found.await.is_some(), "{}", scene.record(&id).await);
    assert_eq!(scene.controller.status(&id).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_ends_when_its_host_is_gone_and_the_computer_begins_from_its_replica() {
    let capabilities = Capabilities { suspend: false, encrypt: false, ..Capabilities::ALL };
    let setup = Setup { capabilities: Some(capabilities), ..Setup::default() };
    let scene = Scene::boot_with(&[FIRST_HOST, SECOND_HOST], setup).await;
    let id = scene.computer_on("desk", FIRST_HOST).await;
    let path = format!("/computers/{id}");
    let asked = scene.controller.patch(&path, json!({"replicate": {"interval_minutes": 60}})).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    let copied =
        wait::until(DRAIN_TIMEOUT, || async { scene.record(&id).await["replica"].is_object().then_some(()) });
    assert!(copied.await.is_some(), "{}", scene.record(&id).await);

    let before = scene.controller.engine.calls(Verb::MoveMachine);
    let held = scene.hold_next(Verb::MoveMachine);
    let dies = async {
        let reached = wait::until(DRAIN_TIMEOUT, || async {
            (scene.controller.engine.calls(Verb::MoveMachine) > before).then_some(())
        });
        assert!(reached.await.is_some(), "the move does not begin");
        scene.controller.host.cut();
        scene.controller.host.set_online(SECOND_HOST, false);
        held.cancel();
    };
    let (moved, ()) = tokio::join!(scene.move_to(&id, Some(SECOND_HOST)), dies);
    assert_eq!(moved.status, 500, "{}", moved.body);
    // Nobody knows whether its machine was moved.
    assert_eq!(scene.controller.status(&id).await, "restarting");
    let refused = scene.ask(&id, "stop").await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("migrating")), "{}", refused.body);

    let confirmed = format!("/operator/hosts/{FIRST_HOST}/gone");
    let gone = scene.controller.post(&confirmed, json!({"confirm": FIRST_HOST})).await;
    assert_eq!((gone.status, &gone.body["computers"]), (200, &json!(1)), "{}", gone.body);
    scene.controller.until_status(&id, "stopped").await;
    assert_eq!(scene.ask(&id, "start").await.status, 200);
    scene.controller.until_status(&id, "running").await;
    let record = scene.record(&id).await;
    assert_eq!((&record["host"], &record["recovered"]["from"]), (&json!(SECOND_HOST), &json!(FIRST_HOST)));
}
