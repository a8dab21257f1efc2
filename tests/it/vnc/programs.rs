//! VNC client `vncdotool` on a computer's socket: it sees the screen and sends input.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::pixels::Pixels;
use super::puppet::PythonDriver;
use super::{TIMEOUT, create_ticket, open_terminal, password_path, screenshot, typed_text};
use crate::harness::controller::RunningController;

/// The share of pixels that must be equal.
const MIN_SIMILARITY: f64 = 0.99;

/// Asserts that a program sees a screen of this size like the API shows it. It retries: a desktop that has
/// just started still paints between the two pictures.
async fn assert_sees(
    program: &mut PythonDriver,
    controller: &RunningController,
    id: &str,
    screen: &str,
    size: &Value,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("seen.png");
    let started = Instant::now();
    loop {
        assert_eq!(program.run("capture", json!({"file": file})), *size, "{screen}");
        let similarity = Pixels::of_file(&file).similarity(&screenshot(controller, id, screen).await);
        if similarity > MIN_SIMILARITY {
            return;
        }
        assert!(started.elapsed() < TIMEOUT, "{screen}: only {similarity} of the pixels are equal");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vnc_program_sees_what_the_api_shows_and_types() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let (x, y) = open_terminal(&controller, &id).await;
    let url = format!("ws://{}{}", controller.address(), password_path(&controller, &id, "").await);
    let Some(mut program) = PythonDriver::start("vnc.py", &[&url]) else { return };
    program.run("click", json!({"x": x, "y": y}));
    program.run("type", json!({"text": "hello vnc 1\n"}));
    assert_eq!(typed_text(&controller, &id, "hello vnc 1").await, "hello vnc 1");
    // The program draws the pointer, so it must be out of the way.
    program.run("click", json!({"x": 1270, "y": 700}));
    assert_sees(&mut program, &controller, &id, "default", &json!([1280, 720])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_is_reached_by_its_id_and_a_resize_is_seen() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let created =
        controller.create(&format!("/computers/{id}/screens"), json!({"width": 640, "height": 480})).await;
    let second = created["id"].as_str().expect("an id").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("seen.png");
    for (screen, size) in [("default", json!([1280, 720])), (second.as_str(), json!([640, 480]))] {
        let path = password_path(&controller, &id, &format!("&screen={screen}")).await;
        let Some(mut program) =
            PythonDriver::start("vnc.py", &[&format!("ws://{}{path}", controller.address())])
        else {
            return;
        };
        assert_sees(&mut program, &controller, &id, screen, &size).await;
    }
    // The size changes while a program is connected.
    let watching = create_ticket(&controller, &id, json!({"mode": "view", "screen": second})).await;
    let url = watching["ws_url"].as_str().expect("a URL");
    let Some(mut program) = PythonDriver::start("vnc.py", &[url]) else { return };
    assert_eq!(program.run("capture", json!({"file": file})), json!([640, 480]));
    let path = format!("/computers/{id}/screens/{second}");
    assert_eq!(controller.patch(&path, json!({"width": 900, "height": 500})).await.status, 200);
    assert_eq!(program.run("capture", json!({"file": file})), json!([900, 500]));
    // A removed screen disconnects its viewers.
    assert_eq!(controller.delete(&path).await.status, 200);
    assert_eq!(program.run("code", json!({})), 4502);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_watch_acts_on_nothing_whatever_the_program_sends() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let (x, y) = open_terminal(&controller, &id).await;
    controller.act(&id, "move", json!({"x": 20, "y": 20})).await;
    let watching = create_ticket(&controller, &id, json!({"mode": "view"})).await;
    let url = watching["ws_url"].as_str().expect("a URL");
    let Some(mut program) = PythonDriver::start("vnc.py", &[url]) else { return };
    program.run("click", json!({"x": x, "y": y}));
    program.run("type", json!({"text": "not this\n"}));
    program.run("paste", json!({"text": "nor this"}));
    // The program still sees the screen, so the server has read its input.
    assert_sees(&mut program, &controller, &id, "default", &json!([1280, 720])).await;
    let at = controller.get(&format!("/computers/{id}/cursor_position")).await.body;
    assert_eq!((&at["x"], &at["y"]), (&json!(20), &json!(20)));
    assert_ne!(controller.get(&format!("/computers/{id}/clipboard")).await.body["text"], "nor this");
    // A viewer with control: none of the earlier input precedes its own.
    let acting = create_ticket(&controller, &id, json!({"mode": "control"})).await;
    let Some(mut other) = PythonDriver::start("vnc.py", &[acting["ws_url"].as_str().expect("a URL")]) else {
        return;
    };
    other.run("click", json!({"x": x, "y": y}));
    other.run("type", json!({"text": "but this\n"}));
    assert_eq!(typed_text(&controller, &id, "but this").await, "but this");
}
