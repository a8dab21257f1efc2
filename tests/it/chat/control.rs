//! Runs that wait for people: for a screen that somebody else holds, and for help. Runs that are stopped.

use hotdesk::base::ids::{AccountId, KeyId};
use hotdesk::base::wait;
use hotdesk::domain::identity::access::actor::Actor;
use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Scene, TIMEOUT, click, events, pictures};
use crate::harness::agent::fetch_json;
use crate::harness::caller::HttpAnswer;
use crate::harness::models::Turn;

/// A call that asks for help.
fn ask_for_help(message: &str) -> Turn {
    Turn::call("ask_for_help", &json!({ "message": message }))
}

fn a_key() -> Actor {
    Actor::Key(KeyId::random())
}

fn a_person() -> Actor {
    Actor::Person(AccountId::random())
}

/// Waits until the run of a thread waits for this.
async fn until_waiting(scene: &Scene, thread: &str, what: &str) -> Value {
    let found = wait::until(TIMEOUT, || async {
        let thread = scene.thread(thread).await;
        (thread["waiting_for"] == what).then_some(thread)
    });
    match found.await {
        Some(thread) => thread,
        None => panic!("the run does not wait for {what}: {}", scene.thread(thread).await),
    }
}

/// Results of calls in the last request to the model.
fn results(scene: &Scene) -> Vec<String> {
    let messages = scene.last_messages();
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools.map(|message| message["content"].as_str().expect("a text").to_owned()).collect()
}

/// What a stream told of waits.
fn progress(told: &[Value]) -> Vec<Value> {
    told.iter().map(|event| event["progress"].clone()).filter(|progress| !progress.is_null()).collect()
}

async fn stop(scene: &Scene, thread: &str) -> HttpAnswer {
    fetch_json(scene.controller.request(Method::POST, &format!("/chat/threads/{thread}/stop"))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_a_held_screen_and_goes_on_with_the_note_and_a_new_picture() {
    let both = click().then_call("computer", &json!({"action": "key", "text": "a"}));
    let scene = Scene::new(vec![both, Turn::text("Done.")]).await;
    let (control, key) = (scene.agent.control(), a_key());
    control.hold(key);
    let (response, thread) = scene.stream("click", json!({})).await;
    let waiting = until_waiting(&scene, &thread, "control").await;
    let holder = json!({"kind": "key", "id": key.id()});
    assert_eq!((&waiting["run"], &waiting["holder"]), (&json!("running"), &holder), "{waiting}");
    let listed = scene.controller.get(&format!("/chat/threads?desktopId={}", scene.computer)).await;
    assert_eq!(listed.body["threads"][0]["waiting_for"], "control", "{}", listed.body);
    assert_eq!(scene.models.requests().len(), 1, "the model is not asked meanwhile");
    // Another holder is told, too, and the wait goes on.
    let person = a_person();
    control.hold(person);
    control.hand_back(person, "Signed in. \"Go on\".");
    let told = events(response).await;
    let told_of = progress(&told);
    assert_eq!(told_of.first(), Some(&json!({"waiting_for": "control", "holder": holder})), "{told_of:?}");
    assert_eq!(told_of.iter().next_back(), Some(&json!({"waiting_for": null})), "{told_of:?}");
    let done = told.iter().rev().find(|event| event["orgo"].is_object()).expect("an end");
    assert_eq!((&done["orgo"]["ended"], &done["orgo"]["steps"]), (&json!("done"), &json!(1)), "{done}");
    let results = results(&scene);
    assert!(results[0].contains("had control of the screen"), "{results:?}");
    assert!(results[0].contains(r#"data: "Signed in. \"Go on\".""#), "{results:?}");
    assert!(results[1].contains("a person may have changed the screen"), "{results:?}");
    assert_eq!(pictures(&scene.last_messages()), 2, "the first picture and a new one");
    assert_eq!(scene.agent.batches().len(), 1, "the call after the refused one was not tried");
    assert_eq!(scene.agent.actors(), [format!("thread:{thread}")]);
    let read = scene.until_run(&thread, "done").await;
    assert!(read["waiting_for"].is_null() && read["holder"].is_null(), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_waited_as_long_as_it_was_told_ends_and_can_be_continued() {
    for seconds in [0, 1] {
        let both = click().then_call("bash", &json!({"command": "ls"}));
        let scene = Scene::new(vec![both, click(), Turn::text("Further.")]).await;
        let key = a_key();
        scene.agent.control().hold(key);
        let answer = scene.ask("click", json!({"control_wait_seconds": seconds})).await;
        let (choice, run) = (&answer.body["choices"][0], &answer.body["orgo"]);
        assert_eq!((answer.status, &choice["finish_reason"]), (200, &json!("length")), "{}", answer.body);
        assert_eq!((&run["ended"], &run["steps"]), (&json!("control_held"), &json!(1)), "{}", answer.body);
        assert_eq!(scene.agent.commands().len(), 0);
        let thread = run["thread_id"].as_str().expect("an id");
        let read = scene.thread(thread).await;
        assert_eq!((&read["run"], &read["waiting_for"]), (&json!("control_held"), &Value::Null), "{read}");
        scene.agent.control().hand_back(key, "");
        let further = scene.ask("go on", json!({"thread_id": thread})).await;
        assert_eq!(
            (further.status, &further.body["orgo"]["ended"]),
            (200, &json!("done")),
            "{}",
            further.body
        );
        assert!(results(&scene)[0].contains("This call was refused"), "{:?}", results(&scene));
        assert_eq!(scene.agent.batches().len(), 2, "the click of the second run is the second try");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_with_an_approval_are_kept_when_its_call_meets_a_held_screen() {
    let scene = Scene::new(vec![click()]).await;
    let first = scene.ask("click", json!({"confirm": ["computer"]})).await;
    assert_eq!(first.body["orgo"]["ended"], "confirm", "{}", first.body);
    let thread = first.body["orgo"]["thread_id"].as_str().expect("an id");
    scene.agent.control().hold(a_key());
    let fields = json!({"thread_id": thread, "approve": true, "control_wait_seconds": 0});
    let held = scene.ask("then close it", fields).await;
    assert_eq!(held.body["orgo"]["ended"], "control_held", "{}", held.body);
    let messages = scene.thread(thread).await["messages"].to_string();
    assert!(messages.contains("then close it"), "{messages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_run_ends_when_it_is_stopped_or_its_client_disconnects() {
    for is_stopped in [true, false] {
        for (turn, what) in [(click(), "control"), (ask_for_help("A code."), "help")] {
            let scene = Scene::new(vec![turn]).await;
            if what == "control" {
                scene.agent.control().hold(a_key());
            }
            let fields = json!({"help_wait_seconds": 3600, "background": is_stopped});
            let (response, thread) = scene.stream("go", fields).await;
            until_waiting(&scene, &thread, what).await;
            drop(response);
            if is_stopped {
                let stopped = stop(&scene, &thread).await;
                let expected = json!({"remoteId": thread, "stopped": true, "run": "cancelled"});
                assert_eq!((stopped.status, &stopped.body), (200, &expected), "{what}");
                let again = stop(&scene, &thread).await;
                let expected = json!({"remoteId": thread, "stopped": false, "run": "cancelled"});
                assert_eq!((again.status, &again.body), (200, &expected), "{what}");
            }
            let read = scene.until_run(&thread, "cancelled").await;
            assert!(read["waiting_for"].is_null(), "{read}");
            let steps = scene.steps(&thread).await;
            let result = steps[0]["result"].as_str().unwrap_or_default();
            assert!(result.contains("waited for a person"), "{steps:?}");
            if what == "help" {
                let left = scene.agent.control().state();
                let note = left.last_hand_back.and_then(|last| last.note);
                assert_eq!(
                    (left.help, note.as_deref()),
                    (None, Some("The run has ended")),
                    "it is withdrawn"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_the_background_is_stopped_within_a_turn() {
    let scene = Scene::new(vec![Turn::endless(), Turn::text("Further.")]).await;
    let (response, thread) = scene.stream("go", json!({"background": true})).await;
    scene.until_asked(1).await;
    drop(response);
    let stopped = stop(&scene, &thread).await;
    assert_eq!((&stopped.body["stopped"], &stopped.body["run"]), (&json!(true), &json!("cancelled")));
    let idle = wait::until(TIMEOUT, || async { (scene.models.open_streams() == 0).then_some(()) });
    assert!(idle.await.is_some(), "the model still answers");
    let further = scene.ask("go on", json!({"thread_id": thread})).await;
    assert_eq!(further.status, 200, "the screen and the thread are free: {}", further.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_asks_a_person_for_help_and_gets_the_answer() {
    let asking = ask_for_help("Type the code from the phone.").then_call("bash", &json!({"command": "ls"}));
    let scene = Scene::new(vec![asking, Turn::text("Thanks.")]).await;
    let (response, thread) = scene.stream("sign in", json!({"help_wait_seconds": 3600})).await;
    let waiting = until_waiting(&scene, &thread, "help").await;
    assert_eq!(waiting["help_message"], "Type the code from the phone.");
    let control = scene.agent.control();
    let asked = control.state().help.expect("a request");
    assert_eq!(asked.message, "Type the code from the phone.");
    assert_eq!(asked.by.and_then(|by| by.id), Some(thread.clone()));
    // Somebody takes the screen first: that is no answer yet.
    let person = a_person();
    control.hold(person);
    control.hand_back(person, "It was 1234.");
    let told = events(response).await;
    let expected = [
        json!({"waiting_for": "help", "message": "Type the code from the phone."}),
        json!({"waiting_for": null}),
    ];
    assert_eq!(progress(&told), expected);
    let results = results(&scene);
    assert!(results[0].starts_with("A person answered."), "{results:?}");
    assert!(results[0].contains(r#""It was 1234.""#), "{results:?}");
    assert!(results[1].contains("may have changed the screen"), "{results:?}");
    assert_eq!((pictures(&scene.last_messages()), scene.agent.commands().len()), (2, 0));
    let tools = scene.models.requests()[0].body["tools"].as_array().expect("tools").len();
    assert_eq!(tools, 3, "the computer, commands, and help");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_learns_that_nobody_answers_and_asks_a_bounded_number_of_times() {
    let scene = Scene::new(vec![ask_for_help("Help."), Turn::text("Then not.")]).await;
    let answer = scene.ask("go", json!({"help_wait_seconds": 1})).await;
    assert_eq!(answer.body["orgo"]["ended"], "done", "{}", answer.body);
    assert!(results(&scene)[0].starts_with("Nobody answered within 1 seconds"), "{:?}", results(&scene));

    let turns = (0..11).map(|_| ask_for_help("Help.")).chain([Turn::text("Enough.")]).collect();
    let scene = Scene::new(turns).await;
    scene.agent.control().answer_at_once();
    let answer = scene.ask("go", json!({"help_wait_seconds": 60})).await;
    assert_eq!(answer.body["orgo"]["steps"], 11, "{}", answer.body);
    let results = results(&scene);
    assert!(results[9].contains("\"Yes.\"") && results[10].contains("10 times"), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_asks_nobody_unless_the_request_allows_it() {
    let scene = Scene::new(vec![ask_for_help("Help."), Turn::text("Alone then.")]).await;
    let answer = scene.ask("go", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(results(&scene)[0].contains("There is no tool ask_for_help"), "{:?}", results(&scene));
    assert_eq!(scene.agent.control().state().help, None);
    let long = json!({"help_wait_seconds": 3601});
    assert_eq!(scene.ask("go", long).await.status, 400, "only in the background");
}
