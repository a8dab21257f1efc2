//! Event server whose events are published by the test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::domain::desktop::event::{EventKind, EventKinds};
use hotdesk::http::error_response::HttpError;
use hotdesk::http::feed::{self, Feed};
use hotdesk::http::serve::{BoundListener, Listen, bind, serve};
use hotdesk::http::socket::{CloseReason, Sockets, Upgrade};
use hotdesk::wire::desktop::event::{AgentState, AppHealth, Event, EventData, FileAction};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;

use crate::harness::socket::{Client, SocketEvent};

/// Longest time for an expected change on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Serves `/ws/events` from a feed.
#[derive(Clone)]
pub struct EventSource {
    pub feed: Feed,
    pub tasks: Tasks,
    sockets: Sockets,
    /// Number of sockets so far, and of open sockets.
    counts: Arc<Mutex<SocketCounts>>,
}

#[derive(Default)]
struct SocketCounts {
    opened: usize,
    open: usize,
    end: CancellationToken,
}

impl EventSource {
    pub fn new() -> Self {
        let tasks = Tasks::new();
        let (feed, sockets) = (Feed::new(), Sockets::new(tasks.clone()));
        Self { feed, tasks, sockets, counts: Arc::default() }
    }

    pub fn router(&self) -> Router {
        let open = async |State(source): State<Self>, upgrade: Upgrade| {
            let sockets = source.sockets.clone();
            sockets
                .open(upgrade, "events", move |sender, receiver| async move {
                    let end = source.count_socket(1);
                    let stopping = source.sockets.stopping();
                    let stop = async {
                        tokio::select! {
                            () = end.cancelled() => {}
                            () = stopping.cancelled() => {}
                        }
                        CloseReason::new(1001, "server shutting down")
                    };
                    let closing = feed::serve_client(&source.feed, sender, receiver, stop).await;
                    source.count_socket(-1);
                    closing
                })
                .map_err(HttpError)
        };
        Router::new().route("/ws/events", any(open)).with_state(self.clone())
    }

    fn count_socket(&self, change: isize) -> CancellationToken {
        let mut counts = self.counts.lock().expect("a count");
        counts.opened += usize::from(change > 0);
        counts.open = counts.open.checked_add_signed(change).expect("as many opened as closed");
        counts.end.clone()
    }

    /// Closes every socket, like a restart of the agent.
    pub fn end_all(&self) {
        std::mem::take(&mut self.counts.lock().expect("a count").end).cancel();
    }

    pub fn opened_count(&self) -> usize {
        self.counts.lock().expect("a count").opened
    }

    pub fn open_count(&self) -> usize {
        self.counts.lock().expect("a count").open
    }

    /// Serves on a free port; returns `ADDR:PORT`.
    pub async fn serve(&self) -> String {
        let bound = bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.expect("a free port");
        let BoundListener::Tcp(listener) = &bound else { panic!("expected a TCP listener") };
        let address = listener.local_addr().expect("an address").to_string();
        let (router, group) = (self.router(), self.tasks.clone());
        let _serving = self.tasks.spawn("serve", async move { serve(bound, router, &group).await });
        address
    }

    /// Waits until exactly these types are subscribed to.
    pub async fn wait_for_subscriptions(&self, kinds: impl IntoIterator<Item = EventKind>) {
        let kinds: EventKinds = kinds.into_iter().collect();
        let mut wanted = self.feed.wanted();
        let subscribed = tokio::time::timeout(TIMEOUT, wanted.wait_for(|now| *now == kinds));
        subscribed.await.expect("the subscriptions change in time").expect("a feed");
    }

    pub fn publish_process_start(&self, pid: u32) {
        self.feed.publish(Event::now(EventData::ProcessStart { pid, name: "p".into() }));
    }
}

impl Drop for SocketCounts {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// One event of each type, in the order of the catalogue.
pub fn sample_events() -> Vec<EventData> {
    vec![
        EventData::window_focus("0x1", "a title", "default"),
        EventData::window_open("0x1", "a title", "default"),
        EventData::window_close("0x1", "default"),
        EventData::clipboard("content", "default"),
        EventData::FileChange {
            path: "/home/user/Desktop/a.txt".into(),
            action: FileAction::Created,
            real_path: None,
        },
        EventData::ScreenChange { width: 1024, height: 768, screen: "default".into() },
        EventData::AudioStreamStart {},
        EventData::AudioStreamStop {},
        EventData::ProcessStart { pid: 7, name: "sleep".into() },
        EventData::ProcessStop { pid: 7, name: "sleep".into() },
        EventData::Idle { idle_seconds: 30 },
        EventData::Active {},
        EventData::title_change("0x1", "another title", "default"),
        EventData::DownloadFinished { path: "/root/Downloads/a.zip".into(), size_bytes: 1 },
        EventData::AgentChange { state: AgentState::Unresponsive, since: "2026-01-31T09:30:00.120Z".into() },
        EventData::HealthChange {
            app: "web".into(),
            status: AppHealth::Healthy,
            action: "alert".into(),
            reason: None,
        },
        EventData::Notification { trigger: "t".into(), title: "a title".into(), level: "warn".into() },
        EventData::ControlChanged { screen: "default".into(), holder: None, note: Some("done".into()) },
        EventData::HelpRequested { screen: "default".into(), message: "a code".into(), by: None },
    ]
}

/// JSON messages over a socket.
pub trait JsonMessages {
    /// Sends a message and returns the next one.
    async fn request_json(&mut self, message: Value) -> Value;
    /// The next message.
    async fn next_json(&mut self) -> Value;
}

impl JsonMessages for Client {
    async fn request_json(&mut self, message: Value) -> Value {
        use futures_util::SinkExt;
        self.0.send(Message::text(message.to_string())).await.expect("sent");
        self.next_json().await
    }

    async fn next_json(&mut self) -> Value {
        let received = self.next().await;
        let SocketEvent::Text(text) = received else { panic!("{received:?}") };
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Subscribes or unsubscribes, and asserts success.
pub async fn subscribe(client: &mut Client, verb: &str, names: &[&str]) {
    let answer = client.request_json(json!({"type": verb, "event_types": names})).await;
    assert_eq!(answer, json!({"type": format!("{verb}d"), "message": "ok"}));
}

/// Closes the socket with code 1000 and expects the same code.
pub async fn close_normally(mut client: Client) {
    let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    client.0.close(Some(frame)).await.expect("closed");
    assert_eq!(client.closed().await, 1000);
}

/// Waits for a condition that sends no signal.
pub async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let found = wait::until(TIMEOUT, || std::future::ready(condition().then_some(())));
    found.await.unwrap_or_else(|| panic!("{what}"));
}
