//! Python's `websockets` as an events client, of a test feed and of a computer through the controller.

use std::process::Command;

use hotdesk::domain::desktop::event::EventKind;
use hotdesk::wire::desktop::event::Event;

use super::source::{EventSource, sample_events};
use crate::clients::python;
use crate::harness::controller::RunningController;

/// Runs the Python client; returns its output.
async fn run_client(url: String, events: usize) -> Option<String> {
    let python = python()?;
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/events_client.py"));
    client.args([url, events.to_string()]);
    let output = tokio::task::spawn_blocking(move || client.output())
        .await
        .expect("no panic")
        .expect("the client runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    Some(stdout.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_is_told_every_type() {
    let source = EventSource::new();
    let address = source.serve().await;
    let publisher = source.clone();
    let _published = source.tasks.spawn("cause", async move {
        publisher.wait_for_subscriptions(EventKind::ALL).await;
        for data in sample_events() {
            publisher.feed.publish(Event::now(data));
        }
    });
    let stdout = run_client(format!("ws://{address}/ws/events"), EventKind::ALL.len()).await;
    assert_eq!(stdout.as_deref().unwrap_or("closed 1000"), "closed 1000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_converses_with_a_computer_through_the_controller() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let record = controller.record(&id).await;
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = password.body["password"].as_str().expect("a password").to_owned();
    for name in [&id, record["instance_id"].as_str().expect("an instance")] {
        let url = format!("ws://{}/desktops/{name}/ws/events?token={password}", controller.address());
        let stdout = run_client(url, 0).await;
        assert_eq!(stdout.as_deref().unwrap_or("closed 1000"), "closed 1000");
    }
}
