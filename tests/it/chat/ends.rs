//! Ends of runs that their client, their access or the controller causes, and runs at the same time.

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Scene, TIMEOUT, command, events};
use crate::harness::agent::fetch_json;
use crate::harness::models::Turn;

/// Waits until the model has no request in progress.
async fn until_model_is_idle(scene: &Scene) {
    let idle = wait::until(TIMEOUT, || async { (scene.models.open_streams() == 0).then_some(()) });
    assert!(idle.await.is_some(), "the model still answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disconnects_ends_its_run() {
    for turn in [Turn::silent(), Turn::endless()] {
        let scene = Scene::new(vec![command("ls"), turn]).await;
        let (response, thread) = scene.stream("go", json!({})).await;
        scene.until_asked(2).await;
        drop(response);
        let read = scene.until_run(&thread, "cancelled").await;
        assert!(read["cost_microcents"].as_i64() >= Some(11_000), "the turn before it: {read}");
        until_model_is_idle(&scene).await;
        assert_eq!(scene.steps(&thread).await.len(), 1, "the thread says what was done");
        scene.models.push(Turn::text("Again."));
        let again = scene.ask("go on", json!({"thread_id": thread})).await;
        assert_eq!(again.status, 200, "the screen is free: {}", again.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_plain_answer_that_disconnects_ends_its_run() {
    let scene = Scene::new(vec![Turn::silent()]).await;
    let asking = scene.ask("go", json!({}));
    tokio::select! {
        answer = asking => panic!("an answer without a model: {}", answer.body),
        () = scene.until_asked(1) => {}
    }
    until_model_is_idle(&scene).await;
    let threads = scene.controller.get(&format!("/chat/threads?desktopId={}", scene.computer)).await;
    let thread = threads.body["threads"][0]["id"].as_str().expect("a thread").to_owned();
    scene.until_run(&thread, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_the_background_goes_on_without_its_client() {
    let scene =
        Scene::new(vec![Turn::text("one two three").slowly(std::time::Duration::from_millis(100))]).await;
    scene.models.push(Turn::text("unused"));
    let (response, thread) = scene.stream("go", json!({"background": true})).await;
    scene.until_asked(1).await;
    drop(response);
    let thread = scene.until_run(&thread, "done").await;
    assert!(thread["messages"].to_string().contains("one two three"), "{thread}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_has_one_run_and_screens_have_theirs_at_the_same_time() {
    let scene = Scene::new(vec![Turn::silent(), Turn::silent(), Turn::text("Third.")]).await;
    let (first, thread) = scene.stream("go", json!({})).await;
    scene.until_asked(1).await;
    let second = scene.ask("go too", json!({})).await;
    let error = &second.body["error"];
    assert_eq!((second.status, &error["code"]), (409, &json!("run_in_progress")), "{}", second.body);
    assert_eq!((&error["type"], &error["thread_id"]), (&json!("conflict_error"), &json!(thread)));
    assert!(error["message"].as_str().is_some_and(|text| text.contains(&thread)), "{error}");
    let (other, _) = scene.stream("go there", json!({"screen": "screen-100"})).await;
    scene.until_asked(2).await;
    let continued = scene.ask("both", json!({"screen": "screen-101", "thread_id": thread})).await;
    assert_eq!(continued.status, 409, "a thread has one run: {}", continued.body);
    drop((first, other));
    scene.until_run(&thread, "cancelled").await;
    let third = wait::until(TIMEOUT, || async {
        let answer = scene.ask("now", json!({})).await;
        (answer.status != 409).then_some(answer)
    });
    assert_eq!(third.await.expect("a free screen").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_with_the_key_that_began_it() {
    let scene = Scene::new(vec![Turn::silent()]).await;
    let key = scene.controller.create("/keys", json!({"name": "run"})).await;
    let text = key["key"].as_str().or_else(|| key["api_key"].as_str()).expect("the key").to_owned();
    let mut body = scene.body("go", json!({"background": true}));
    body["stream"] = json!(true);
    let request = scene.controller.request_with(&text, Method::POST, "/v1/chat/completions").json(&body);
    let response = request.send().await.expect("an answer");
    let thread = response.headers()["x-thread-id"].to_str().expect("text").to_owned();
    scene.until_asked(1).await;
    let id = key["id"].as_str().expect("an id");
    assert_eq!(scene.controller.delete(&format!("/keys/{id}")).await.status, 200);
    until_model_is_idle(&scene).await;
    let thread = scene.until_run(&thread, "failed").await;
    assert!(thread["failure"].as_str().is_some_and(|text| text.contains("key")), "{thread}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_stops_ends_its_runs_and_the_thread_can_be_continued() {
    let mut scene = Scene::new(vec![command("ls"), Turn::silent(), Turn::text("Again.")]).await;
    let (response, thread) = scene.stream("go", json!({})).await;
    scene.until_asked(2).await;
    let (events, ()) = tokio::join!(events(response), scene.controller.end());
    let error = &events.last().expect("an event")["error"];
    assert_eq!((&error["code"], &error["steps"]), (&json!("unavailable"), &json!(1)), "{events:?}");
    scene.controller.begin(&[]).await;
    scene.controller.until_status(&scene.computer, "running").await;
    assert_eq!(scene.thread(&thread).await["run"], "interrupted");
    assert_eq!(scene.steps(&thread).await.len(), 1);
    let again = scene.ask("go on", json!({"thread_id": thread})).await;
    assert_eq!(again.status, 200, "{}", again.body);
    assert!(Value::from(scene.last_messages()).to_string().contains("[exit code 0]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_controller_that_is_killed_can_be_continued() {
    let mut scene = Scene::new(vec![command("ls"), Turn::silent(), Turn::text("Again.")]).await;
    let (_response, thread) = scene.stream("go", json!({})).await;
    scene.until_asked(2).await;
    // The rows of a controller that was killed.
    let dead = format!("UPDATE threads SET run_state = 'running', failure = NULL WHERE id = '{thread}'");
    scene.controller.end().await;
    scene.controller.sql(&dead).await;
    scene.controller.begin(&[]).await;
    scene.controller.until_status(&scene.computer, "running").await;
    assert_eq!(scene.thread(&thread).await["run"], "interrupted");
    let again = scene.ask("go on", json!({"thread_id": thread})).await;
    assert_eq!((again.status, scene.steps(&thread).await.len()), (200, 1), "{}", again.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_when_its_thread_or_its_computer_is_deleted() {
    let slow = std::time::Duration::from_millis(300);
    let calls = || vec![command("a").slowly(slow), command("b").slowly(slow), command("c").slowly(slow)];
    let scene = Scene::new(calls()).await;
    let (response, thread) = scene.stream("go", json!({})).await;
    scene.until_asked(1).await;
    let removed = scene.controller.request(Method::DELETE, &format!("/chat/threads/{thread}"));
    assert_eq!(fetch_json(removed).await.status, 200);
    let told = events(response).await;
    assert!(told.last().expect("an event")["error"]["message"].is_string(), "{told:?}");

    let scene = Scene::new(calls()).await;
    let (response, _) = scene.stream("go", json!({})).await;
    scene.until_asked(1).await;
    let removed = scene.controller.delete(&format!("/computers/{}", scene.computer)).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let told = events(response).await;
    assert!(told.last().expect("an event")["error"]["message"].is_string(), "{told:?}");
}
