//! All events of a real computer through the controller, over one socket.

use hotdesk::domain::desktop::event::EventKind;
use serde_json::{Value, json};

use super::source::{JsonMessages, subscribe};
use crate::harness::controller::RunningController;
use crate::harness::socket::Client;

/// An events socket and the events that it has received.
struct EventLog {
    client: Client,
    events: Vec<(String, Value)>,
}

impl EventLog {
    /// Waits until each of these events has arrived, in any order; keeps the events in between.
    async fn wait_for_all(&mut self, mut expected: Vec<(&str, Value)>) {
        while !expected.is_empty() {
            let mut message = self.client.next_json().await;
            assert_eq!((&message["type"], &message["dropped"]), (&json!("event"), &Value::Null), "{message}");
            let kind = message["event"]["type"].as_str().expect("a type").to_owned();
            let data = message["event"]["data"].take();
            // The expected data omits fields that a test cannot know.
            let matches_event = |(name, fields): &(&str, Value)| {
                let fields = fields.as_object().expect("an object");
                *name == kind && fields.iter().all(|(name, value)| data[name] == *value)
            };
            if let Some(at) = expected.iter().position(matches_event) {
                expected.remove(at);
            }
            self.events.push((kind, data));
        }
    }

    async fn wait_for(&mut self, kind: &str, data: Value) {
        self.wait_for_all(vec![(kind, data)]).await;
    }

    /// Values of a field in the events of a subject so far, in order: the subject is a field with a value,
    /// and the field "type" is the type of the event.
    fn values_of(&self, field: &str, value: &str, what: &str) -> Vec<&str> {
        let of_subject = self.events.iter().filter(|(_, data)| data[field] == value);
        of_subject
            .map(|(kind, data)| if what == "type" { kind } else { data[what].as_str().expect("text") })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_happens_in_a_computer_is_told_through_the_controller() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = password.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    let mut client = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    // All but idle, which needs half a minute and is tested on a screen.
    let names: Vec<&str> =
        EventKind::ALL.iter().map(|kind| kind.name()).filter(|name| *name != "idle").collect();
    subscribe(&mut client, "subscribe", &names).await;
    let mut log = EventLog { client, events: Vec::new() };

    // One folder with two names: written by one, reported by the other.
    controller
        .bash(&id, "touch /root/Desktop/a.txt /home/user/Downloads/b.txt; rm /home/user/Desktop/a.txt")
        .await;
    let file = |action: &str, folder: &str, name: &str| {
        json!({"path": format!("/home/user/{folder}/{name}"), "action": action,
            "real_path": format!("/root/{folder}/{name}")})
    };
    // Order is defined for one subject only: folders, windows and processes are reported independently.
    let created = file("created", "Desktop", "a.txt");
    let (deleted, other) = (file("deleted", "Desktop", "a.txt"), file("created", "Downloads", "b.txt"));
    log.wait_for_all(vec![("file_change", created), ("file_change", deleted), ("file_change", other)]).await;
    assert_eq!(log.values_of("path", "/home/user/Desktop/a.txt", "action"), ["created", "deleted"]);

    controller.bash(&id, "xterm -T 'a title' -e sleep 1000 >/dev/null 2>&1 & sleep 0.1").await;
    let window = json!({"title": "a title", "screen": "default"});
    let process = json!({"name": "xterm"});
    let opened =
        vec![("window_open", window.clone()), ("window_focus", window), ("process_start", process.clone())];
    log.wait_for_all(opened).await;
    let of_the_window = log.values_of("title", "a title", "type");
    assert_eq!(of_the_window[..2], ["window_open", "window_focus"]);
    controller.bash(&id, "pkill xterm").await;
    let closed = vec![("window_close", json!({"screen": "default"})), ("process_stop", process)];
    log.wait_for_all(closed).await;

    controller.bash(&id, "printf copied | xclip -selection clipboard >/dev/null 2>&1").await;
    log.wait_for("clipboard", json!({"content": "copied", "screen": "default"})).await;

    let screen = format!("/computers/{id}/screens/default");
    let resized = controller.patch(&screen, json!({"width": 800, "height": 600})).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    log.wait_for("screen_change", json!({"width": 800, "height": 600, "screen": "default"})).await;

    // Play until the event arrives: on a busy machine a program needs seconds to start.
    controller.bash(&id, "pacat --playback --raw /dev/zero >/dev/null 2>&1 &").await;
    log.wait_for("audio_stream_start", json!({})).await;
    controller.bash(&id, "pkill pacat").await;
    log.wait_for("audio_stream_stop", json!({})).await;

    // Processes that the agent starts to run commands are not reported.
    let own =
        |(_, data): &&(String, Value)| data["name"].as_str().is_some_and(|name| name.starts_with("hotdesk"));
    let own: Vec<_> = log.events.iter().filter(own).collect();
    assert!(own.is_empty(), "{own:?}");
}
