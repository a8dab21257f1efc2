//! Is every click, wheel step and key that was sent received once, and is nothing left down by a client that hangs up?

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::counter::{Counter, Counts};
use super::desk::{Desk, TIMEOUT};
use super::served::{Client, Served};

/// Of each kind: half by single requests, half by lists.
const EACH: u32 = 10_000;
/// Actions of a list, the most that one may have.
const LIST: u32 = 200;

/// Sends an action as often as `times`, half of that alone.
async fn send(client: &Client, path: &str, times: u32, body: impl Fn(u32) -> Value) {
    let began = Instant::now();
    for number in 0..times / 2 {
        client.ok(path, body(number)).await;
    }
    let alone = began.elapsed();
    for first in (times / 2..times).step_by(LIST as usize) {
        let list: Vec<Value> = (first..times.min(first + LIST))
            .map(|number| {
                let mut action = body(number);
                action["action"] = path.trim_start_matches('/').into();
                action
            })
            .collect();
        client.ok("/actions", json!(list)).await;
    }
    let rate = |took: Duration| f64::from(times) / 2.0 / took.as_secs_f64();
    println!("{path}: {:.0}/s alone, {:.0}/s in lists", rate(alone), rate(began.elapsed() - alone));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_clicks_wheel_steps_and_keys_arrive_once_each() {
    let room = Served::of(Desk::bare(800, 600).await).await;
    let (client, mut counter) = (room.client(), Counter::open(&room.desk.display()));
    let nothing = Counts::default();

    let buttons = ["left", "middle", "right", "back"];
    let click =
        |number: u32| json!({"x": number % 800, "y": number % 600, "button": buttons[number as usize % 4]});
    send(&client, "/click", EACH, click).await;
    let quarter = EACH / 4;
    let wanted = Counts::of([(1, quarter), (2, quarter), (3, quarter), (8, quarter)]);
    assert_eq!(counter.take(), (wanted, nothing.clone()));

    // Amounts 1 to 4 in each of the four directions: 1000 requests of 10 steps in four.
    let directions = ["up", "down", "left", "right"];
    let scroll =
        |number: u32| json!({"direction": directions[number as usize / 4 % 4], "amount": number % 4 + 1});
    send(&client, "/scroll", EACH / 10 * 4, scroll).await;
    let wanted = Counts::of([(4, quarter), (5, quarter), (6, quarter), (7, quarter)]);
    assert_eq!(counter.take(), (wanted, nothing.clone()));

    // a, b, c and Return in the evdev map.
    let keys = ["a", "b", "c", "Return"];
    send(&client, "/key", EACH, |number| json!({"key": keys[number as usize % 4]})).await;
    let wanted = Counts::of([(38, quarter), (56, quarter), (54, quarter), (36, quarter)]);
    assert_eq!(counter.take(), (nothing.clone(), wanted.clone()));
    // The same as text: a thousand characters in a request.
    for _ in 0..10 {
        client.ok("/type", json!({"text": "abc\n".repeat(250)})).await;
    }
    assert_eq!(counter.take(), (nothing, wanted));
    assert!(!counter.any_down());
    room.close().await;
}

/// What is done when a client hangs up in the middle of it: nothing may stay down.
fn cut() -> Vec<(&'static str, &'static str, Value)> {
    let endless: String = (0..30_000_u32).filter_map(|step| char::from_u32(0x4e00 + step % 20_000)).collect();
    let drag = json!({"path": [[10, 10], [300, 200], [20, 200]], "duration": 1.0, "modifiers": ["ctrl"]});
    vec![
        ("ideographs", "/type", json!({ "text": endless })),
        ("capitals", "/type", json!({"text": "ABCDEFGH".repeat(10_000)})),
        ("a chord that is held", "/key", json!({"key": "ctrl+shift+F5", "hold_ms": 1500})),
        (
            "a sequence of held keys",
            "/key",
            json!({"keys": ["a", "alt+b", "c"], "repeat": 20, "hold_ms": 400}),
        ),
        ("a drag with a modifier", "/drag", drag.clone()),
        (
            "a list with a drag and a hold",
            "/actions",
            json!([
                {"action": "drag", "path": drag["path"], "duration": 0.5, "modifiers": ["shift"]},
                {"action": "key", "key": "ctrl+x", "hold_ms": 1000},
                {"action": "wait", "seconds": 1},
                {"action": "type", "text": "never"},
            ]),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_in_the_middle_leaves_no_key_and_no_button_down() {
    let room = Served::of(Desk::bare(400, 300).await).await;
    let (client, mut counter) = (room.client(), Counter::open(&room.desk.display()));
    for (what, path, body) in cut() {
        counter.take();
        // Something has come; most keys are down for too short a time to be seen so.
        let begun = || {
            counter.count();
            counter.keys != Counts::default() || counter.buttons != Counts::default()
        };
        room.hang_up(path, &body, begun).await;
        let began = Instant::now();
        // Down and up come in turns while it still goes on: over is what stays so.
        let over = || async {
            for _ in 0..25 {
                if counter.any_down() {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Some(())
        };
        assert!(wait::until(TIMEOUT, over).await.is_some(), "{what}: {:?} stays down", counter.down());
        println!("{what}: over {:?} after the client hung up", began.elapsed());
        let now = client.get("/cursor_position").await;
        assert_eq!((&now["buttons"], &now["modifiers"]), (&json!([]), &json!([])), "{what}");
        // The screen is not hindered.
        client.ok("/click", json!({"x": 5, "y": 5})).await;
        client.ok("/type", json!({"text": "Free é"})).await;
        assert!(!counter.any_down(), "{what}");
    }
    room.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_list_pressed_is_let_go_when_its_client_hangs_up() {
    let room = Served::of(Desk::bare(400, 300).await).await;
    let (client, counter) = (room.client(), Counter::open(&room.desk.display()));
    let list = json!([
        {"action": "mouse_down", "x": 50, "y": 50},
        {"action": "key_down", "key": "shift"},
        {"action": "wait", "seconds": 30},
        {"action": "key_up", "key": "shift"},
        {"action": "mouse_up"},
    ]);
    room.hang_up("/actions", &list, || counter.down() == (vec![50], 0x100)).await;
    let up = wait::until(TIMEOUT, || async { (!counter.any_down()).then_some(()) }).await;
    assert!(up.is_some(), "{:?} stays down", counter.down());
    let now = client.get("/cursor_position").await;
    assert_eq!((&now["buttons"], &now["modifiers"]), (&json!([]), &json!([])));
    room.close().await;
}
