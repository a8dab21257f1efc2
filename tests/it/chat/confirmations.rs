//! Confirmations of calls after a crash and on a changed screen, and what threads say of ends and costs.

use serde_json::{Value, json};

use super::scene::{Scene, click, command, computer, pictures};
use crate::harness::caller::HttpAnswer;
use crate::harness::models::Turn;

async fn approve(scene: &Scene, thread: &str) -> HttpAnswer {
    let approval = json!({"computer_id": scene.computer, "thread_id": thread, "approve": true});
    scene.controller.post("/v1/chat/completions", approval).await
}

/// Lets a run end before a call of the tool or action `confirm`. Returns its thread.
async fn until_it_waits(scene: &Scene, confirm: &str) -> String {
    let asked = scene.ask("go", json!({"confirm": [confirm]})).await;
    assert_eq!(asked.body["orgo"]["ended"], "confirm", "{}", asked.body);
    asked.body["orgo"]["thread_id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_crash_left_without_a_result_is_not_executed_again() {
    let scene = Scene::new(vec![command("rm x"), Turn::text("Again.")]).await;
    let thread = until_it_waits(&scene, "bash").await;
    assert_eq!(scene.thread(&thread).await["run"], "confirm");
    // The run of the approval was killed while it executed the call.
    let store = scene.controller.store().await;
    store.begin_run(thread.parse().expect("an id")).await.expect("a run");
    let refused = approve(&scene, &thread).await;
    let error = &refused.body["error"];
    assert_eq!((refused.status, &error["code"]), (409, &json!("no_pending_call")), "{}", refused.body);
    assert_eq!(scene.agent.commands().len(), 0);
    let told = scene.ask("go on", json!({"thread_id": thread})).await;
    assert_eq!((told.status, scene.agent.commands().len()), (200, 0), "{}", told.body);
    assert!(Value::from(scene.last_messages()).to_string().contains("There is no result"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_call_refers_to_the_picture_that_the_model_saw() {
    let double = computer(json!({"action": "double_click", "coordinate": [10, 20]}));
    let scene = Scene::new(vec![click(), double, Turn::text("I look again.")]).await;
    let thread = until_it_waits(&scene, "double_click").await;
    scene.agent.fail_next("unknown_frame");
    let approved = approve(&scene, &thread).await;
    assert_eq!(approved.status, 200, "{}", approved.body);
    let sent = scene.agent.batches()[1]["actions"][0].clone();
    // The picture after the click, and not the one with which the second run began.
    assert_eq!((&sent["frame"], &sent["refuse_stale"]), (&json!("frame-1"), &json!(true)), "{sent}");
    let seen = scene.last_messages();
    assert!(Value::from(seen.clone()).to_string().contains("has changed at this place"), "{seen:?}");
    assert!(pictures(&seen) > 0, "with a new picture");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_after_an_action_leaves_the_picture_of_the_action() {
    let both = click().then_call("bash", &json!({"command": "ls"}));
    let scene = Scene::new(vec![both, Turn::text("Done.")]).await;
    assert_eq!(scene.ask("go", json!({})).await.status, 200);
    let batch = scene.agent.batches()[0].clone();
    assert!(batch["actions"][0]["settle"]["screenshot"].is_object(), "{batch}");
    assert_eq!(batch["groups"], json!([1]));
    assert_eq!(pictures(&scene.last_messages()), 2, "the first picture and the action's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_says_why_its_run_ended_and_what_all_turns_cost() {
    let scene = Scene::new(vec![Turn::text("Hello."), command("ls"), command("ls")]).await;
    let answer = scene.ask("hello", json!({})).await;
    let thread = answer.body["orgo"]["thread_id"].as_str().expect("an id").to_owned();
    let read = scene.thread(&thread).await;
    // 110 tokens at a dollar for a million.
    assert_eq!((&read["run"], &read["cost_microcents"]), (&json!("done"), &json!(11_000)), "{read}");
    assert_eq!((&read["usage"]["input_tokens"], &read["usage"]["output_tokens"]), (&json!(100), &json!(10)));
    let bounded = scene.ask("go", json!({"thread_id": thread, "max_steps": 1})).await;
    assert_eq!(bounded.body["orgo"]["ended"], "max_steps", "{}", bounded.body);
    let read = scene.thread(&thread).await;
    assert_eq!((&read["run"], &read["cost_microcents"]), (&json!("max_steps"), &json!(33_000)), "{read}");
}
