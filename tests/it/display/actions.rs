//! Actions: effects, reports of what changed on the screen, and waits for a stable screen.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{DisplayFixture, TIMEOUT};
use super::window::{InputEvent, Window};

/// Left Control in the evdev keymap.
const CTRL: u8 = 37;
/// Left Shift in the evdev keymap.
const SHIFT: u8 = 50;

fn presses(events: &[InputEvent]) -> Vec<InputEvent> {
    events.iter().copied().filter(|event| !matches!(event, InputEvent::Motion(..))).collect()
}

#[tokio::test]
async fn every_button_up_to_three_times_with_modifiers() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    for (name, number) in [("left", 1), ("middle", 2), ("right", 3), ("back", 8), ("forward", 9)] {
        let answer = fixture.ok("POST", "/click", json!({"x": 5, "y": 6, "button": name, "count": 3})).await;
        assert_eq!((&answer["action"], &answer["details"]["count"]), (&json!("triple_click"), &json!(3)));
        let once = [InputEvent::Press(number, 5, 6), InputEvent::Release(number, 5, 6)];
        assert_eq!(window.clicks(), [once, once, once].concat(), "{name}");
    }
    window.events();
    window.focus();
    fixture.ok("POST", "/click", json!({"x": 9, "y": 9, "modifiers": ["ctrl", "shift"]})).await;
    let events = presses(&window.events());
    assert!(
        matches!(
            events[..],
            [
                InputEvent::Key(CTRL, _),
                InputEvent::Key(SHIFT, _),
                InputEvent::Press(1, 9, 9),
                InputEvent::Release(1, 9, 9)
            ]
        ),
        "{events:?}"
    );
    let now = fixture.ok("GET", "/cursor_position", Value::Null).await;
    assert_eq!(now, json!({"x": 9, "y": 9, "buttons": [], "modifiers": []}));
    fixture.close().await;
}

#[tokio::test]
async fn what_is_pressed_stays_down_until_it_is_let_go() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    window.focus();
    fixture.ok("POST", "/mouse_down", json!({"x": 10, "y": 20})).await;
    fixture.ok("POST", "/key_down", json!({"key": "shift"})).await;
    let now = fixture.ok("GET", "/cursor_position", Value::Null).await;
    assert_eq!(now, json!({"x": 10, "y": 20, "buttons": ["left"], "modifiers": ["shift"]}));
    fixture.ok("POST", "/move", json!({"x": 30, "y": 40})).await;
    // Held keys do not change typed text, and they are down again afterwards.
    window.events();
    fixture.ok("POST", "/type", json!({"text": "a"})).await;
    let keys: Vec<_> = presses(&window.events());
    assert!(
        matches!(keys[..], [InputEvent::Key(38, state), InputEvent::Key(SHIFT, _)] if state & 1 == 0),
        "{keys:?}"
    );
    fixture.ok("POST", "/key", json!({"key": "Tab"})).await;
    let keys: Vec<_> = presses(&window.events());
    assert!(matches!(keys[..], [InputEvent::Key(23, state)] if state & 1 == 1), "{keys:?}");
    fixture.ok("POST", "/mouse_up", json!({})).await;
    assert_eq!(window.clicks(), [InputEvent::Release(1, 30, 40)]);
    fixture.ok("POST", "/key_up", json!({"key": "shift"})).await;
    let now = fixture.ok("GET", "/cursor_position", Value::Null).await;
    assert_eq!(now, json!({"x": 30, "y": 40, "buttons": [], "modifiers": []}));
    for body in [json!({}), json!({"key": "日"}), json!({"key": "a", "repeat": 2})] {
        fixture.fails("POST", "/key_down", body, 400).await;
    }
    // Held keys and buttons are released when the screen is left alone.
    fixture.ok("POST", "/key_down", json!({"key": "ctrl"})).await;
    fixture.ok("POST", "/mouse_down", json!({"button": "right"})).await;
    assert_eq!(fixture.boot().release_held_input().await.expect("the screen"), 2);
    let now = fixture.ok("GET", "/cursor_position", Value::Null).await;
    assert_eq!((&now["buttons"], &now["modifiers"]), (&json!([]), &json!([])));
    fixture.close().await;
}

#[tokio::test]
async fn keys_come_in_sequences_repeated_and_held() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    window.focus();
    let began = std::time::Instant::now();
    let body = json!({"keys": ["a", "ctrl+b"], "repeat": 2, "hold_ms": 30});
    fixture.ok("POST", "/key", body).await;
    assert!(began.elapsed() >= Duration::from_millis(120));
    let codes: Vec<u8> = window
        .events()
        .iter()
        .filter_map(|event| if let InputEvent::Key(code, _) = event { Some(*code) } else { None })
        .collect();
    assert_eq!(codes, [38, CTRL, 56, 38, CTRL, 56]);
    fixture.close().await;
}

#[tokio::test]
async fn a_drag_follows_its_path_and_fractions_of_wheel_steps_add_up() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    let path = json!([[10, 10], [110, 10], [110, 90], [20, 90]]);
    fixture.ok("POST", "/drag", json!({"path": path, "duration": 0.2})).await;
    let events = window.events();
    for corner in [InputEvent::Motion(110, 10), InputEvent::Motion(110, 90), InputEvent::Motion(20, 90)] {
        assert!(events.contains(&corner), "{corner:?} in {events:?}");
    }
    assert_eq!(events.last(), Some(&InputEvent::Release(1, 20, 90)));
    for event in &events {
        if let InputEvent::Motion(x, y) = event {
            assert!(*y == 10 || *x == 110 || *y == 90, "{x},{y} must be on the path");
        }
    }
    for (amount, steps) in [(0.5, 0), (0.25, 0), (0.25, 1), (1.75, 1), (0.25, 1)] {
        let answer = fixture.ok("POST", "/scroll", json!({"direction": "down", "amount": amount})).await;
        assert_eq!(answer["details"]["steps"], steps, "{answer}");
        assert_eq!(window.clicks().len(), steps * 2);
    }
    fixture.ok("POST", "/scroll", json!({"direction": "down", "amount": 0.9})).await;
    fixture.ok("POST", "/scroll", json!({"direction": "up", "amount": 1, "duration": 0.05})).await;
    assert_eq!(window.clicks().len(), 2);
    fixture.close().await;
}

#[tokio::test]
async fn an_action_tells_which_window_had_the_keyboard_and_what_was_painted() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let stable = fixture.ok("POST", "/click", json!({"x": 300, "y": 200})).await;
    assert_eq!((&stable["effect"]["window_after"], &stable["effect"]["changed"]), (&Value::Null, &json!([])));
    // Without a wait the answer makes no claim.
    assert!(stable["effect"]["no_visible_change"].is_null());
    let settle = json!({"quiet_ms": 50, "timeout_ms": 2000});
    let still = fixture.ok("POST", "/click", json!({"x": 300, "y": 200, "settle": settle})).await;
    assert_eq!(
        (&still["effect"]["no_visible_change"], &still["settle"]["reached"]),
        (&json!(true), &json!(true))
    );

    let window = Window::open(&fixture.display(), 20, 30, 100, 80, 0);
    window.name("a title");
    window.focus();
    let id = format!("{:#x}", window.id);
    let painter = paint_when_clicked(window, 40, 10, 20, 15, Duration::from_millis(20));
    // A settle time above the delay of a painter that gets little processor time.
    let settle = json!({"quiet_ms": 2000, "timeout_ms": 20_000});
    let answer = fixture.ok("POST", "/click", json!({"x": 50, "y": 50, "settle": settle})).await;
    let _window = painter.join().expect("painted");
    assert_eq!(answer["effect"]["window_after"], json!({"id": id, "title": "a title"}));
    assert_eq!(answer["effect"]["no_visible_change"], false);
    let painted = json!([{"x": 60, "y": 40, "width": 20, "height": 15}]);
    assert_eq!((&answer["settle"]["changed"], &answer["effect"]["changed"]), (&painted, &painted));
    fixture.close().await;
}

/// Fills a part of a window some time after a click into it.
fn paint_when_clicked(
    window: Window,
    x: i16,
    y: i16,
    width: u16,
    height: u16,
    after: Duration,
) -> std::thread::JoinHandle<Window> {
    std::thread::spawn(move || {
        window
            .wait_for(TIMEOUT, |events| events.iter().any(|event| matches!(event, InputEvent::Release(..))));
        std::thread::sleep(after);
        window.fill(x, y, width, height, 0xff_0000);
        window
    })
}

#[tokio::test]
async fn waiting_ends_when_the_screen_is_quiet_or_changed_or_the_time_is_up() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    // A caret of 2 by 20 pixels that blinks permanently.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let (painted_sender, painted_receiver) = std::sync::mpsc::channel();
    let painter = std::thread::spawn(move || {
        let mut colour = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            window.fill(10, 10, 2, 20, colour);
            let _ = painted_sender.send(());
            colour ^= 0xff_ffff;
            std::thread::sleep(Duration::from_millis(10));
        }
        window
    });
    painted_receiver.recv_timeout(TIMEOUT).expect("the caret must blink");
    let stable = fixture.ok("POST", "/wait_stable", json!({"quiet_ms": 1000, "timeout_ms": 20_000})).await;
    assert_eq!(stable["settle"]["reached"], true, "{stable}");
    let caret = json!([{"x": 10, "y": 10, "width": 2, "height": 20}]);
    assert_eq!(stable["settle"]["changed"], caret);
    let body =
        json!({"quiet_ms": 2000, "timeout_ms": 3000, "ignore_pixels": 0, "screenshot": {"scale": 0.5}});
    let never = fixture.ok("POST", "/wait_stable", body).await;
    assert_eq!((&never["settle"]["reached"], &never["screenshot"]["width"]), (&json!(false), &json!(200)));
    assert!(never["settle"]["waited_ms"].as_u64().expect("a number") >= 3000);
    let change = fixture.ok("POST", "/wait_change", json!({"timeout_ms": 20_000})).await;
    assert_eq!((&change["settle"]["reached"], &change["settle"]["changed"]), (&json!(true), &caret));
    let elsewhere = json!({"x": 100, "y": 100, "width": 50, "height": 50});
    let none = fixture.ok("POST", "/wait_change", json!({"timeout_ms": 200, "region": elsewhere})).await;
    assert_eq!(none["settle"]["reached"], false);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    painter.join().expect("the caret");
    for (path, body) in [
        ("/wait_stable", json!({"quiet_ms": 1})),
        ("/wait_stable", json!({"timeout_ms": 60_001})),
        ("/wait_change", json!({"region": {"x": 0, "y": 0, "width": 0, "height": 1}})),
        ("/click", json!({"x": 1, "y": 1, "settle": {"quiet_ms": 1}})),
        ("/click", json!({"x": 1, "y": 1, "settle": {"screenshot": {"format": "gif"}}})),
    ] {
        fixture.fails("POST", path, body, 400).await;
    }
    fixture.close().await;
}

#[tokio::test]
async fn a_list_is_done_in_order_with_nothing_between_and_ends_at_a_failure() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    window.focus();
    let list = json!([
        {"action": "move", "x": 1, "y": 1},
        {"action": "click", "x": 2, "y": 2},
        {"action": "wait", "seconds": 1},
        {"action": "type", "text": "ab"},
        {"action": "key", "key": "Enter"},
        {"action": "scroll", "direction": "down", "amount": 1},
        {"action": "screenshot", "scale": 0.25},
    ]);
    // Another client clicks during the list's wait: its click is performed after the list.
    let other = async {
        let started = hotdesk::base::wait::until(TIMEOUT, || async {
            (fixture.ok("GET", "/cursor_position", Value::Null).await["x"] == 2).then_some(())
        });
        started.await.expect("the list's click");
        fixture.ok("POST", "/click", json!({"x": 77, "y": 77})).await
    };
    let (result, _) = tokio::join!(fixture.ok("POST", "/actions", list), other);
    assert_eq!((&result["success"], &result["not_tried"]), (&json!(true), &json!(0)));
    assert_eq!(result["results"].as_array().expect("results").len(), 7);
    assert_eq!(result["results"][6]["result"]["screenshot"]["width"], 100);
    let events = presses(&window.events());
    let expected = [
        InputEvent::Press(1, 2, 2),
        InputEvent::Release(1, 2, 2),
        InputEvent::Key(38, 0),
        InputEvent::Key(56, 0),
        InputEvent::Key(36, 0),
        InputEvent::Press(5, 2, 2),
        InputEvent::Release(5, 2, 2),
        InputEvent::Press(1, 77, 77),
        InputEvent::Release(1, 77, 77),
    ];
    assert_eq!(events, expected);

    let failing = json!([{"action": "click", "x": 3, "y": 3}, {"action": "click", "x": 999, "y": 3}, {"action": "click", "x": 4, "y": 4}]);
    let ended = fixture.ok("POST", "/actions", failing.clone()).await;
    assert_eq!((&ended["success"], &ended["not_tried"]), (&json!(false), &json!(1)));
    assert_eq!(ended["results"][1]["error"]["status"], 400);
    assert_eq!(window.clicks(), [InputEvent::Press(1, 3, 3), InputEvent::Release(1, 3, 3)]);
    let body = json!({"actions": failing, "continue_on_error": true});
    let went_on = fixture.ok("POST", "/actions", body).await;
    assert_eq!((&went_on["success"], &went_on["not_tried"]), (&json!(false), &json!(0)));
    assert_eq!(window.clicks().len(), 4);
    for body in [
        json!([]),
        json!({}),
        json!("click"),
        json!([{"action": "fly"}]),
        json!([{"x": 1, "y": 1}]),
        json!([{"action": "click", "x": 1}]),
        json!([{"action": "click", "x": 1, "y": 1}, {"action": "wait_stable", "quiet_ms": 0}]),
        json!(vec![json!({"action": "move", "x": 1, "y": 1}); 201]),
    ] {
        fixture.fails("POST", "/actions", body, 400).await;
    }
    assert_eq!(window.clicks(), []);
    fixture.close().await;
}

#[tokio::test]
async fn what_a_list_did_is_told_though_its_end_fails() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0);
    let click = json!({"action": "click", "x": 3, "y": 3});
    let list = |screenshot| json!({"actions": [click], "settle": {"quiet_ms": 10, "screenshot": screenshot}});
    let result = fixture.ok("POST", "/actions", list(json!({"max_bytes": 1}))).await;
    assert_eq!(result["success"], true);
    assert_eq!(result["results"][0]["result"]["action"], "click");
    assert_eq!(result["settle_error"]["code"], "budget_too_small");
    assert!(result["screenshot"].is_null() && result["settle"].is_object(), "{result}");
    assert_eq!(window.clicks().len(), 2);
    // What is known before is refused before.
    fixture.fails("POST", "/actions", list(json!({"region": "0,0,401,300"})), 400).await;
    let mut long = vec![json!({"action": "wait", "seconds": 60}); 16];
    long.insert(0, click.clone());
    fixture.fails("POST", "/actions", json!(long), 400).await;
    assert_eq!(window.clicks(), []);

    let group = json!({"groups": [3], "actions": [{"action": "mouse_down", "x": 5, "y": 5},
        {"action": "click", "x": 999, "y": 3}, {"action": "mouse_up"}]});
    let failed = fixture.ok("POST", "/actions", group).await;
    assert_eq!(failed["results"][0]["error"]["status"], 400);
    let now = fixture.ok("GET", "/cursor_position", Value::Null).await;
    assert_eq!(now["buttons"], json!([]));
    fixture.close().await;
}

#[tokio::test]
async fn typing_tells_when_another_window_takes_the_keyboard() {
    const MANY: usize = 10_000;
    let fixture = DisplayFixture::bare(400, 300).await;
    let display = fixture.display();
    let first = Window::open(&display, 0, 0, 200, 300, 0);
    let second = Window::open(&display, 200, 0, 200, 300, 0);
    first.focus();
    let focus_taker = std::thread::spawn(move || {
        first.wait_for(TIMEOUT, |events| events.iter().any(|event| matches!(event, InputEvent::Key(38, _))));
        second.focus();
        (first, second)
    });
    // No key of the layout types these characters, so typing takes seconds: enough time for a slow thread to
    // take the focus.
    let unmapped: String = ('\u{4e00}'..).take(MANY).collect();
    let body = json!({"text": format!("a{unmapped}"), "stop_on_focus_change": true});
    let answer = fixture.ok("POST", "/type", body).await;
    let (_first, second) = focus_taker.join().expect("the focus was taken");
    let delivered = answer["details"]["characters_delivered"].as_u64().expect("a number");
    assert!((1..=MANY as u64).contains(&delivered), "{delivered}");
    assert_eq!(
        (&answer["success"], &answer["details"]["focus_changed_at"]),
        (&json!(false), &json!(delivered))
    );
    assert_eq!(answer["effect"]["window_after"]["id"], format!("{:#x}", second.id));
    let whole = fixture.ok("POST", "/type", json!({"text": "abc"})).await;
    assert_eq!((&whole["success"], &whole["details"]["characters_delivered"]), (&json!(true), &json!(3)));
    fixture.close().await;
}

#[tokio::test]
async fn a_long_text_is_pasted_and_the_clipboard_gets_back_what_it_held() {
    if !super::fixture::installed("xterm") {
        return;
    }
    let fixture = DisplayFixture::bare(640, 480).await;
    fixture.ok("PUT", "/clipboard", json!({"text": "mine"})).await;
    // Without a focused window nobody pastes, and the answer reports that.
    let undelivered = fixture.ok("POST", "/type", json!({"text": "to nobody", "mode": "paste"})).await;
    assert_eq!(
        (&undelivered["success"], &undelivered["details"]["characters_delivered"]),
        (&json!(false), &json!(0))
    );
    let folder = tempfile::tempdir().expect("a folder");
    let mut terminal = std::process::Command::new("xterm")
        .args(["-u8", "-wf", "-geometry", "80x24+0+0"])
        .args(["-xrm", "XTerm*allowPasteControls: true", "-e", "sh", "-c"])
        .arg("stty raw -echo; : > ready; exec cat > text")
        .current_dir(folder.path())
        .env("DISPLAY", fixture.display())
        .env("LC_ALL", "C.UTF-8")
        .spawn()
        .expect("xterm");
    let ready = folder.path().join("ready");
    hotdesk::base::wait::until(TIMEOUT, || async { ready.exists().then_some(()) })
        .await
        .expect("the shell of the terminal");
    fixture.ok("POST", "/move", json!({"x": 100, "y": 100})).await;
    let text = "Grüße, 日本語, 🎉. ".repeat(3000);
    let result = fixture.ok("POST", "/type", json!({"text": text, "mode": "paste"})).await;
    let count = text.chars().count();
    assert_eq!(
        (&result["success"], &result["details"]["characters_delivered"]),
        (&json!(true), &json!(count))
    );
    let file = folder.path().join("text");
    let received =
        || async { std::fs::read_to_string(&file).ok().filter(|received| received.chars().count() >= count) };
    let received = hotdesk::base::wait::until(TIMEOUT, received).await.expect("the text");
    assert!(received == text, "the pasted text must equal the sent text");
    assert_eq!(fixture.ok("GET", "/clipboard", Value::Null).await["text"], "mine");
    terminal.kill().expect("the terminal runs");
    terminal.wait().expect("the terminal ends");
    fixture.close().await;
}
