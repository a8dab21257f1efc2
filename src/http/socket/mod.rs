//! WebSocket server: bounded messages, a heartbeat, write timeouts, and a closing handshake; tunnels over sockets.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::error_response::{self, HttpError};
use crate::serve::{ConnectionPermit, MAX_CONNECTIONS};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::channel::POLICY_VIOLATION;
use hotdesk_domain::error::{Error, Result};

mod close_reason;
pub mod last_activity;
mod splice;
pub mod tunnel;

pub use close_reason::CloseReason;

/// Most open sockets; more get 503. A quarter of all connections remains for requests.
const MAX_SOCKETS: usize = MAX_CONNECTIONS / 4 * 3;
/// Read buffer in bytes. With the library's default of 128 KiB, a thousand idle sockets would cost 128 MB.
pub const READ_AHEAD: usize = 4096;
/// Write buffer in bytes. Every message is flushed, so a larger buffer has no use.
const WRITE_AHEAD: usize = 4096;
/// Largest message from a client in bytes: a clipboard of 1 MiB in RFB, or a paste into a terminal with JSON
/// escapes.
pub const MAX_MESSAGE: usize = 2 * 1024 * 1024;
/// Interval of pings to the peer (T12, docs/security.md).
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Most pings of a peer in one [`HEARTBEAT`]. Their answers wait in memory until the peer reads them, and
/// clients send a few.
pub const MAX_PINGS: u32 = 256;
/// A peer that sends nothing for two heartbeats and a margin counts as gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);
/// Longest write (T12, docs/security.md).
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the peer to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The sub-protocol that VNC clients request (docs/channels.md).
const SUBPROTOCOL: &str = "binary";

/// The version of the protocol (RFC 6455 section 4.4).
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// The sockets of this process: their limit, the origins of pages that may open them, and the group of tasks
/// that ends them.
#[derive(Clone, Debug)]
pub struct Sockets {
    tasks: Tasks,
    permits: Arc<Semaphore>,
    origins: Arc<[String]>,
}

/// Error of a write: the peer has disconnected or does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerGone;

/// A message from the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// A text message.
    Text(Utf8Bytes),
    /// A binary message.
    Binary(Bytes),
}

/// Extractor of a WebSocket upgrade.
#[derive(Debug)]
pub struct Upgrade {
    upgrade: WebSocketUpgrade,
    /// The `Origin` of a web page of another host.
    foreign: Option<String>,
    /// `None` in tests that call a router without a connection.
    connection: Option<ConnectionPermit>,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let foreign = foreign_origin(&parts.headers);
        let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await.map_err(refusal)?;
        Ok(Self { upgrade, foreign, connection: parts.extensions.get::<ConnectionPermit>().cloned() })
    }
}

/// The response to a request that is no upgrade: 426 for another version of the protocol (RFC 6455 section
/// 4.2.2), else 400.
fn refusal(refused: WebSocketUpgradeRejection) -> Response {
    if !matches!(refused, WebSocketUpgradeRejection::InvalidWebSocketVersionHeader(_)) {
        let error = Error::invalid("this path speaks WebSocket: an upgrade is needed").context(refused);
        return HttpError(error).into_response();
    }
    let error = Error::invalid("this path speaks version 13 of WebSocket alone");
    let mut response = error_response::with_status(StatusCode::UPGRADE_REQUIRED, error);
    for (name, value) in [
        (header::SEC_WEBSOCKET_VERSION, VERSION),
        // A 426 names the protocol (RFC 9110 section 15.5.22).
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
    ] {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The `Origin` of a request, unless it has the host of the request (RFC 6455 section 10.2). `None` for a
/// program that is no browser.
fn foreign_origin(headers: &HeaderMap) -> Option<String> {
    let origin = String::from_utf8_lossy(headers.get(header::ORIGIN)?.as_bytes()).into_owned();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let own =
        origin.split_once("://").is_some_and(|(_, page)| !page.is_empty() && page.eq_ignore_ascii_case(host));
    (!own).then_some(origin)
}

impl Sockets {
    /// Sockets as tasks of a group; they end when it stops. Only pages of this host may open them.
    pub fn new(tasks: Tasks) -> Self {
        Self { tasks, permits: Arc::new(Semaphore::new(MAX_SOCKETS)), origins: Arc::default() }
    }

    /// Also admits pages of these origins.
    #[must_use]
    pub fn with_origins(self, origins: &[String]) -> Self {
        Self { origins: origins.into(), ..self }
    }

    /// How to close the socket of a web page whose origin may not open it (T2, docs/security.md).
    /// [`Self::open`] does so; a caller asks before it uses up a credential of the request.
    pub fn refused_page(&self, upgrade: &Upgrade) -> Option<CloseReason> {
        let page = upgrade.foreign.as_ref().filter(|page| !self.origins.contains(page))?;
        Some(CloseReason::new(POLICY_VIOLATION, format!("pages of {page} may not open this socket")))
    }

    /// The token that is cancelled when sockets must end.
    pub fn stopping(&self) -> CancellationToken {
        self.tasks.stopping()
    }

    /// Takes a permit of [`MAX_SOCKETS`].
    fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        permit.map_err(|_| Error::unavailable("Too many open sockets").retry_after(5))
    }

    /// Accepts an upgrade. `serve` runs in a task of its own and returns how to close the socket. It does not
    /// run for a [refused page](Self::refused_page): browsers tell their pages the code of a close, but not
    /// the status of a refused upgrade.
    ///
    /// # Errors
    /// `Unavailable` when [`MAX_SOCKETS`] are open.
    pub fn open<F, Fut>(&self, upgrade: Upgrade, name: &'static str, serve: F) -> Result<Response>
    where
        F: FnOnce(Sender, Receiver) -> Fut + Send + 'static,
        Fut: Future<Output = CloseReason> + Send + 'static,
    {
        let permit = self.permit()?;
        let tasks = self.tasks.clone();
        let refused = self.refused_page(&upgrade);
        let connection = upgrade.connection;
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
                let closing = match refused {
                    Some(refused) => refused,
                    None => serve(sender.clone(), receiver).await,
                };
                sender.close(&closing).await;
                drop((permit, connection));
            });
            // The task has logged a panic.
            let _ended = served.await;
        }))
    }
}

fn split(socket: WebSocket) -> (Sender, Receiver) {
    let (sink, stream) = socket.split();
    let sink = Arc::new(Mutex::new(sink));
    let stream = Arc::new(Mutex::new(stream));
    let sender = Sender { sink, stream: Arc::clone(&stream), violation: Arc::default() };
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let receiver =
        Receiver { sender: sender.clone(), stream, heartbeat, last_received: Instant::now(), pings: 0 };
    (sender, receiver)
}

type Stream = Arc<Mutex<SplitStream<WebSocket>>>;

/// The write half; clones write whole messages to the same socket.
#[derive(Clone, Debug)]
pub struct Sender {
    sink: Arc<Mutex<SplitSink<WebSocket, Message>>>,
    stream: Stream,
    /// The close for a protocol violation of the peer; it takes precedence over any other.
    violation: Arc<OnceLock<CloseReason>>,
}

impl Sender {
    /// Sends a text message.
    ///
    /// # Errors
    /// [`PeerGone`] when the peer has disconnected or does not read the message within ten seconds.
    pub async fn text(&self, text: impl Into<Utf8Bytes>) -> Result<(), PeerGone> {
        self.send(Message::Text(text.into())).await
    }

    /// Sends a value as a JSON text message.
    ///
    /// # Errors
    /// [`PeerGone`] as for [`Sender::text`], and when the value cannot be serialized, which is logged.
    pub async fn json(&self, value: &impl Serialize) -> Result<(), PeerGone> {
        let text = serde_json::to_string(value).map_err(|error| {
            tracing::error!(%error, "could not serialize a message");
            PeerGone
        })?;
        self.text(text).await
    }

    /// Sends a binary message.
    ///
    /// # Errors
    /// [`PeerGone`] as for [`Sender::text`].
    pub async fn binary(&self, bytes: Bytes) -> Result<(), PeerGone> {
        self.send(Message::Binary(bytes)).await
    }

    async fn send(&self, message: Message) -> Result<(), PeerGone> {
        let sent = tokio::time::timeout(WRITE_TIMEOUT, async { self.sink.lock().await.send(message).await });
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(PeerGone),
        }
    }

    /// Sends the close and waits briefly for the peer's, so that the peer reads the code before the
    /// connection ends.
    async fn close(&self, closing: &CloseReason) {
        let violation = self.violation.get();
        let closing = violation.unwrap_or(closing);
        if self.send(Message::Close(Some(closing.frame()))).await.is_err() {
            // The peer closed first; the library's reply only needs a flush.
            let answer = async { self.sink.lock().await.flush().await };
            let _gone = tokio::time::timeout(CLOSE_TIMEOUT, answer).await;
            return;
        }
        let answered = async {
            let mut stream = self.stream.lock().await;
            while let Some(Ok(_)) = stream.next().await {}
            if violation.is_some() {
                // Nothing more can be read. Closing over unread bytes would reset the connection and lose the
                // close.
                std::future::pending::<()>().await;
            }
        };
        // The connection ends even if the peer does not answer.
        let _late = tokio::time::timeout(CLOSE_TIMEOUT, answered).await;
    }
}

/// The read half. It also sends the heartbeat, so it must be polled all the time.
#[derive(Debug)]
pub struct Receiver {
    sender: Sender,
    stream: Stream,
    heartbeat: tokio::time::Interval,
    last_received: Instant,
    /// Pings since the last heartbeat.
    pings: u32,
}

impl Receiver {
    /// The next message; `None` once the peer has closed, disconnected or sent nothing for 75 seconds.
    /// Cancel-safe.
    pub async fn receive(&mut self) -> Option<PeerMessage> {
        loop {
            let deadline = self.last_received + SILENCE_TIMEOUT;
            let next = async { self.stream.lock().await.next().await };
            tokio::select! {
                message = next => {
                    self.last_received = Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => return Some(PeerMessage::Text(text)),
                        Some(Ok(Message::Binary(bytes))) => return Some(PeerMessage::Binary(bytes)),
                        // The library answers pings by itself.
                        Some(Ok(Message::Ping(_))) if self.pings < MAX_PINGS => self.pings += 1,
                        Some(Ok(Message::Ping(_))) => {
                            let reason = format!("more than {MAX_PINGS} pings in {} seconds", HEARTBEAT.as_secs());
                            let _first = self.sender.violation.set(CloseReason::new(POLICY_VIOLATION, reason));
                            return None;
                        }
                        Some(Ok(Message::Pong(_))) => {}
                        Some(Ok(Message::Close(_))) | None => return None,
                        Some(Err(error)) => {
                            if let Some(closing) = CloseReason::of_violation(error) {
                                // Only the first counts: nothing is read after it.
                                let _first = self.sender.violation.set(closing);
                            }
                            return None;
                        }
                    }
                }
                _ = self.heartbeat.tick() => {
                    self.pings = 0;
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
    fn pages_of_another_host_are_foreign() {
        for (origin, host, foreign) in [
            (None, "desk.example", false),
            (Some("https://desk.example"), "desk.example", false),
            (Some("http://Desk.example:8080"), "desk.example:8080", false),
            (Some("http://desk.example"), "desk.example:8080", true),
            (Some("https://evil.example"), "desk.example", true),
            (Some("null"), "desk.example", true),
            (Some("http://"), "", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            let found = foreign_origin(&headers);
            assert_eq!(found.as_deref(), origin.filter(|_| foreign), "{origin:?} {host}");
        }
    }
}
