//! Requests for help, and the events of the control.

use serde_json::{Value, json};

use super::{CONTROL, actor, hand_back, name, post_as, ready_agent, take};
use crate::events::source::{JsonMessages, subscribe};
use crate::harness::socket::Client;

#[tokio::test(flavor = "multi_thread")]
async fn help_is_asked_for_and_answered() {
    let Some(agent) = ready_agent().await else { return };
    let (thread, person) = (actor("thread"), actor("person"));
    let (help, answer) = (format!("{CONTROL}/help"), format!("{CONTROL}/answer"));
    let asked = post_as(&agent, &thread, &help, json!({"message": "a code", "seconds": 600})).await.body;
    assert_eq!((&asked["help"]["message"], &asked["help"]["by"]), (&json!("a code"), &name(&thread)));
    assert_eq!(asked["holder"], Value::Null);
    let second = post_as(&agent, &person, &help, json!({"message": "me too", "seconds": 600})).await;
    assert_eq!(second.status, 409, "{}", second.body);
    // The one who asks waits for the answer.
    let waiting = format!("{CONTROL}?after={}&wait_seconds=30", asked["revision"]);
    let (answered, _) = tokio::join!(agent.get(&waiting), async {
        let answered = post_as(&agent, &person, &answer, json!({"note": "1234"})).await;
        assert_eq!(answered.status, 200, "{}", answered.body);
    });
    let last = &answered.body["last_hand_back"];
    assert_eq!((&last["note"], &last["by"]), (&json!("1234"), &name(&person)), "{}", answered.body);
    assert_eq!(answered.body["help"], Value::Null);
    assert_eq!(post_as(&agent, &person, &answer, json!({})).await.status, 409, "it is answered");

    // A person who takes over answers with the hand-back.
    post_as(&agent, &thread, &help, json!({"message": "sign in", "seconds": 600})).await;
    let held = take(&agent, &person, json!({})).await;
    assert_eq!(held["help"]["message"], "sign in");
    let back = hand_back(&agent, &person, json!({"note": "signed in"})).await;
    assert_eq!((&back["help"], &back["last_hand_back"]["note"]), (&Value::Null, &json!("signed in")));

    // A request that nobody answers ends by itself.
    let asked = post_as(&agent, &thread, &help, json!({"message": "quick", "seconds": 1})).await.body;
    let ended = agent.get(&format!("{CONTROL}?after={}&wait_seconds=30", asked["revision"])).await.body;
    assert_eq!((&ended["help"], &ended["last_hand_back"]["by"]), (&Value::Null, &Value::Null), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_control_are_events() {
    let Some(agent) = ready_agent().await else { return };
    let (thread, person) = (actor("thread"), actor("person"));
    let path = format!("/ws/events?token={}", agent.token());
    let mut events = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    subscribe(&mut events, "subscribe", &["control_changed", "help_requested"]).await;
    let asked = json!({"message": "a code", "seconds": 600});
    assert_eq!(post_as(&agent, &thread, &format!("{CONTROL}/help"), asked).await.status, 200);
    take(&agent, &person, json!({"note": "I look"})).await;
    // A renewal is no event.
    take(&agent, &person, json!({})).await;
    hand_back(&agent, &person, json!({"note": "1234"})).await;
    take(&agent, &person, json!({"seconds": 1})).await;
    for (kind, data) in [
        ("help_requested", json!({"screen": "default", "message": "a code", "by": thread})),
        ("control_changed", json!({"screen": "default", "holder": person, "note": "I look"})),
        ("control_changed", json!({"screen": "default", "note": "1234"})),
        ("control_changed", json!({"screen": "default", "holder": person})),
        ("control_changed", json!({"screen": "default"})),
    ] {
        let event = events.next_json().await["event"].take();
        assert_eq!((&event["type"], &event["data"]), (&json!(kind), &data), "{event}");
    }
}
