//! Exactly-once delivery of input, and release of held input when a client disconnects.

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::counter::{Counter, Counts};
use super::fixture::{DisplayFixture, TIMEOUT};
use super::served::{Client, DisplayServer};
use crate::harness::sampling::sampled;

/// Number of events of each kind in a sample and in a full run, half in single requests and half in lists. A
/// multiple of 1000.
const EVENTS_PER_KIND: (u32, u32) = (2000, 10_000);
/// Maximum number of actions in a list.
const MAX_LIST_ACTIONS: u32 = 200;

/// Sends an action `times` times, half of them in single requests.
async fn send(client: &Client, path: &str, times: u32, body: impl Fn(u32) -> Value) {
    let began = Instant::now();
    for number in 0..times / 2 {
        client.ok(path, body(number)).await;
    }
    let single_duration = began.elapsed();
    for first in (times / 2..times).step_by(MAX_LIST_ACTIONS as usize) {
        let list: Vec<Value> = (first..times.min(first + MAX_LIST_ACTIONS))
            .map(|number| {
                let mut action = body(number);
                action["action"] = path.trim_start_matches('/').into();
                action
            })
            .collect();
        client.ok("/actions", json!(list)).await;
    }
    let rate = |duration: Duration| f64::from(times) / 2.0 / duration.as_secs_f64();
    println!(
        "{path}: {:.0}/s alone, {:.0}/s in lists",
        rate(single_duration),
        rate(began.elapsed() - single_duration)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_clicks_wheel_steps_and_keys_arrive_once_each() {
    let events_per_kind = sampled(EVENTS_PER_KIND.0, EVENTS_PER_KIND.1);
    let server = DisplayServer::start(DisplayFixture::bare(800, 600).await).await;
    let (client, mut counter) = (server.client(), Counter::open(&server.fixture.display()));
    let none = Counts::default();

    let buttons = ["left", "middle", "right", "back"];
    let click =
        |number: u32| json!({"x": number % 800, "y": number % 600, "button": buttons[number as usize % 4]});
    send(&client, "/click", events_per_kind, click).await;
    let quarter = events_per_kind / 4;
    let expected = Counts::from_pairs([(1, quarter), (2, quarter), (3, quarter), (8, quarter)]);
    assert_eq!(counter.take(), (expected, none.clone()));

    // Amounts 1 to 4 in each of the four directions: four requests send 10 steps.
    let directions = ["up", "down", "left", "right"];
    let scroll =
        |number: u32| json!({"direction": directions[number as usize / 4 % 4], "amount": number % 4 + 1});
    send(&client, "/scroll", events_per_kind / 10 * 4, scroll).await;
    let expected = Counts::from_pairs([(4, quarter), (5, quarter), (6, quarter), (7, quarter)]);
    assert_eq!(counter.take(), (expected, none.clone()));

    // a, b, c and Return in the evdev keymap.
    let keys = ["a", "b", "c", "Return"];
    send(&client, "/key", events_per_kind, |number| json!({"key": keys[number as usize % 4]})).await;
    let expected = Counts::from_pairs([(38, quarter), (56, quarter), (54, quarter), (36, quarter)]);
    assert_eq!(counter.take(), (none.clone(), expected.clone()));
    // The same keys as text: a thousand characters per request.
    for _ in 0..events_per_kind / 1000 {
        client.ok("/type", json!({"text": "abc\n".repeat(250)})).await;
    }
    assert_eq!(counter.take(), (none, expected));
    assert!(!counter.any_pressed());
    server.close().await;
}

/// Actions during which a client disconnects; no key or button may stay pressed.
fn interruptible_actions() -> Vec<(&'static str, &'static str, Value)> {
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
    let server = DisplayServer::start(DisplayFixture::bare(400, 300).await).await;
    let (client, mut counter) = (server.client(), Counter::open(&server.fixture.display()));
    for (what, path, body) in interruptible_actions() {
        counter.take();
        // Wait for any event: most keys are pressed too briefly to be observed as pressed.
        let started = || {
            counter.count();
            counter.keys != Counts::default() || counter.buttons != Counts::default()
        };
        server.hang_up(path, &body, started).await;
        let began = Instant::now();
        // Presses and releases alternate while the action runs, so require a released state that lasts.
        let all_released = || async {
            for _ in 0..25 {
                if counter.any_pressed() {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Some(())
        };
        assert!(
            wait::until(TIMEOUT, all_released).await.is_some(),
            "{what}: {:?} stays down",
            counter.pressed_now()
        );
        println!("{what}: released {:?} after the client hung up", began.elapsed());
        let now = client.get("/cursor_position").await;
        assert_eq!((&now["buttons"], &now["modifiers"]), (&json!([]), &json!([])), "{what}");
        // The screen accepts further input.
        client.ok("/click", json!({"x": 5, "y": 5})).await;
        client.ok("/type", json!({"text": "Free é"})).await;
        assert!(!counter.any_pressed(), "{what}");
    }
    server.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_list_pressed_is_let_go_when_its_client_hangs_up() {
    let server = DisplayServer::start(DisplayFixture::bare(400, 300).await).await;
    let (client, counter) = (server.client(), Counter::open(&server.fixture.display()));
    let list = json!([
        {"action": "mouse_down", "x": 50, "y": 50},
        {"action": "key_down", "key": "shift"},
        {"action": "wait", "seconds": 30},
        {"action": "key_up", "key": "shift"},
        {"action": "mouse_up"},
    ]);
    server.hang_up("/actions", &list, || counter.pressed_now() == (vec![50], 0x100)).await;
    let up = wait::until(TIMEOUT, || async { (!counter.any_pressed()).then_some(()) }).await;
    assert!(up.is_some(), "{:?} stays down", counter.pressed_now());
    let now = client.get("/cursor_position").await;
    assert_eq!((&now["buttons"], &now["modifiers"]), (&json!([]), &json!([])));
    server.close().await;
}
