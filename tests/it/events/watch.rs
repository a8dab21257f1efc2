//! Fixture for the agent's event watchers, with a listener of their feed.

use std::path::Path;
use std::time::Duration;

use hotdesk::agent::display::Displays;
use hotdesk::agent::events::{self, Sources};
use hotdesk::base::tasks::Tasks;
use hotdesk::domain::desktop::event::{EventKind, EventKinds};
use hotdesk::http::feed::{Feed, Listener};
use serde_json::{Value, json};

use crate::display::fixture::TIMEOUT;

/// Time without an event that counts as silence: many times the delay of any event.
const SILENCE: Duration = Duration::from_millis(700);

/// Running watchers and a listener.
pub struct WatchListener {
    pub feed: Feed,
    tasks: Tasks,
    listener: Listener,
}

impl WatchListener {
    /// Watches the screens and the files below `home`, and subscribes to these types.
    pub async fn start(displays: Option<&Displays>, home: &Path, kinds: &[EventKind]) -> Self {
        let (feed, tasks) = (Feed::new(), Tasks::new());
        let (home, session_dir) = (home.to_owned(), home.join("session"));
        events::watch(Sources { feed: feed.clone(), displays: displays.cloned(), home, session_dir }, &tasks);
        let listener = Self { listener: feed.listen(), feed, tasks };
        listener.add_types(kinds).await;
        listener
    }

    /// Subscribes to more types.
    pub async fn add_types(&self, kinds: &[EventKind]) {
        let kinds: EventKinds = kinds.iter().copied().collect();
        self.listener.add(kinds);
        self.feed.wait_watched(kinds, TIMEOUT).await;
    }

    /// The next message.
    pub async fn message(&self) -> Value {
        let next = tokio::time::timeout(TIMEOUT, self.listener.next()).await.expect("an event in time");
        serde_json::from_str(&next.message()).expect("JSON")
    }

    /// Type and data of the next event, with a check of its timestamp.
    pub async fn next(&self) -> (String, Value) {
        let mut message = self.message().await;
        assert_eq!(message["type"], "event");
        let event = message["event"].take();
        let timestamp = event["timestamp"].as_str().expect("a time");
        assert!(timestamp.len() == 24 && timestamp.ends_with('Z'), "{timestamp}");
        (event["type"].as_str().expect("a type").to_owned(), event["data"].clone())
    }

    /// Asserts the next event.
    pub async fn expect(&self, kind: &str, data: Value) {
        assert_eq!(self.next().await, (kind.to_owned(), data));
    }

    /// The next event that matches.
    pub async fn find(&self, expected: impl Fn(&str, &Value) -> bool) -> (String, Value) {
        loop {
            let (kind, data) = self.next().await;
            if expected(&kind, &data) {
                return (kind, data);
            }
        }
    }

    /// Asserts that no further matching event arrives.
    pub async fn expect_none_of(&self, expected: impl Fn(&str, &Value) -> bool) {
        let event = tokio::time::timeout(SILENCE, self.find(expected)).await;
        assert!(event.is_err(), "{event:?}");
    }

    /// Asserts that no further event arrives.
    pub async fn expect_none(&self) {
        self.expect_none_of(|_, _| true).await;
    }

    /// Stops the watchers and asserts that none of their tasks is left.
    pub async fn end(self) {
        let late = self.tasks.drain(TIMEOUT).await;
        assert!(late.is_empty(), "late: {late:?}");
    }
}

/// Watchers without subscriptions do not run; they start again with the next subscription.
#[tokio::test]
async fn watchers_run_only_while_somebody_wants_their_types() {
    let home = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(home.path().join("Desktop")).expect("a folder");
    let listener = WatchListener::start(None, home.path(), &[EventKind::FileChange]).await;
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("the threads").flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "file events").count()
    };
    assert!(threads() >= 1);
    let path = |name: &str| home.path().join("Desktop").join(name);
    let message = |action: &str, name: &str| {
        json!({"path": format!("/home/user/Desktop/{name}"), "action": action,
            "real_path": path(name).canonicalize().unwrap_or(path(name))})
    };
    std::fs::File::create(path("one")).expect("a file");
    listener.expect("file_change", message("created", "one")).await;
    listener.listener.remove(EventKind::FileChange.into());
    let gone = hotdesk::base::wait::until(TIMEOUT, || async { (threads() == 0).then_some(()) });
    gone.await.expect("the watcher must end");
    std::fs::File::create(path("two")).expect("a file");
    listener.add_types(&[EventKind::FileChange]).await;
    std::fs::File::create(path("three")).expect("a file");
    listener.expect("file_change", message("created", "three")).await;
    listener.expect_none().await;
    listener.end().await;
}
