//! Does Python's `websockets` get along with it? Against a feed of the test's, and through a controller to a computer.

use std::process::Command;

use hotdesk::domain::event::Kind;
use hotdesk::wire::event::Event;

use super::source::{Source, one_of_each};
use crate::clients::python;
use crate::harness::controller::RunningController;

/// Runs the client's whole conversation; what it says at the end.
async fn converse(url: String, events: usize) -> Option<String> {
    let Some(python) = python() else {
        println!("skipped: no Python environment (make deps-test)");
        return None;
    };
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/events_client.py"));
    client.args([url, events.to_string()]);
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("it ran").expect("it ran");
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    Some(said.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_is_told_every_type() {
    let source = Source::new();
    let address = source.serve().await;
    let telling = source.clone();
    let _told = source.tasks.spawn("cause", async move {
        telling.until_wanted(Kind::ALL).await;
        for data in one_of_each() {
            telling.feed.publish(Event::now(data));
        }
    });
    let said = converse(format!("ws://{address}/ws/events"), Kind::ALL.len()).await;
    assert_eq!(said.as_deref().unwrap_or("closed 1000"), "closed 1000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_converses_with_a_computer_through_the_controller() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let record = house.record(&id).await;
    let password = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = password.body["password"].as_str().expect("a password").to_owned();
    for name in [&id, record["instance_id"].as_str().expect("an instance")] {
        let url = format!("ws://{}/desktops/{name}/ws/events?token={password}", house.address());
        let said = converse(url, 0).await;
        assert_eq!(said.as_deref().unwrap_or("closed 1000"), "closed 1000");
    }
}
