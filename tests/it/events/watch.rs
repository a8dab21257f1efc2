//! What the watchers of an agent tell, heard as a client of its feed hears it.

use std::path::Path;
use std::time::Duration;

use hotdesk::agent::display::Displays;
use hotdesk::agent::events::{self, Sources};
use hotdesk::base::tasks::Tasks;
use hotdesk::domain::event::{Kind, Kinds};
use hotdesk::http::feed::{Feed, Listener};
use serde_json::{Value, json};

use crate::display::desk::TIMEOUT;

/// How long nothing may come for it to count as nothing: many times what any event takes.
const QUIET: Duration = Duration::from_millis(700);

/// Watchers, and who hears them.
pub struct Hearing {
    pub feed: Feed,
    tasks: Tasks,
    listener: Listener,
}

impl Hearing {
    /// Watches the screens, and what is below `home`; hears of these types.
    pub async fn begin(displays: Option<&Displays>, home: &Path, kinds: &[Kind]) -> Self {
        let (feed, tasks) = (Feed::new(), Tasks::new());
        let (home, session_dir) = (home.to_owned(), home.join("session"));
        events::watch(Sources { feed: feed.clone(), displays: displays.cloned(), home, session_dir }, &tasks);
        let hearing = Self { listener: feed.listen(), feed, tasks };
        hearing.want(kinds).await;
        hearing
    }

    /// Hears of more types.
    pub async fn want(&self, kinds: &[Kind]) {
        let kinds: Kinds = kinds.iter().copied().collect();
        self.listener.add(kinds);
        self.feed.watched(kinds, TIMEOUT).await;
    }

    /// The next message.
    pub async fn message(&self) -> Value {
        let news = tokio::time::timeout(TIMEOUT, self.listener.next()).await.expect("an event in time");
        serde_json::from_str(&news.message()).expect("JSON")
    }

    /// The next event: its type and data, after a look at its time.
    pub async fn next(&self) -> (String, Value) {
        let mut message = self.message().await;
        assert_eq!(message["type"], "event");
        let event = message["event"].take();
        let timestamp = event["timestamp"].as_str().expect("a time");
        assert!(timestamp.len() == 24 && timestamp.ends_with('Z'), "{timestamp}");
        (event["type"].as_str().expect("a type").to_owned(), event["data"].clone())
    }

    /// The next event is this one.
    pub async fn expect(&self, kind: &str, data: Value) {
        assert_eq!(self.next().await, (kind.to_owned(), data));
    }

    /// The next event that a test cares for.
    pub async fn find(&self, wanted: impl Fn(&str, &Value) -> bool) -> (String, Value) {
        loop {
            let (kind, data) = self.next().await;
            if wanted(&kind, &data) {
                return (kind, data);
            }
        }
    }

    /// Nothing more comes that a test cares for.
    pub async fn quiet_of(&self, wanted: impl Fn(&str, &Value) -> bool) {
        let heard = tokio::time::timeout(QUIET, self.find(wanted)).await;
        assert!(heard.is_err(), "{heard:?}");
    }

    /// Nothing more comes.
    pub async fn quiet(&self) {
        self.quiet_of(|_, _| true).await;
    }

    /// Ends the watchers; nothing of them may be left.
    pub async fn end(self) {
        let late = self.tasks.drain(TIMEOUT).await;
        assert!(late.is_empty(), "late: {late:?}");
    }
}

/// Watchers of nothing that is wanted look at nothing, and start again when somebody asks anew.
#[tokio::test]
async fn watchers_run_only_while_somebody_wants_their_types() {
    let home = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(home.path().join("Desktop")).expect("a folder");
    let hearing = Hearing::begin(None, home.path(), &[Kind::FileChange]).await;
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("the threads").flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "file events").count()
    };
    assert!(threads() >= 1);
    let path = |name: &str| home.path().join("Desktop").join(name);
    let told = |action: &str, name: &str| {
        json!({"path": format!("/home/user/Desktop/{name}"), "action": action,
            "real_path": path(name).canonicalize().unwrap_or(path(name))})
    };
    std::fs::File::create(path("one")).expect("a file");
    hearing.expect("file_change", told("created", "one")).await;
    hearing.listener.remove(Kind::FileChange.into());
    let gone = hotdesk::base::wait::until(TIMEOUT, || async { (threads() == 0).then_some(()) });
    gone.await.expect("the watcher ends");
    std::fs::File::create(path("two")).expect("a file");
    hearing.want(&[Kind::FileChange]).await;
    std::fs::File::create(path("three")).expect("a file");
    hearing.expect("file_change", told("created", "three")).await;
    hearing.quiet().await;
    hearing.end().await;
}
