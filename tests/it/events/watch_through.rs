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
    /// Listens until this event comes; those before it are kept.
    async fn until(&mut self, kind: &str, data: &Value) {
        loop {
            let mut told = self.client.told().await;
            assert_eq!((&told["type"], &told["dropped"]), (&json!("event"), &Value::Null), "{told}");
            let heard =
                (told["event"]["type"].as_str().expect("a type").to_owned(), told["event"]["data"].take());
            self.heard.push(heard);
            let (last_kind, last) = self.heard.last().expect("one");
            // Fields that a test cannot know are left out of what it expects.
            let fields = data.as_object().expect("an object");
            if last_kind == kind && fields.iter().all(|(name, value)| last[name] == *value) {
                return;
            }
        }
    }

    fn count(&self, kind: &str, field: &str, value: &str) -> usize {
        self.heard.iter().filter(|(heard, data)| heard == kind && data[field] == value).count()
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
    ear.until("file_change", &file("deleted", "Desktop", "a.txt")).await;
    if ear.count("file_change", "path", "/home/user/Downloads/b.txt") == 0 {
        ear.until("file_change", &file("created", "Downloads", "b.txt")).await;
    }
    assert_eq!(ear.count("file_change", "path", "/home/user/Desktop/a.txt"), 2);

    house.bash(&id, "xterm -T 'a title' -e sleep 1000 >/dev/null 2>&1 & sleep 0.1").await;
    let window = json!({"title": "a title", "screen": "default"});
    ear.until("window_open", &window).await;
    ear.until("window_focus", &window).await;
    if ear.count("process_start", "name", "xterm") == 0 {
        ear.until("process_start", &json!({"name": "xterm"})).await;
    }
    house.bash(&id, "pkill xterm").await;
    ear.until("window_close", &json!({"screen": "default"})).await;
    ear.until("process_stop", &json!({"name": "xterm"})).await;

    house.bash(&id, "printf copied | xclip -selection clipboard >/dev/null 2>&1").await;
    ear.until("clipboard", &json!({"content": "copied", "screen": "default"})).await;

    let screen = format!("/computers/{id}/screens/default");
    let resized = house.patch(&screen, json!({"width": 800, "height": 600})).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    ear.until("screen_change", &json!({"width": 800, "height": 600, "screen": "default"})).await;

    house.bash(&id, "timeout 1 pacat --playback --raw /dev/zero || true").await;
    ear.until("audio_stream_start", &json!({})).await;
    ear.until("audio_stream_stop", &json!({})).await;

    // What the agent starts to run commands is none of the user's programs.
    let own =
        |(_, data): &&(String, Value)| data["name"].as_str().is_some_and(|name| name.starts_with("hotdesk"));
    let own: Vec<_> = ear.heard.iter().filter(own).collect();
    assert!(own.is_empty(), "{own:?}");
}
