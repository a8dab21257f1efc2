//! How is a WebSocket served? Bounded frames, a heartbeat, writes that end, and a close that the peer hears.

use std::borrow::Cow;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::serve::{Counted, MAX_CONNECTIONS};
use super::violation::violation;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};

use crate::error_response::HttpError;

/// Sockets at once: past it an upgrade answers 503. A quarter of all connections is left to requests.
const MAX_SOCKETS: usize = MAX_CONNECTIONS / 4 * 3;
/// Bytes that are read ahead. The library's own 128 KiB would make a thousand idle sockets cost 128 MB.
pub const READ_AHEAD: usize = 4096;
/// Bytes gathered before a write; every message is flushed, so more would only be kept in vain.
const WRITE_AHEAD: usize = 4096;
/// Largest message from a client: a clipboard of 1 MiB in RFB, or a paste into a terminal, with its JSON escapes.
pub const MAX_MESSAGE: usize = 2 * 1024 * 1024;
/// How often the peer is asked for a sign of life (threats.md T12).
const HEARTBEAT: Duration = Duration::from_secs(30);
/// A peer that was silent for two heartbeats and a margin is gone.
const SILENCE: Duration = Duration::from_secs(75);
/// How long one write may take (threats.md T12).
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the peer may take to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The one sub-protocol that VNC clients ask for (wire.md 10.3).
const SUBPROTOCOL: &str = "binary";

/// The sockets of this process: how many may be open, and who tells them to end.
#[derive(Clone, Debug)]
pub struct Sockets {
    tasks: Tasks,
    room: Arc<Semaphore>,
}

/// Why a socket is closed from here (RFC 6455 section 7.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The close code.
    pub code: u16,
    /// A few words for people, at most 123 bytes.
    pub reason: Cow<'static, str>,
}

/// Longest reason that fits a close frame (RFC 6455 section 5.5).
const MAX_REASON: usize = 123;

impl Closing {
    /// A close with its reason.
    pub fn new(code: u16, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into() }
    }

    fn frame(&self) -> CloseFrame {
        let mut end = self.reason.len().min(MAX_REASON);
        while !self.reason.is_char_boundary(end) {
            end -= 1;
        }
        CloseFrame { code: self.code, reason: self.reason[..end].into() }
    }
}

/// The peer cannot be written to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// What a peer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A text message.
    Text(Utf8Bytes),
    /// A binary message.
    Binary(Bytes),
}

/// A request to become a WebSocket. A web page may ask only from the origin that it asks (threats.md T2).
#[derive(Debug)]
pub struct Upgrade {
    upgrade: WebSocketUpgrade,
    /// None where a router is served without connections, in a test.
    place: Option<Counted>,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        if !same_origin(&parts.headers) {
            return Err(Error::forbidden("a page of another origin may not open this socket").into());
        }
        let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
        let upgrade = upgrade.map_err(|refused| {
            Error::invalid("this path speaks WebSocket: an upgrade is needed").context(refused)
        })?;
        Ok(Self { upgrade, place: parts.extensions.get::<Counted>().cloned() })
    }
}

/// Whether a request comes from a page of the host that it asks, or from no page at all (RFC 6455 section 10.2).
fn same_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let page = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    page.is_some_and(|(_, page)| !page.is_empty() && page.eq_ignore_ascii_case(host))
}

impl Sockets {
    /// Room for the sockets of a group of tasks; they end when it is told to.
    pub fn new(tasks: Tasks) -> Self {
        Self { tasks, room: Arc::new(Semaphore::new(MAX_SOCKETS)) }
    }

    /// The token that tells sockets to end.
    pub fn stopping(&self) -> CancellationToken {
        self.tasks.stopping()
    }

    /// Accepts an upgrade. `serve` has the socket in a task of its own; what it returns is how the socket is closed.
    ///
    /// # Errors
    /// `Unavailable` when as many are open as may be.
    pub fn open<F, Fut>(&self, upgrade: Upgrade, name: &'static str, serve: F) -> Result<Response>
    where
        F: FnOnce(Sender, Receiver) -> Fut + Send + 'static,
        Fut: Future<Output = Closing> + Send + 'static,
    {
        let Ok(seat) = Arc::clone(&self.room).try_acquire_owned() else {
            return Err(Error::unavailable("Too many open sockets").retry_after(5));
        };
        let tasks = self.tasks.clone();
        let place = upgrade.place;
        let configured = upgrade
            .upgrade
            .read_buffer_size(READ_AHEAD)
            .write_buffer_size(WRITE_AHEAD)
            .max_message_size(MAX_MESSAGE)
            .max_frame_size(MAX_MESSAGE)
            .protocols([SUBPROTOCOL]);
        Ok(configured.on_upgrade(move |socket| async move {
            let served = tasks.spawn(name, async move {
                let (sender, receiver) = split(socket);
                let closing = serve(sender.clone(), receiver).await;
                sender.close(&closing).await;
                drop((seat, place));
            });
            // A panic was told by the task itself.
            let _ended = served.await;
        }))
    }
}

fn split(socket: WebSocket) -> (Sender, Receiver) {
    let (sink, stream) = socket.split();
    let sink = Arc::new(Mutex::new(sink));
    let stream = Arc::new(Mutex::new(stream));
    let sender = Sender { sink, stream: Arc::clone(&stream), broken: Arc::default() };
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let receiver = Receiver { sender: sender.clone(), stream, heartbeat, heard: Instant::now() };
    (sender, receiver)
}

type Stream = Arc<Mutex<SplitStream<WebSocket>>>;

/// The half that writes; clones write to the same socket, a message at a time.
#[derive(Clone, Debug)]
pub struct Sender {
    sink: Arc<Mutex<SplitSink<WebSocket, Message>>>,
    stream: Stream,
    /// How the peer broke the rules; it is the reason of the close, whatever else is.
    broken: Arc<OnceLock<Closing>>,
}

impl Sender {
    /// Sends a text message.
    ///
    /// # Errors
    /// [`Gone`] when the peer does not take it within ten seconds.
    pub async fn text(&self, text: impl Into<Utf8Bytes>) -> Result<(), Gone> {
        self.send(Message::Text(text.into())).await
    }

    /// Sends a value as a JSON text message.
    ///
    /// # Errors
    /// As [`Sender::text`]; also when the value has no JSON.
    pub async fn json(&self, value: &impl Serialize) -> Result<(), Gone> {
        let text = serde_json::to_string(value).map_err(|error| {
            tracing::error!(%error, "a message has no JSON");
            Gone
        })?;
        self.text(text).await
    }

    /// Sends a binary message.
    ///
    /// # Errors
    /// As [`Sender::text`].
    pub async fn binary(&self, bytes: Bytes) -> Result<(), Gone> {
        self.send(Message::Binary(bytes)).await
    }

    async fn send(&self, message: Message) -> Result<(), Gone> {
        let sent = tokio::time::timeout(WRITE_TIMEOUT, async { self.sink.lock().await.send(message).await });
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    /// Sends the close and waits a little for the peer's, so that the code is read before the connection ends.
    async fn close(&self, closing: &Closing) {
        let broken = self.broken.get();
        let closing = broken.unwrap_or(closing);
        if self.send(Message::Close(Some(closing.frame()))).await.is_err() {
            // The peer closed first: the library has its answer ready, and it is only to be written.
            let answer = async { self.sink.lock().await.flush().await };
            let _gone = tokio::time::timeout(CLOSE_TIMEOUT, answer).await;
            return;
        }
        let answered = async {
            let mut stream = self.stream.lock().await;
            while let Some(Ok(_)) = stream.next().await {}
            if broken.is_some() {
                // Nothing more can be read, and to end the connection over unread bytes would take the close from the peer.
                std::future::pending::<()>().await;
            }
        };
        // A peer that does not answer is left.
        let _late = tokio::time::timeout(CLOSE_TIMEOUT, answered).await;
    }
}

/// The half that reads. It also keeps the heartbeat, so that somebody must be reading all the time.
#[derive(Debug)]
pub struct Receiver {
    sender: Sender,
    stream: Stream,
    heartbeat: tokio::time::Interval,
    heard: Instant,
}

impl Receiver {
    /// What the peer says next; `None` once it closed, vanished or was silent for too long. Cancel-safe.
    pub async fn receive(&mut self) -> Option<Heard> {
        loop {
            let deadline = self.heard + SILENCE;
            let next = async { self.stream.lock().await.next().await };
            tokio::select! {
                message = next => {
                    self.heard = Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => return Some(Heard::Text(text)),
                        Some(Ok(Message::Binary(bytes))) => return Some(Heard::Binary(bytes)),
                        // The library answers pings by itself.
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                        Some(Ok(Message::Close(_))) | None => return None,
                        Some(Err(error)) => {
                            if let Some(closing) = violation(error) {
                                // Only the first is told: nothing is read after it.
                                let _first = self.sender.broken.set(closing);
                            }
                            return None;
                        }
                    }
                }
                _ = self.heartbeat.tick() => {
                    self.sender.send(Message::Ping(Bytes::new())).await.ok()?;
                }
                () = tokio::time::sleep_until(deadline) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_pages_of_the_same_host_may_ask() {
        for (origin, host, expected) in [
            (None, "desk.example", true),
            (Some("https://desk.example"), "desk.example", true),
            (Some("http://Desk.example:8080"), "desk.example:8080", true),
            (Some("http://desk.example"), "desk.example:8080", false),
            (Some("https://evil.example"), "desk.example", false),
            (Some("null"), "desk.example", false),
            (Some("http://"), "", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(same_origin(&headers), expected, "{origin:?} {host}");
        }
    }

    #[test]
    fn a_reason_fits_its_frame() {
        let long = Closing::new(1000, "é".repeat(100));
        assert_eq!(long.frame().reason.len(), 122);
        assert_eq!(Closing::new(1000, "bye").frame().reason.as_str(), "bye");
    }
}
