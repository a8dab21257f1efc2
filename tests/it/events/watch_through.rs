//! What happens in a real computer, heard through the controller by one socket that asks for everything.

use hotdesk::domain::event::Kind;
use serde_json::{Value, json};

use super::source::{Talk, subscribe};
use crate::harness::controller::RunningController;
use crate::harness::socket::Client;

/// A computer's events, and those of them that were heard.
struct Ear {
    client: Client,
    heard: Vec<(String, Value)>,
}

impl Ear {
    /// Listens until each of these events has come, in whatever order; those between them are kept.
    async fn until_all(&mut self, mut expected: Vec<(&str, Value)>) {
        while !expected.is_empty() {
            let mut told = self.client.told().await;
            assert_eq!((&told["type"], &told["dropped"]), (&json!("event"), &Value::Null), "{told}");
            let kind = told["event"]["type"].as_str().expect("a type").to_owned();
            let data = told["event"]["data"].take();
            // Fields that a test cannot know are left out of what it expects.
            let is = |(name, fields): &(&str, Value)| {
                let fields = fields.as_object().expect("an object");
                *name == kind && fields.iter().all(|(name, value)| data[name] == *value)
            };
            if let Some(at) = expected.iter().position(is) {
                expected.remove(at);
            }
            self.heard.push((kind, data));
        }
    }

    async fn until(&mut self, kind: &str, data: Value) {
        self.until_all(vec![(kind, data)]).await;
    }

    /// What was told so far of whatever has this value: a field of each event, or with "type" its kind, in their order.
    fn told_of(&self, field: &str, value: &str, what: &str) -> Vec<&str> {
        let of_it = self.heard.iter().filter(|(_, data)| data[field] == value);
        of_it
            .map(|(kind, data)| if what == "type" { kind } else { data[what].as_str().expect("text") })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_happens_in_a_computer_is_told_through_the_controller() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let password = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = password.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    let mut client = Client::open(house.address(), &path, &[]).await.expect("accepted");
    // All but idle, which takes half a minute and is tested on a screen.
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).filter(|name| *name != "idle").collect();
    subscribe(&mut client, "subscribe", &names).await;
    let mut ear = Ear { client, heard: Vec::new() };

    // One folder under two names: written to by one, told by the other.
    house
        .bash(&id, "touch /root/Desktop/a.txt /home/user/Downloads/b.txt; rm /home/user/Desktop/a.txt")
        .await;
    let file = |action: &str, folder: &str, name: &str| {
        json!({"path": format!("/home/user/{folder}/{name}"), "action": action,
            "real_path": format!("/root/{folder}/{name}")})
    };
    // Each folder is told by itself, and so are windows and processes: only what is told of one thing has an order.
    let created = file("created", "Desktop", "a.txt");
    let (deleted, other) = (file("deleted", "Desktop", "a.txt"), file("created", "Downloads", "b.txt"));
    ear.until_all(vec![("file_change", created), ("file_change", deleted), ("file_change", other)]).await;
    assert_eq!(ear.told_of("path", "/home/user/Desktop/a.txt", "action"), ["created", "deleted"]);

    house.bash(&id, "xterm -T 'a title' -e sleep 1000 >/dev/null 2>&1 & sleep 0.1").await;
    let window = json!({"title": "a title", "screen": "default"});
    let process = json!({"name": "xterm"});
    let opened =
        vec![("window_open", window.clone()), ("window_focus", window), ("process_start", process.clone())];
    ear.until_all(opened).await;
    let of_the_window = ear.told_of("title", "a title", "type");
    assert_eq!(of_the_window[..2], ["window_open", "window_focus"]);
    house.bash(&id, "pkill xterm").await;
    let closed = vec![("window_close", json!({"screen": "default"})), ("process_stop", process)];
    ear.until_all(closed).await;

    house.bash(&id, "printf copied | xclip -selection clipboard >/dev/null 2>&1").await;
    ear.until("clipboard", json!({"content": "copied", "screen": "default"})).await;

    let screen = format!("/computers/{id}/screens/default");
    let resized = house.patch(&screen, json!({"width": 800, "height": 600})).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    ear.until("screen_change", json!({"width": 800, "height": 600, "screen": "default"})).await;

    // It plays until that was told: on a busy machine a program needs seconds to begin.
    house.bash(&id, "pacat --playback --raw /dev/zero >/dev/null 2>&1 &").await;
    ear.until("audio_stream_start", json!({})).await;
    house.bash(&id, "pkill pacat").await;
    ear.until("audio_stream_stop", json!({})).await;

    // What the agent starts to run commands is none of the user's programs.
    let own =
        |(_, data): &&(String, Value)| data["name"].as_str().is_some_and(|name| name.starts_with("hotdesk"));
    let own: Vec<_> = ear.heard.iter().filter(own).collect();
    assert!(own.is_empty(), "{own:?}");
}
