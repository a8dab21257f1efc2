//! Lists of actions that lose the screen while they run.

use std::time::Instant;

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::{TIMEOUT, actor, assert_held, hand_back, post_as, ready_agent, take};
use crate::harness::agent::RunningAgent;

/// Waits until the pointer is at a place, which an action of a list has moved it to.
async fn until_moved(agent: &RunningAgent, x: i64) {
    let moved =
        wait::until(TIMEOUT, || async { (agent.get("/cursor_position").await.body["x"] == x).then_some(()) });
    moved.await.expect("the list begins");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_list_stops_when_another_one_takes_the_screen() {
    let Some(agent) = ready_agent().await else { return };
    let (holder, other) = (actor("person"), actor("key"));
    let wait = json!({"action": "wait", "seconds": 60});
    let actions = json!([{"action": "move", "x": 41, "y": 1}, wait, {"action": "move", "x": 300, "y": 1}]);
    for (go_on, results, not_tried) in [(false, 2, 1), (true, 3, 0)] {
        assert_eq!(post_as(&agent, &other, "/move", json!({"x": 9, "y": 9})).await.status, 200);
        let began = Instant::now();
        let body = json!({"actions": actions, "continue_on_error": go_on, "settle": {"timeout_ms": 60_000,
            "quiet_ms": 50}});
        let list = post_as(&agent, &other, "/actions", body);
        let taking = async {
            until_moved(&agent, 41).await;
            let taken = take(&agent, &holder, json!({"seconds": 600})).await;
            // The turn of the list is over: the holder acts before the list would have ended.
            let clicked = post_as(&agent, &holder, "/click", json!({"x": 5, "y": 6})).await;
            assert_eq!(clicked.status, 200, "{}", clicked.body);
            taken
        };
        let (answer, taken) = tokio::join!(list, taking);
        assert!(began.elapsed().as_secs() < 50, "the wait did not end: {:?}", began.elapsed());
        let body = answer.body;
        assert_eq!(
            (answer.status, &body["success"], &body["not_tried"]),
            (200, &json!(false), &json!(not_tried))
        );
        let done = body["results"].as_array().expect("results");
        assert_eq!((done.len(), &done[0]["result"]["success"]), (results, &json!(true)), "{body}");
        for failed in &done[1..] {
            let error = &failed["error"];
            assert_eq!((&error["status"], &error["code"]), (&json!(409), &json!("control_held")), "{error}");
        }
        let place = agent.get("/cursor_position").await.body;
        assert_eq!((&place["x"], &place["y"]), (&json!(5), &json!(6)), "only the holder has acted");
        assert_held(&post_as(&agent, &other, "/actions", actions.clone()).await, &holder);
        assert_eq!(taken["holder"]["kind"], "person");
        hand_back(&agent, &holder, json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_wait_for_the_turn_of_the_holder() {
    let Some(agent) = ready_agent().await else { return };
    let (holder, other) = (actor("person"), actor("key"));
    take(&agent, &holder, json!({"seconds": 600})).await;
    let actions: Value = json!([{"action": "move", "x": 41, "y": 1}, {"action": "wait", "seconds": 20}]);
    let list = post_as(&agent, &holder, "/actions", actions);
    let refused = async {
        until_moved(&agent, 41).await;
        let refused = post_as(&agent, &other, "/click", json!({"x": 5, "y": 6})).await;
        assert_held(&refused, &holder);
        refused.took
    };
    let (done, took) = tokio::join!(list, refused);
    assert_eq!(done.body["success"], true, "{}", done.body);
    assert!(took.as_secs() < 15, "refused after {took:?}");
}
