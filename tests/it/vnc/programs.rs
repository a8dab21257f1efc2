//! Does a VNC program that knows nothing of hotdesk see and act? `vncdotool`, over the computer's socket.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::pixels::Pixels;
use super::puppet::Puppet;
use super::{TIMEOUT, heard, listener, screenshot, ticket, with_password};
use crate::harness::controller::RunningController;

/// Which part of a picture's pixels has to be the same.
const ALIKE: f64 = 0.99;

/// Asserts that a program sees a screen of this size as the API shows it, or soon does: a desktop that has just come up goes on
/// painting between the two looks.
async fn sees(program: &mut Puppet, house: &RunningController, id: &str, screen: &str, size: &Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("seen.png");
    let begun = Instant::now();
    loop {
        assert_eq!(program.does("capture", json!({"file": file})), *size, "{screen}");
        let alike = Pixels::of_file(&file).alike(&screenshot(house, id, screen).await);
        if alike > ALIKE {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{screen}: only {alike} of the pixels are alike");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vnc_program_sees_what_the_api_shows_and_types() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let (x, y) = listener(&house, &id).await;
    let url = format!("ws://{}{}", house.address(), with_password(&house, &id, "").await);
    let Some(mut program) = Puppet::start("vnc.py", &[&url]) else { return };
    program.does("click", json!({"x": x, "y": y}));
    program.does("type", json!({"text": "hello vnc 1\n"}));
    assert_eq!(heard(&house, &id, "hello vnc 1").await, "hello vnc 1");
    // The pointer is part of what the program draws: out of the way.
    program.does("click", json!({"x": 1270, "y": 700}));
    sees(&mut program, &house, &id, "default", &json!([1280, 720])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_is_reached_by_its_id_and_a_resize_is_seen() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let made = house.made(&format!("/computers/{id}/screens"), json!({"width": 640, "height": 480})).await;
    let second = made["id"].as_str().expect("an id").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("seen.png");
    for (screen, size) in [("default", json!([1280, 720])), (second.as_str(), json!([640, 480]))] {
        let path = with_password(&house, &id, &format!("&screen={screen}")).await;
        let Some(mut program) = Puppet::start("vnc.py", &[&format!("ws://{}{path}", house.address())]) else {
            return;
        };
        sees(&mut program, &house, &id, screen, &size).await;
    }
    // The size changes while a program watches.
    let watching = ticket(&house, &id, json!({"mode": "view", "screen": second})).await;
    let url = watching["ws_url"].as_str().expect("a URL");
    let Some(mut program) = Puppet::start("vnc.py", &[url]) else { return };
    assert_eq!(program.does("capture", json!({"file": file})), json!([640, 480]));
    let path = format!("/computers/{id}/screens/{second}");
    assert_eq!(house.patch(&path, json!({"width": 900, "height": 500})).await.status, 200);
    assert_eq!(program.does("capture", json!({"file": file})), json!([900, 500]));
    // A screen that ends takes its viewers along.
    assert_eq!(house.delete(&path).await.status, 200);
    assert_eq!(program.does("code", json!({})), 4502);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_watch_acts_on_nothing_whatever_the_program_sends() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let (x, y) = listener(&house, &id).await;
    house.act(&id, "move", json!({"x": 20, "y": 20})).await;
    let watching = ticket(&house, &id, json!({"mode": "view"})).await;
    let url = watching["ws_url"].as_str().expect("a URL");
    let Some(mut program) = Puppet::start("vnc.py", &[url]) else { return };
    program.does("click", json!({"x": x, "y": y}));
    program.does("type", json!({"text": "not this\n"}));
    program.does("paste", json!({"text": "nor this"}));
    // It still sees: the connection is sound, and what was sent before has been read.
    sees(&mut program, &house, &id, "default", &json!([1280, 720])).await;
    let at = house.get(&format!("/computers/{id}/cursor_position")).await.body;
    assert_eq!((&at["x"], &at["y"]), (&json!(20), &json!(20)));
    assert_ne!(house.get(&format!("/computers/{id}/clipboard")).await.body["text"], "nor this");
    // Then somebody who may act: nothing of the other's is before it.
    let acting = ticket(&house, &id, json!({"mode": "control"})).await;
    let Some(mut other) = Puppet::start("vnc.py", &[acting["ws_url"].as_str().expect("a URL")]) else {
        return;
    };
    other.does("click", json!({"x": x, "y": y}));
    other.does("type", json!({"text": "but this\n"}));
    assert_eq!(heard(&house, &id, "but this").await, "but this");
}
