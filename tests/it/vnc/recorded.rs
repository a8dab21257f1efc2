//! Actions of viewers in the timeline: who did them, what and where, with pictures and without a typed
//! character (docs/api/timeline.md).

use std::path::PathBuf;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::control::{post_as, sync, viewer_as};
use super::pressed::{handshake, open_agent, pointer, send, viewer};
use super::tickets::path;
use super::{TIMEOUT, create_ticket, open_viewer};
use crate::harness::agent::RunningAgent;
use crate::harness::controller::RunningController;
use crate::harness::socket::Client;
use crate::timeline::entries;

/// A part of a stored record.
const SOURCE: &[u8] = br#""source":"vnc""#;
/// The Return key.
const RETURN: u32 = 0xff0d;

/// A press of each key, down and up.
fn keys(keysyms: &[u32]) -> Vec<u8> {
    let press = |keysym: &u32| {
        [1, 0].map(|is_down| [&[4, is_down, 0, 0][..], &keysym.to_be_bytes()].concat()).concat()
    };
    keysyms.iter().flat_map(press).collect()
}

/// A click of the left button.
fn click(x: u8, y: u8) -> Vec<u8> {
    [pointer(0, x, y), pointer(1, x, y), pointer(0, x, y)].concat()
}

/// A text for the clipboard.
fn clipboard(text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("a length").to_be_bytes();
    [&[6, 0, 0, 0][..], &length, text].concat()
}

/// The agent's entries, as soon as a condition holds for them.
async fn until(agent: &RunningAgent, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let read = || async {
        let page = agent.get("/timeline").await.body;
        page["entries"].as_array().expect("a list").clone()
    };
    let found = wait::until(TIMEOUT, || async {
        let found = read().await;
        condition(&found).then_some(found)
    });
    match found.await {
        Some(found) => found,
        None => panic!("{:?}", records(&read().await)),
    }
}

/// The records of entries without what differs between runs.
fn records(entries: &[Value]) -> Vec<Value> {
    let record = |entry: &Value| {
        let mut record = entry["record"].clone();
        let fields = record.as_object_mut().expect("an object");
        for volatile in ["took", "window_after"] {
            fields.remove(volatile);
        }
        record
    };
    entries.iter().map(record).collect()
}

fn is_jpeg(picture: &Value) -> bool {
    picture.as_str().is_some_and(|text| text.starts_with("/9j/"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_viewer_does_is_in_the_timeline_without_what_it_typed() {
    let Some((agent, window)) = open_agent().await else { return };
    window.name("painted");
    window.focus();
    let by = format!("person:{}", uuid::Uuid::new_v4());
    let mut viewer = viewer_as(&agent, &by).await;
    send(&mut viewer, click(50, 60)).await;
    let clicked = until(&agent, |found| !found.is_empty()).await;
    assert!(is_jpeg(&clicked[0]["before"]) && is_jpeg(&clicked[0]["after"]), "pictures");
    assert_eq!(clicked[0]["record"]["window_after"]["title"], "painted");

    // Each group is one message, so that no pause of this test is one of the viewer.
    let drag = [pointer(1, 10, 10), pointer(1, 60, 40), pointer(0, 100, 90)].concat();
    let wheel = [pointer(16, 30, 40), pointer(0, 30, 40)].concat();
    let typed = [keys(&[u32::from(b'z'), u32::from(b'q'), u32::from(b'z')]), keys(&[RETURN])].concat();
    for message in [
        [click(200, 100), click(200, 100)].concat(),
        drag,
        [&wheel[..], &wheel, &wheel].concat(),
        typed,
        clipboard(b"zq for the clipboard"),
    ] {
        send(&mut viewer, message).await;
    }
    let found = until(&agent, |found| found.len() >= 6).await;
    let of_viewer = |fields: Value| {
        let mut all = json!({"screen": "default", "source": "vnc", "success": true});
        all.as_object_mut().expect("an object").append(&mut fields.as_object().expect("an object").clone());
        all
    };
    let expected = [
        json!({"action": "click", "x": 50, "y": 60, "button": "left", "count": 1}),
        json!({"action": "click", "x": 200, "y": 100, "button": "left", "count": 2}),
        json!({"action": "drag", "x": 10, "y": 10, "end_x": 100, "end_y": 90, "button": "left"}),
        json!({"action": "scroll", "x": 30, "y": 40, "direction": "down", "amount": 3}),
        json!({"action": "type", "characters": 3, "keys": ["Return"]}),
        json!({"action": "set_clipboard", "characters": 20}),
    ];
    assert_eq!(records(&found), expected.map(of_viewer));
    assert!(found.iter().all(|entry| entry["by"] == json!(by)), "{:?}", records(&found));
    let with_picture = found.iter().filter(|entry| is_jpeg(&entry["after"])).count();
    assert_eq!(with_picture, 5, "all but that of the clipboard");
    // The title of a window may show what was typed.
    assert!(found[4]["record"]["window_after"].is_null());
    for entry in &found {
        let told = entry["record"].to_string();
        assert!(!told.contains(['z', 'q']), "{told}");
    }
    // A button that is down when the viewer leaves comes up, which is a click.
    send(&mut viewer, pointer(4, 9, 9)).await;
    sync(&mut viewer).await;
    drop(viewer);
    let found = until(&agent, |found| found.len() >= 7).await;
    let expected = json!({"action": "click", "x": 9, "y": 9, "button": "right", "count": 1});
    assert_eq!(records(&found)[6], of_viewer(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_is_dropped_is_not_recorded() {
    let Some((agent, _window)) = open_agent().await else { return };
    let [holder, other] = ["person", "key"].map(|kind| format!("{kind}:{}", uuid::Uuid::new_v4()));
    let mut watching = viewer_as(&agent, &other).await;
    post_as(&agent, &holder, "control", json!({"seconds": 600})).await;
    for message in [click(70, 80), keys(&[RETURN]), clipboard(b"dropped")] {
        send(&mut watching, message).await;
    }
    sync(&mut watching).await;
    post_as(&agent, &holder, "control/hand_back", json!({})).await;
    send(&mut watching, click(30, 40)).await;
    let found = until(&agent, |found| !found.is_empty()).await;
    assert_eq!((found.len(), &found[0]["record"]["x"]), (1, &json!(30)), "{:?}", records(&found));
    assert_eq!(found[0]["number"], 1, "none was lost either");
}

/// More input at once than a queue holds: what was not recorded is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_input_is_recorded_or_counted() {
    const PRESSES: usize = 3000;
    let Some((agent, _window)) = open_agent().await else { return };
    let mut viewer = viewer(&agent).await;
    send(&mut viewer, keys(&[u32::from(b'z'); PRESSES])).await;
    sync(&mut viewer).await;
    // At its end everything is told.
    drop(viewer);
    let sum = |found: &[Value]| {
        let count =
            |entry: &Value| ["characters", "inputs"].map(|name| entry["record"][name].as_u64().unwrap_or(0));
        found.iter().flat_map(count).sum::<u64>()
    };
    let expected = u64::try_from(PRESSES).expect("a number");
    let found = until(&agent, |found| sum(found) >= expected).await;
    assert_eq!(sum(&found), expected, "{:?}", records(&found));
    assert!(found.len() < 60, "they are grouped: {}", found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_not_understood_is_told() {
    let Some((agent, _window)) = open_agent().await else { return };
    let mut viewer = viewer(&agent).await;
    send(&mut viewer, click(30, 40)).await;
    // Xvnc ends the connection of such a client, or not: what it does from then on is not recorded.
    send(&mut viewer, [vec![7], click(50, 60)].concat()).await;
    let found = until(&agent, |found| found.len() >= 2).await;
    let actions: Vec<&str> = found.iter().filter_map(|entry| entry["record"]["action"].as_str()).collect();
    assert_eq!(actions, ["click", "not_recorded"]);
    assert!(found[1]["record"]["inputs"].is_null());
}

/// A viewer with a ticket.
async fn with_ticket(controller: &RunningController, id: &str, mode: &str) -> Client {
    let ticket = create_ticket(controller, id, json!({ "mode": mode })).await;
    let mut viewer = open_viewer(controller, &path(&ticket)).await;
    handshake(&mut viewer).await;
    viewer
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_of_a_computer_names_whose_ticket_it_was() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let mut watching = with_ticket(&controller, &id, "view").await;
    send(&mut watching, click(70, 80)).await;
    sync(&mut watching).await;
    let mut acting = with_ticket(&controller, &id, "control").await;
    send(&mut acting, click(50, 60)).await;
    let found = wait::until(TIMEOUT, || async {
        let found = entries(&controller, &id, "").await;
        let is_complete = found.first().is_some_and(|entry| entry["after"] == true);
        is_complete.then_some(found)
    });
    let found = found.await.expect("an entry with a picture");
    let [clicked] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&clicked["action"], &clicked["source"]), (&json!("click"), &json!("vnc")));
    assert_eq!((&clicked["x"], &clicked["y"]), (&json!(50), &json!(60)));
    assert_eq!(clicked["by"]["kind"], "key", "the ticket's");
    assert!(clicked["by"]["name"].is_string(), "{clicked}");
    for side in ["before", "after"] {
        let entry = clicked["id"].as_str().expect("an id");
        let picture = format!("/computers/{id}/timeline/{entry}/{side}");
        let answer = controller.request(Method::GET, &picture).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{side}");
    }
}

/// Nobody reads the timeline here: the controller fetches it because of the viewer's input.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_is_somebody_who_acts() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let password = super::password_path(&controller, &id, "").await;
    let mut viewer = open_viewer(&controller, &password).await;
    handshake(&mut viewer).await;
    // Longer than the fetches go on after the request that opened the socket.
    tokio::time::sleep(Duration::from_secs(6)).await;
    send(&mut viewer, click(50, 60)).await;
    let store = controller.store_file();
    let files = [store.clone(), store.with_extension("db-wal")];
    let stored = wait::until(TIMEOUT, || async {
        let is_in = |file: &PathBuf| {
            let bytes = std::fs::read(file).unwrap_or_default();
            bytes.windows(SOURCE.len()).any(|part| part == SOURCE)
        };
        files.iter().any(is_in).then_some(())
    });
    stored.await.expect("an entry is stored without a reader");
    let found = entries(&controller, &id, "by=password").await;
    assert!(found.iter().any(|entry| entry["action"] == "click"), "{found:?}");
}
