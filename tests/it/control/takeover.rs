//! Takeovers of a held screen in one step, and what the former holder is told.

use reqwest::Method;
use serde_json::{Value, json};

use super::{CONTROL, actor, assert_held, hand_back, name, post_as, ready_agent, take};
use crate::events::source::{JsonMessages, subscribe};
use crate::harness::agent::{RunningAgent, fetch_json};
use crate::harness::socket::Client;

/// Takes the boot screen from a holder, by the route of the controller.
async fn take_over(agent: &RunningAgent, by: &str, from_people: bool, body: Value) -> Value {
    let path = format!("/forced_takes/default?from_people={from_people}");
    let taken = post_as(agent, by, &path, body).await;
    assert_eq!((taken.status, &taken.body["holder"]), (200, &name(by)), "{}", taken.body);
    taken.body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_changes_hands_without_a_moment_in_between() {
    let Some(agent) = ready_agent().await else { return };
    let (thread, person, other) = (actor("thread"), actor("person"), actor("person"));
    let path = format!("/ws/events?token={}", agent.token());
    let mut events = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    subscribe(&mut events, "subscribe", &["control_changed"]).await;
    let held = take(&agent, &thread, json!({"seconds": 600, "note": "I order"})).await;
    let asked = json!({"message": "a code", "seconds": 600});
    assert_eq!(post_as(&agent, &thread, &format!("{CONTROL}/help"), asked).await.status, 200);
    let pressed = post_as(&agent, &thread, "/key_down", json!({"key": "shift"})).await;
    assert_eq!(pressed.status, 200, "{}", pressed.body);

    let body = json!({"seconds": 300, "note": "I sign in"});
    let taken = take_over(&agent, &person, false, body).await;
    assert_eq!(taken["note"], "I sign in", "{taken}");
    assert_eq!(taken["revision"].as_u64(), held["revision"].as_u64().map(|revision| revision + 2));
    // The request for help waits for the hand-back, and nobody has handed anything back.
    assert_eq!((&taken["help"]["message"], &taken["last_hand_back"]), (&json!("a code"), &Value::Null));
    assert_eq!(agent.get("/cursor_position").await.body["modifiers"], json!([]), "its keys are up");
    for (path, body) in [
        ("/click", json!({"x": 5, "y": 6})),
        (CONTROL, json!({})),
        ("/screens/default/control/hand_back", json!({"note": "mine"})),
    ] {
        assert_held(&post_as(&agent, &thread, path, body).await, &person);
    }
    for (holder, note) in [(&thread, "I order"), (&person, "I sign in")] {
        let event = events.next_json().await["event"].take();
        assert_eq!(event["data"], json!({"screen": "default", "holder": holder, "note": note}), "{event}");
    }

    // Its own screen is renewed; another person keeps theirs, unless people are included.
    let renewed = take_over(&agent, &person, false, json!({"seconds": 900})).await;
    assert_eq!((&renewed["since"], &renewed["note"]), (&taken["since"], &taken["note"]));
    let refused = post_as(&agent, &other, "/forced_takes/default?from_people=false", json!({})).await;
    assert_held(&refused, &person);
    let taken = take_over(&agent, &other, true, json!({})).await;
    assert_eq!(taken.get("note"), None, "the note was of the former holder: {taken}");
    let event = events.next_json().await["event"].take();
    assert_eq!(event["data"], json!({"screen": "default", "holder": other}), "{event}");
    let back = hand_back(&agent, &other, json!({"note": "Signed in."})).await;
    assert_eq!((&back["help"], &back["last_hand_back"]["note"]), (&Value::Null, &json!("Signed in.")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_takeovers_change_nothing() {
    let Some(agent) = ready_agent().await else { return };
    let (thread, person) = (actor("thread"), actor("person"));
    let held = take(&agent, &thread, json!({"seconds": 600})).await;
    let long = "x".repeat(2001);
    for (path, body, status) in [
        ("default?from_people=false", json!({"seconds": 0}), 400),
        ("default?from_people=false", json!({"note": long}), 400),
        ("default?from_people=perhaps", json!({}), 400),
        ("default", json!({}), 400),
        ("screen-102?from_people=true", json!({}), 404),
    ] {
        let refused = post_as(&agent, &person, &format!("/forced_takes/{path}"), body.clone()).await;
        assert_eq!(refused.status, status, "{path} {body}: {}", refused.body);
    }
    let nobody = agent.request(Method::POST, "/forced_takes/default?from_people=true").json(&json!({}));
    assert_eq!(fetch_json(nobody).await.status, 400);
    assert_eq!(agent.get(CONTROL).await.body, held);
}
