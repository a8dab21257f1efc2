//! Threads whose controller ends in the middle of a run.

use hotdesk::domain::desktop::thread::RunOutcome;
use hotdesk::store::Store;
use serde_json::{Value, json};

use super::{Scene, id, play};
use crate::harness::controller::RunningController;

/// Checks a thread after the end of the controller that played its run.
fn check_interrupted(thread: &Value, steps: &Value) {
    assert_eq!((&thread["run"], &thread["step_count"]), (&json!("interrupted"), &json!(1)), "{thread}");
    assert_eq!(thread["messages"][1]["content"], "I look.", "the thread says what was done");
    assert!(steps["steps"][0]["screenshot"].is_string(), "{steps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_run_is_interrupted_and_can_be_continued() {
    let mut scene = Scene::new().await;
    scene.play().await;
    let ended = scene.controller.create("/chat/threads", json!({"desktopId": scene.computer})).await;
    let ended = ended["remoteId"].as_str().expect("an id").to_owned();
    let store = scene.controller.store().await;
    play(&store, &scene.controller.data_dir(), &ended).await;
    store.end_run(id(&ended), &RunOutcome::Done).await.expect("an end");
    let running = scene.controller.get(&scene.path("")).await.body;
    assert_eq!(running["run"], "running");
    scene.controller.kill().await;
    let thread = scene.controller.get(&scene.path("")).await.body;
    check_interrupted(&thread, &scene.controller.get(&scene.path("/steps")).await.body);
    assert_eq!(thread["updated_at"], running["updated_at"], "the order of the list stays");
    let other = scene.controller.get(&format!("/chat/threads/{ended}")).await.body;
    assert_eq!(other["run"], "done");
    // Another run goes on where the first ended.
    scene.play().await;
    let store = scene.controller.store().await;
    store.end_run(id(&scene.thread), &RunOutcome::Done).await.expect("an end");
    let thread = scene.controller.get(&scene.path("")).await.body;
    assert_eq!((&thread["run"], &thread["step_count"]), (&json!("done"), &json!(2)));
    let replaced = scene.controller.patch(&scene.path(""), json!({"messages": []})).await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_controller_leaves_its_runs_interrupted() {
    let Some((mut controller, _, computer)) = RunningController::with_a_computer().await else { return };
    let created = controller.create("/chat/threads", json!({"desktopId": computer})).await;
    let thread = created["remoteId"].as_str().expect("an id").to_owned();
    let store = Store::open(&controller.store_file()).await.expect("the store opens twice");
    play(&store, &controller.data_dir(), &thread).await;
    store.close().await;
    controller.kill();
    controller.start_again().await;
    let path = format!("/chat/threads/{thread}");
    let steps = controller.get(&format!("{path}/steps")).await.body;
    check_interrupted(&controller.get(&path).await.body, &steps);
    assert_eq!(controller.blobs("step-pictures").len(), 1);
    assert_eq!(controller.delete(&path).await.status, 200);
    assert!(controller.blobs("step-pictures").is_empty());
}
