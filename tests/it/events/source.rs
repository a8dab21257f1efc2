//! A server of events whose causes are the test's: a feed that it holds, behind the door that agents have.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::domain::event::{Kind, Kinds};
use hotdesk::http::feed::{self, Feed};
use hotdesk::http::serve::{Bound, Listen, bind, serve};
use hotdesk::http::socket::{Closing, Sockets, Upgrade};
use hotdesk::wire::event::{Data, Event, FileAction};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;

use crate::harness::socket::{Came, Client};

/// How long what must happen may take on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Serves `/ws/events` from a feed.
#[derive(Clone)]
pub struct Source {
    pub feed: Feed,
    pub tasks: Tasks,
    sockets: Sockets,
    /// How many sockets have been opened, and whether they are now.
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    opened: usize,
    open: usize,
    end: CancellationToken,
}

impl Source {
    pub fn new() -> Self {
        let tasks = Tasks::new();
        let (feed, sockets) = (Feed::new(), Sockets::new(tasks.clone()));
        Self { feed, tasks, sockets, seen: Arc::default() }
    }

    pub fn router(&self) -> Router {
        let open = async |State(source): State<Self>, upgrade: Upgrade| {
            let sockets = source.sockets.clone();
            sockets.open(upgrade, "events", move |sender, receiver| async move {
                let end = source.counted(1);
                let stopping = source.sockets.stopping();
                let stop = async {
                    tokio::select! {
                        () = end.cancelled() => {}
                        () = stopping.cancelled() => {}
                    }
                    Closing::new(1001, "server shutting down")
                };
                let closing = feed::converse(&source.feed, sender, receiver, stop).await;
                source.counted(-1);
                closing
            })
        };
        Router::new().route("/ws/events", any(open)).with_state(self.clone())
    }

    fn counted(&self, change: isize) -> CancellationToken {
        let mut seen = self.seen.lock().expect("a count");
        seen.opened += usize::from(change > 0);
        seen.open = seen.open.checked_add_signed(change).expect("as many opened as closed");
        seen.end.clone()
    }

    /// Ends every socket, as an agent does that is restarted.
    pub fn end_all(&self) {
        std::mem::take(&mut self.seen.lock().expect("a count").end).cancel();
    }

    pub fn opened(&self) -> usize {
        self.seen.lock().expect("a count").opened
    }

    pub fn open_now(&self) -> usize {
        self.seen.lock().expect("a count").open
    }

    /// A server on a free port; its `ADDR:PORT`.
    pub async fn serve(&self) -> String {
        let bound = bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.expect("a free port");
        let Bound::Tcp(listener) = &bound else { panic!("TCP was asked for") };
        let address = listener.local_addr().expect("an address").to_string();
        let (router, group) = (self.router(), self.tasks.clone());
        let _serving = self.tasks.spawn("serve", async move { serve(bound, router, &group).await });
        address
    }

    /// Waits until exactly these types are wanted.
    pub async fn until_wanted(&self, kinds: impl IntoIterator<Item = Kind>) {
        let kinds: Kinds = kinds.into_iter().collect();
        let mut wanted = self.feed.wanted();
        let waited = tokio::time::timeout(TIMEOUT, wanted.wait_for(|now| *now == kinds));
        waited.await.expect("wanted in time").expect("a feed");
    }

    pub fn started(&self, pid: u32) {
        self.feed.publish(Event::now(Data::ProcessStart { pid, name: "p".into() }));
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// One event of each type, in the catalogue's order.
pub fn one_of_each() -> Vec<Data> {
    vec![
        Data::window_focus("0x1", "a title", "default"),
        Data::window_open("0x1", "a title", "default"),
        Data::window_close("0x1", "default"),
        Data::clipboard("content", "default"),
        Data::FileChange {
            path: "/home/user/Desktop/a.txt".into(),
            action: FileAction::Created,
            real_path: None,
        },
        Data::ScreenChange { width: 1024, height: 768, screen: "default".into() },
        Data::AudioStreamStart {},
        Data::AudioStreamStop {},
        Data::ProcessStart { pid: 7, name: "sleep".into() },
        Data::ProcessStop { pid: 7, name: "sleep".into() },
        Data::Idle { idle_seconds: 30 },
        Data::Active {},
        Data::title_change("0x1", "another title", "default"),
        Data::DownloadFinished { path: "/root/Downloads/a.zip".into(), size_bytes: 1 },
    ]
}

/// What events are spoken with.
pub trait Talk {
    /// Says something and takes the next message for its answer.
    async fn ask(&mut self, message: Value) -> Value;
    /// The next message.
    async fn told(&mut self) -> Value;
}

impl Talk for Client {
    async fn ask(&mut self, message: Value) -> Value {
        use futures_util::SinkExt;
        self.0.send(Message::text(message.to_string())).await.expect("sent");
        self.told().await
    }

    async fn told(&mut self) -> Value {
        let came = self.next().await;
        let Came::Text(text) = came else { panic!("{came:?}") };
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Subscribes, or unsubscribes, and hears that it worked.
pub async fn subscribe(client: &mut Client, verb: &str, names: &[&str]) {
    let answer = client.ask(json!({"type": verb, "event_types": names})).await;
    assert_eq!(answer, json!({"type": format!("{verb}d"), "message": "ok"}));
}

/// Leaves as clients do, and hears the same code back.
pub async fn leave(mut client: Client) {
    let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    client.0.close(Some(frame)).await.expect("closed");
    assert_eq!(client.closed().await, 1000);
}

/// Waits for something that has no signal of its own.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let found = wait::until(TIMEOUT, || std::future::ready(so().then_some(())));
    found.await.unwrap_or_else(|| panic!("{what}"));
}
