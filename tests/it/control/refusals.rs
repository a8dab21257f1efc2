//! Refusals of input while another actor holds a screen, their exceptions and their end.

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    CONTROL, TIMEOUT, actor, assert_held, hand_back, name, post_as, ready_agent, send_as, take, until_ready,
};
use crate::harness::agent::fetch_json;

/// A click that hits every screen.
fn point() -> Value {
    json!({"x": 5, "y": 6})
}

#[tokio::test(flavor = "multi_thread")]
async fn input_of_others_is_refused_until_the_hand_back() {
    let Some(agent) = ready_agent().await else { return };
    let (holder, other) = (actor("person"), actor("key"));
    for by in [&holder, &other] {
        assert_eq!(post_as(&agent, by, "/click", point()).await.status, 200);
    }
    let nobody = agent.post(CONTROL, json!({})).await;
    assert_eq!(nobody.status, 400, "{}", nobody.body);
    assert!(nobody.body["error"].as_str().is_some_and(|why| why.contains("names who acts")));
    let free = agent.get(CONTROL).await.body;
    assert_eq!((&free["holder"], &free["revision"]), (&Value::Null, &json!(0)));

    let held = take(&agent, &holder, json!({"seconds": 600, "note": "I sign in"})).await;
    assert_eq!((&held["revision"], &held["note"]), (&json!(1), &json!("I sign in")));
    let batch = json!([{"action": "move", "x": 1, "y": 1}]);
    for (method, path, body) in [
        (Method::POST, "/click", point()),
        (Method::POST, "/move", point()),
        (Method::POST, "/mouse_down", json!({})),
        (Method::POST, "/mouse_up", json!({})),
        (Method::POST, "/drag", json!({"start_x": 1, "start_y": 1, "end_x": 2, "end_y": 2})),
        (Method::POST, "/scroll", json!({"direction": "down"})),
        (Method::POST, "/type", json!({"text": "x"})),
        (Method::POST, "/key", json!({"key": "a"})),
        (Method::POST, "/key_down", json!({"key": "a"})),
        (Method::POST, "/key_up", json!({"key": "a"})),
        (Method::POST, "/actions", batch),
        (Method::PUT, "/clipboard", json!({"text": "x"})),
        (Method::PATCH, "/screens/default", json!({"width": 640, "height": 480})),
        (Method::DELETE, "/screens/default", json!({})),
        (Method::PATCH, "/windows/0x1", json!({"x": 1})),
        (Method::POST, "/windows/0x1/focus", json!({})),
        (Method::POST, "/windows/0x1/maximize", json!({})),
        (Method::POST, "/windows/0x1/close", json!({})),
        (Method::POST, CONTROL, json!({})),
        (Method::POST, "/screens/default/control/hand_back", json!({"note": "mine"})),
    ] {
        let refused = send_as(&agent, &other, method.clone(), path, body.clone()).await;
        assert_held(&refused, &holder);
        assert_eq!(refused.body["expires_at"], held["expires_at"], "{path}");
        // Somebody whom nothing names may be anybody.
        let nameless = fetch_json(agent.request(method, path).json(&body)).await;
        let expected = if path == CONTROL { 400 } else { 409 };
        assert_eq!(nameless.status, expected, "{path}: {}", nameless.body);
    }
    for (method, path, body) in [
        (Method::GET, "/screenshot", json!({})),
        (Method::GET, "/screens", json!({})),
        (Method::GET, "/cursor_position", json!({})),
        (Method::GET, "/clipboard", json!({})),
        (Method::GET, CONTROL, json!({})),
        (Method::POST, "/wait", json!({"seconds": 0})),
        (Method::POST, "/actions", json!([{"action": "wait", "seconds": 0}, {"action": "screenshot"}])),
        (Method::POST, "/bash", json!({"command": "true"})),
        (Method::POST, "/click", point()),
    ] {
        let by = if path == "/click" { &holder } else { &other };
        let answer = send_as(&agent, by, method, path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    let renewed = take(&agent, &holder, json!({"seconds": 1200})).await;
    assert_eq!((&renewed["note"], &renewed["since"]), (&json!("I sign in"), &held["since"]));
    assert!(renewed["expires_at"].as_str() > held["expires_at"].as_str(), "{renewed}");

    let back = hand_back(&agent, &holder, json!({"note": "Signed in."})).await;
    let last = json!({"by": name(&holder), "note": "Signed in.", "at": back["last_hand_back"]["at"]});
    assert_eq!(back["last_hand_back"], last);
    assert_eq!(send_as(&agent, &other, Method::GET, CONTROL, json!({})).await.body, back);
    assert_eq!(post_as(&agent, &other, "/click", point()).await.status, 200);
    // Another screen has a control of its own.
    take(&agent, &other, json!({})).await;
    let made = post_as(&agent, &holder, "/screens", json!({"width": 320, "height": 240})).await;
    assert_eq!(made.status, 200, "{}", made.body);
    assert_eq!(post_as(&agent, &holder, "/click?screen=screen-100", point()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_for_control_change_nothing() {
    let Some(agent) = ready_agent().await else { return };
    let by = actor("key");
    let long = "x".repeat(2001);
    for (path, body, status) in [
        ("", json!({"seconds": 0}), 400),
        ("", json!({"seconds": 3601}), 400),
        ("", json!({"seconds": -1}), 400),
        ("", json!({"note": long}), 400),
        ("", json!({"holder": "me"}), 400),
        ("/hand_back", json!({"note": long}), 400),
        ("/help", json!({"message": "", "seconds": 1}), 400),
        ("/help", json!({"message": long, "seconds": 1}), 400),
        ("/help", json!({"message": "x", "seconds": 0}), 400),
        ("/help", json!({"message": "x", "seconds": 86_401}), 400),
        ("/help", json!({"message": "x"}), 400),
        ("/answer", json!({}), 409),
    ] {
        let refused = post_as(&agent, &by, &format!("{CONTROL}{path}"), body.clone()).await;
        assert_eq!(refused.status, status, "{path} {body}: {}", refused.body);
    }
    assert_eq!(agent.get(&format!("{CONTROL}?after=0&wait_seconds=31")).await.status, 400);
    let unknown = post_as(&agent, &by, "/screens/screen-102/control", json!({})).await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    assert_eq!(agent.get(CONTROL).await.body["revision"], 0);
    // A header that names no actor is none.
    assert_eq!(post_as(&agent, "root", CONTROL, json!({})).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_ends_by_itself_and_those_who_wait_are_woken() {
    let Some(agent) = ready_agent().await else { return };
    let (holder, other) = (actor("person"), actor("key"));
    let held = take(&agent, &holder, json!({"seconds": 1})).await;
    let waiting = format!("{CONTROL}?after={}&wait_seconds=30", held["revision"]);
    let ended = agent.get(&waiting).await.body;
    assert_eq!((&ended["holder"], &ended["revision"]), (&Value::Null, &json!(2)), "{ended}");
    assert_eq!(ended["last_hand_back"], json!({"at": ended["last_hand_back"]["at"]}), "the time was over");
    assert_eq!(post_as(&agent, &other, "/click", point()).await.status, 200);
    // A number that the client has not seen is answered at once.
    let now = agent.get(&format!("{CONTROL}?after=1&wait_seconds=30")).await.body;
    assert_eq!(now, ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_with_a_key_is_executed_after_the_hand_back() {
    let Some(agent) = ready_agent().await else { return };
    let (holder, other) = (actor("person"), actor("key"));
    take(&agent, &holder, json!({"seconds": 600})).await;
    let keyed = |path: &'static str, body: Value| {
        let request = agent.request(Method::POST, path).header("x-hotdesk-actor", &other);
        fetch_json(request.header("Idempotency-Key", format!("key-of-{path}")).json(&body))
    };
    let (moved, list) = (json!({"x": 77, "y": 88}), json!([{"action": "move", "x": 1, "y": 2}]));
    for _ in 0..2 {
        assert_held(&keyed("/move", moved.clone()).await, &holder);
        assert_held(&keyed("/actions", list.clone()).await, &holder);
    }
    hand_back(&agent, &holder, json!({})).await;
    let done = keyed("/move", moved.clone()).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(keyed("/actions", list).await.body["success"], true);
    // It is not executed twice.
    assert_eq!(keyed("/move", moved).await.body, done.body);
    let place = agent.get("/cursor_position").await.body;
    assert_eq!((&place["x"], &place["y"]), (&json!(1), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn control_survives_the_death_of_the_agent() {
    let Some(mut agent) = ready_agent().await else { return };
    let (holder, other) = (actor("key"), actor("thread"));
    let asked = json!({"message": "a code", "seconds": 600});
    let helped = post_as(&agent, &other, &format!("{CONTROL}/help"), asked).await;
    assert_eq!(helped.status, 200, "{}", helped.body);
    let held = take(&agent, &holder, json!({"seconds": 600, "note": "mine"})).await;
    agent.restart().await;
    until_ready(&agent).await;
    assert_eq!(agent.get(CONTROL).await.body, held);
    assert_held(&post_as(&agent, &other, "/click", point()).await, &holder);
    assert_eq!(post_as(&agent, &holder, "/click", point()).await.status, 200);
    hand_back(&agent, &holder, json!({"note": "done"})).await;
    agent.restart().await;
    until_ready(&agent).await;
    let free = agent.get(CONTROL).await.body;
    assert_eq!((&free["holder"], &free["last_hand_back"]["note"]), (&Value::Null, &json!("done")));
    assert_eq!(post_as(&agent, &other, "/click", point()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_buttons_of_others_come_up_when_the_screen_is_taken() {
    let Some(agent) = ready_agent().await else { return };
    let (holder, other) = (actor("person"), actor("key"));
    for (path, body) in [("/mouse_down", point()), ("/key_down", json!({"key": "shift"}))] {
        assert_eq!(post_as(&agent, &other, path, body).await.status, 200, "{path}");
    }
    let down = agent.get("/cursor_position").await.body;
    assert_eq!((&down["buttons"], &down["modifiers"]), (&json!(["left"]), &json!(["shift"])));
    take(&agent, &holder, json!({})).await;
    let up = agent.get("/cursor_position").await.body;
    assert_eq!((&up["buttons"], &up["modifiers"]), (&json!([]), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_others_come_up_when_the_taker_leaves_before_its_answer() {
    let Some(agent) = ready_agent().await else { return };
    let (holder, other) = (actor("person"), actor("key"));
    assert_eq!(post_as(&agent, &other, "/key_down", json!({"key": "shift"})).await.status, 200);
    let ended = wait::until(TIMEOUT, || async {
        (agent.get("/timeline").await.body["in_progress"] == 0).then_some(())
    });
    ended.await.expect("no action is in progress");
    // The taker waits for the drag, and leaves meanwhile.
    let drag = json!({"start_x": 1, "start_y": 1, "end_x": 90, "end_y": 90, "duration": 3.0});
    let leaving = async {
        let begun = wait::until(TIMEOUT, || async {
            let page = agent.get("/timeline").await.body;
            (page["in_progress"] == 1 || page.to_string().contains("drag")).then_some(())
        });
        begun.await.expect("the drag begins");
        let held = wait::until(TIMEOUT, || async {
            (agent.get(CONTROL).await.body["holder"] == name(&holder)).then_some(())
        });
        tokio::select! {
            biased;
            held = held => held.expect("the screen is held"),
            // On a slow machine the drag may have ended.
            _ = post_as(&agent, &holder, CONTROL, json!({"seconds": 600})) => {}
        }
    };
    let (dragged, ()) = tokio::join!(post_as(&agent, &other, "/drag", drag), leaving);
    assert_eq!(dragged.status, 200, "{}", dragged.body);
    let up = wait::until(TIMEOUT, || async {
        let now = agent.get("/cursor_position").await.body;
        (now["modifiers"] == json!([]) && now["buttons"] == json!([])).then_some(())
    });
    up.await.expect("nothing is held down");
}
