//! Does a window receive exactly the pointer and key input that was asked for?

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::json;

use super::desk::{Desk, TIMEOUT};
use super::window::{Got, Window};

#[tokio::test]
async fn clicks_arrive_with_their_place_and_button() {
    let desk = Desk::bare(800, 600).await;
    let window = Window::open(&desk.display(), 0, 0, 800, 600, 0);
    for (body, button, x, y) in [
        (json!({"x": 100, "y": 50}), 1, 100, 50),
        (json!({"x": 0, "y": 0, "button": "right"}), 3, 0, 0),
        (json!({"x": 799.9, "y": 599, "button": "middle", "double": false}), 2, 799, 599),
    ] {
        let answer = desk.ok("POST", "/click", body).await;
        assert_eq!(answer["action"], "click");
        assert_eq!((&answer["details"]["x"], &answer["details"]["y"]), (&json!(x), &json!(y)));
        assert_eq!(window.clicks(), [Got::Press(button, x, y), Got::Release(button, x, y)]);
    }
    let (press, release) = (Got::Press(1, 7, 8), Got::Release(1, 7, 8));
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let answer = desk.ok("POST", "/click", json!({"x": 7, "y": 8, "double": true})).await;
        quickest = quickest.min(began.elapsed());
        assert_eq!(answer["action"], "double_click");
        assert_eq!(answer["details"], json!({"x": 7, "y": 8, "button": "left", "double": true}));
        assert_eq!(window.clicks(), [press, release, press, release]);
    }
    assert!(quickest < Duration::from_millis(200), "{quickest:?}");
    for bad in [
        json!({"x": 800, "y": 0}),
        json!({"x": 0, "y": 600}),
        json!({"x": -1, "y": 0}),
        json!({"x": 1}),
        json!({"x": 1, "y": 1, "button": "up"}),
        json!({"x": "1", "y": 1}),
    ] {
        desk.fails("POST", "/click", bad, 400).await;
    }
    assert_eq!(window.clicks(), []);
    desk.close().await;
}

#[tokio::test]
async fn a_thousand_clicks_all_arrive_in_order() {
    let desk = Desk::bare(1280, 720).await;
    let window = Window::open(&desk.display(), 0, 0, 1280, 720, 0);
    for number in 0..1000_i16 {
        desk.ok("POST", "/click", json!({"x": number, "y": number / 2})).await;
    }
    let wanted: Vec<_> =
        (0..1000_i16).flat_map(|at| [Got::Press(1, at, at / 2), Got::Release(1, at, at / 2)]).collect();
    assert_eq!(window.clicks(), wanted);
    desk.close().await;
}

#[tokio::test]
async fn a_drag_has_a_way_and_ends_exactly() {
    let desk = Desk::bare(800, 600).await;
    let window = Window::open(&desk.display(), 0, 0, 800, 600, 0);
    let began = Instant::now();
    let drag = json!({"start_x": 10, "start_y": 20, "end_x": 710, "end_y": 420});
    let answer = desk.ok("POST", "/drag", drag).await;
    let took = began.elapsed();
    assert!((0.45..10.0).contains(&took.as_secs_f64()), "took {took:?}");
    assert_eq!((answer["action"].as_str(), &answer["details"]["duration"]), (Some("drag"), &json!(0.5)));
    let got = window.got();
    let press = got.iter().position(|got| matches!(got, Got::Press(..))).expect("a press");
    assert_eq!(got[press], Got::Press(1, 10, 20));
    assert_eq!(got.last(), Some(&Got::Release(1, 710, 420)));
    let way = &got[press + 1..got.len() - 1];
    assert!((25..=60).contains(&way.len()), "{} steps", way.len());
    for step in way {
        let Got::Motion(x, y) = *step else { panic!("{step:?} in the way") };
        assert!((i32::from(y) - 20 - (i32::from(x) - 10) * 4 / 7).abs() <= 1, "{x},{y} is off the line");
    }
    assert_eq!(way.last(), Some(&Got::Motion(710, 420)));
    let quick = json!({"start_x": 1, "start_y": 1, "end_x": 2, "end_y": 1, "duration": 0, "button": "right"});
    desk.ok("POST", "/drag", quick).await;
    assert_eq!(window.clicks(), [Got::Press(3, 1, 1), Got::Release(3, 2, 1)]);
    for bad in [
        json!({"start_x": 0, "start_y": 0, "end_x": 800, "end_y": 0}),
        json!({"start_x": 0, "start_y": 0, "end_x": 1, "end_y": 0, "duration": 30.1}),
        json!({"start_x": 0, "start_y": 0, "end_x": 1, "end_y": 0, "duration": -1}),
        json!({"start_x": 0, "start_y": 0, "end_x": 1}),
    ] {
        desk.fails("POST", "/drag", bad, 400).await;
    }
    assert_eq!(window.got(), []);
    desk.close().await;
}

#[tokio::test]
async fn a_drag_whose_client_hung_up_is_carried_out_and_work_in_the_queue_is_skipped() {
    let desk = Desk::bare(400, 300).await;
    let window = Window::open(&desk.display(), 0, 0, 400, 300, 0);
    let drag = json!({"start_x": 10, "start_y": 10, "end_x": 300, "end_y": 200, "duration": 3});
    let click = json!({"x": 5, "y": 5, "button": "right"});
    // Both clients are gone long before the drag's end; the click had not begun.
    let both = async { tokio::join!(desk.call("POST", "/drag", drag), desk.call("POST", "/click", click)) };
    let pressed = wait::until(TIMEOUT, || {
        let pressed = window.clicks().contains(&Got::Press(1, 10, 10));
        async move { pressed.then_some(()) }
    });
    tokio::select! {
        pressed = pressed => pressed.expect("the drag begins"),
        answers = both => panic!("answered before the drag was seen: {answers:?}"),
    }
    let got = window.wait_for(TIMEOUT, |got| got.iter().any(|got| matches!(got, Got::Release(..))));
    assert_eq!(got.last(), Some(&Got::Release(1, 300, 200)));
    desk.ok("POST", "/click", json!({"x": 7, "y": 7})).await;
    assert_eq!(window.clicks(), [Got::Press(1, 7, 7), Got::Release(1, 7, 7)]);
    desk.close().await;
}

#[tokio::test]
async fn the_wheel_turns_where_it_is_told() {
    let desk = Desk::bare(400, 300).await;
    let window = Window::open(&desk.display(), 0, 0, 400, 300, 0);
    desk.ok("POST", "/move", json!({"x": 30, "y": 40})).await;
    for (body, button, steps, x, y) in [
        (json!({"direction": "down"}), 5, 3, 30, 40),
        (json!({"direction": "up", "amount": 1, "x": 0, "y": 0}), 4, 1, 0, 0),
        (json!({"direction": "left", "amount": 2, "x": 9}), 6, 2, 9, 0),
        (json!({"direction": "right", "amount": 120, "y": 299}), 7, 120, 9, 299),
    ] {
        let answer = desk.ok("POST", "/scroll", body.clone()).await;
        assert_eq!((&answer["action"], &answer["details"]["amount"]), (&json!("scroll"), &json!(steps)));
        let wanted: Vec<_> =
            (0..steps).flat_map(|_| [Got::Press(button, x, y), Got::Release(button, x, y)]).collect();
        assert_eq!(window.clicks(), wanted, "{body}");
    }
    for bad in [
        json!({"direction": "north"}),
        json!({}),
        json!({"direction": "up", "amount": 0}),
        json!({"direction": "up", "amount": 501}),
        json!({"direction": "up", "amount": -1}),
        json!({"direction": "up", "x": 400}),
    ] {
        desk.fails("POST", "/scroll", bad, 400).await;
    }
    desk.close().await;
}
