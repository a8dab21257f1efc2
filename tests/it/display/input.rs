//! Pointer and keyboard input of actions in the window that receives it.

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::json;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{Allow, ButtonIndex, ConnectionExt as _, EventMask, GrabMode, ModMask};

use super::fixture::{DisplayFixture, TIMEOUT};
use super::window::{InputEvent, Window};

#[tokio::test]
async fn clicks_arrive_with_their_place_and_button() {
    let fixture = DisplayFixture::bare(800, 600).await;
    let window = Window::open(&fixture.display(), 0, 0, 800, 600, 0);
    for (body, button, x, y) in [
        (json!({"x": 100, "y": 50}), 1, 100, 50),
        (json!({"x": 0, "y": 0, "button": "right"}), 3, 0, 0),
        (json!({"x": 799.9, "y": 599, "button": "middle", "double": false}), 2, 799, 599),
    ] {
        let answer = fixture.ok("POST", "/click", body).await;
        assert_eq!(answer["action"], "click");
        assert_eq!((&answer["details"]["x"], &answer["details"]["y"]), (&json!(x), &json!(y)));
        assert_eq!(window.clicks(), [InputEvent::Press(button, x, y), InputEvent::Release(button, x, y)]);
    }
    let (press, release) = (InputEvent::Press(1, 7, 8), InputEvent::Release(1, 7, 8));
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let answer = fixture.ok("POST", "/click", json!({"x": 7, "y": 8, "double": true})).await;
        quickest = quickest.min(began.elapsed());
        assert_eq!(answer["action"], "double_click");
        assert_eq!(answer["details"], json!({"x": 7, "y": 8, "button": "left", "double": true}));
        assert_eq!(window.clicks(), [press, release, press, release]);
    }
    assert!(quickest < Duration::from_millis(200), "{quickest:?}");
    for body in [
        json!({"x": 800, "y": 0}),
        json!({"x": 0, "y": 600}),
        json!({"x": -1, "y": 0}),
        json!({"x": 1}),
        json!({"x": 1, "y": 1, "button": "up"}),
        json!({"x": "1", "y": 1}),
    ] {
        fixture.fails("POST", "/click", body, 400).await;
    }
    assert_eq!(window.clicks(), []);
    fixture.close().await;
}

/// A client that freezes the pointer at each press on a window and passes the press on after `delay`, like a slow
/// window manager.
fn freeze_at_presses(display: &str, window: u32, delay: Duration) {
    let (link, _) = x11rb::connect(Some(display)).expect("an X connection");
    let (pointer, keyboard) = (GrabMode::SYNC, GrabMode::ASYNC);
    let (mask, none) = (EventMask::BUTTON_PRESS, x11rb::NONE);
    link.grab_button(false, window, mask, pointer, keyboard, none, none, ButtonIndex::ANY, ModMask::ANY)
        .expect("a request")
        .check()
        .expect("a grab");
    std::thread::spawn(move || {
        // The connection ends with the X server.
        while let Ok(event) = link.wait_for_event() {
            if let Event::ButtonPress(press) = event {
                std::thread::sleep(delay);
                let passed = link.allow_events(Allow::REPLAY_POINTER, press.time);
                passed.expect("a request").check().expect("an open connection");
            }
        }
    });
}

#[tokio::test]
async fn input_waits_for_a_window_manager_that_still_holds_the_last_click() {
    let fixture = DisplayFixture::bare(800, 600).await;
    let window = Window::open(&fixture.display(), 0, 0, 800, 600, 0);
    freeze_at_presses(&fixture.display(), window.id, Duration::from_millis(100));
    let wait_for_clicks = |count: usize| {
        let is_click = |event: &&InputEvent| matches!(event, InputEvent::Press(..) | InputEvent::Release(..));
        let events = window.wait_for(TIMEOUT, |got| got.iter().filter(is_click).count() >= count);
        events.iter().filter(is_click).copied().collect::<Vec<_>>()
    };
    let click = [InputEvent::Press(1, 7, 8), InputEvent::Release(1, 7, 8)];
    fixture.ok("POST", "/click", json!({"x": 7, "y": 8})).await;
    fixture.ok("POST", "/mouse_down", json!({})).await;
    fixture.ok("POST", "/mouse_up", json!({})).await;
    fixture.ok("POST", "/click", json!({"x": 7, "y": 8, "double": true})).await;
    assert_eq!(wait_for_clicks(8), [click; 4].concat());
    fixture.ok("POST", "/click", json!({"x": 7, "y": 8})).await;
    let drag = json!({"start_x": 7, "start_y": 8, "end_x": 9, "end_y": 8, "duration": 0});
    fixture.ok("POST", "/drag", drag).await;
    let drag = [InputEvent::Press(1, 7, 8), InputEvent::Release(1, 9, 8)];
    assert_eq!(wait_for_clicks(4), [click, drag].concat());
    fixture.close().await;
}

#[tokio::test]
async fn a_thousand_clicks_all_arrive_in_order() {
    let fixture = DisplayFixture::bare(1280, 720).await;
    let window = Window::open(&fixture.display(), 0, 0, 1280, 720, 0);
    for number in 0..1000_i16 {
        fixture.ok("POST", "/click", json!({"x": number, "y": number / 2})).await;
    }
    let expected: Vec<_> = (0..1000_i16)
        .flat_map(|at| [InputEvent::Press(1, at, at / 2), InputEvent::Release(1, at, at / 2)])
        .collect();
    assert_eq!(window.clicks(), expected);
    fixture.close().await;
}

#[tokio::test]
async fn a_drag_has_a_way_and_ends_exactly() {
    let fixture = DisplayFixture::bare(800, 600).await;
    let window = Window::open(&fixture.display(), 0, 0, 800, 600, 0);
    let began = Instant::now();
    let drag = json!({"start_x": 10, "start_y": 20, "end_x": 710, "end_y": 420});
    let answer = fixture.ok("POST", "/drag", drag).await;
    let duration = began.elapsed();
    assert!((0.45..10.0).contains(&duration.as_secs_f64()), "took {duration:?}");
    assert_eq!((answer["action"].as_str(), &answer["details"]["duration"]), (Some("drag"), &json!(0.5)));
    let events = window.events();
    let press = events.iter().position(|event| matches!(event, InputEvent::Press(..))).expect("a press");
    assert_eq!(events[press], InputEvent::Press(1, 10, 20));
    assert_eq!(events.last(), Some(&InputEvent::Release(1, 710, 420)));
    let motions = &events[press + 1..events.len() - 1];
    assert!((25..=60).contains(&motions.len()), "{} steps", motions.len());
    for step in motions {
        let InputEvent::Motion(x, y) = *step else { panic!("{step:?} between press and release") };
        assert!((i32::from(y) - 20 - (i32::from(x) - 10) * 4 / 7).abs() <= 1, "{x},{y} must be on the line");
    }
    assert_eq!(motions.last(), Some(&InputEvent::Motion(710, 420)));
    let quick = json!({"start_x": 1, "start_y": 1, "end_x": 2, "end_y": 1, "duration": 0, "button": "right"});
    fixture.ok("POST", "/drag", quick).await;
    assert_eq!(window.clicks(), [InputEvent::Press(3, 1, 1), InputEvent::Release(3, 2, 1)]);
    for body in [
        json!({"start_x": 0, "start_y": 0, "end_x": 800, "end_y": 0}),
        json!({"start_x": 0, "start_y": 0, "end_x": 1, "end_y": 0, "duration": 30.1}),
        json!({"start_x": 0, "start_y": 0, "end_x": 1, "end_y": 0, "duration": -1}),
        json!({"start_x": 0, "start_y": 0, "end_x": 1}),
    ] {
        fixture.fails("POST", "/drag", body, 400).await;
    }
    assert_eq!(window.events(), []);
    fixture.close().await;
}

#[tokio::test]
async fn a_drag_whose_client_hung_up_is_carried_out_and_work_in_the_queue_is_skipped() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    let drag = json!({"start_x": 10, "start_y": 10, "end_x": 300, "end_y": 200, "duration": 3});
    let click = json!({"x": 5, "y": 5, "button": "right"});
    // Both clients disconnect long before the drag's end and before the click begins.
    let both =
        async { tokio::join!(fixture.call("POST", "/drag", drag), fixture.call("POST", "/click", click)) };
    let pressed = wait::until(TIMEOUT, || {
        let pressed = window.clicks().contains(&InputEvent::Press(1, 10, 10));
        async move { pressed.then_some(()) }
    });
    tokio::select! {
        pressed = pressed => pressed.expect("the drag must begin"),
        answers = both => panic!("answered before the drag was seen: {answers:?}"),
    }
    let events = window
        .wait_for(TIMEOUT, |events| events.iter().any(|event| matches!(event, InputEvent::Release(..))));
    assert_eq!(events.last(), Some(&InputEvent::Release(1, 300, 200)));
    fixture.ok("POST", "/click", json!({"x": 7, "y": 7})).await;
    assert_eq!(window.clicks(), [InputEvent::Press(1, 7, 7), InputEvent::Release(1, 7, 7)]);
    fixture.close().await;
}

#[tokio::test]
async fn the_wheel_turns_where_it_is_told() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    fixture.ok("POST", "/move", json!({"x": 30, "y": 40})).await;
    for (body, button, steps, x, y) in [
        (json!({"direction": "down"}), 5, 3, 30, 40),
        (json!({"direction": "up", "amount": 1, "x": 0, "y": 0}), 4, 1, 0, 0),
        (json!({"direction": "left", "amount": 2, "x": 9}), 6, 2, 9, 0),
        (json!({"direction": "right", "amount": 120, "y": 299}), 7, 120, 9, 299),
    ] {
        let answer = fixture.ok("POST", "/scroll", body.clone()).await;
        assert_eq!((&answer["action"], &answer["details"]["amount"]), (&json!("scroll"), &json!(steps)));
        let expected: Vec<_> = (0..steps)
            .flat_map(|_| [InputEvent::Press(button, x, y), InputEvent::Release(button, x, y)])
            .collect();
        assert_eq!(window.clicks(), expected, "{body}");
    }
    for body in [
        json!({"direction": "north"}),
        json!({}),
        json!({"direction": "up", "amount": 501}),
        json!({"direction": "up", "amount": -1}),
        json!({"direction": "up", "x": 400}),
    ] {
        fixture.fails("POST", "/scroll", body, 400).await;
    }
    fixture.close().await;
}
