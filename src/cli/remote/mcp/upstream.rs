//! Messages between a client and the MCP server of hotdesk.
//!
//! ```text
//! initialize -> POST -> session id -> GET: notifications of the session
//! request    -> POST -> JSON, or events until the answer
//!                 \-> 404: the session has ended -> initialize again, then the request again, once
//! ```

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};

use super::lines::MAX_MESSAGE;
use super::message::{ClientMessage, RELAY_ERROR, error_reply};
use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::event_stream::EventStream;
use crate::failure::{Failure, Outcome};
use crate::remote::stdio::{self, OutputStream};
use hotdesk_wire::error::ErrorBody;

/// Longest wait for the head of an answer. Without a session it comes with the result, and the longest call
/// creates a computer (seven minutes).
const CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// Pause before notifications are requested again, for a server that restarts.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Longest wait for the end of a session at the end of this program. The server ends it anyway.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest answer in bytes: a picture of 700,000 bytes in base64, and a record twice.
const MAX_ANSWER: usize = 4 * MAX_MESSAGE;
/// Path of the endpoint below the API's base.
const PATH: [&str; 2] = ["mcp", "stdio"];

/// A session on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LiveSession {
    id: String,
    /// Negotiated protocol version.
    version: String,
}

/// The server, with the session of the client.
pub struct Upstream<'a> {
    api: &'a Api,
    session: watch::Sender<Option<LiveSession>>,
    /// The client's first message, with which a session is opened again. Locked while one is opened.
    opening: Mutex<Option<ClientMessage>>,
}

/// Where the result of an exchange goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// To the client.
    Forwarded,
    /// Nowhere: the client has seen the answer to the first `initialize`.
    Dropped,
}

impl<'a> Upstream<'a> {
    /// Creates the upstream without a session.
    pub fn new(api: &'a Api) -> Self {
        Self { api, session: watch::Sender::new(None), opening: Mutex::new(None) }
    }

    /// Delivers a message, and writes what the server answers. A failure becomes an error for the client.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub async fn deliver(&self, message: &ClientMessage) -> Outcome<()> {
        // Bound first, because a borrow during an exchange would block the change of the session.
        let session = self.session.borrow().clone().filter(|_| !message.is_stateless());
        let delivered = match session {
            _ if message.is_initialize() => self.open(message).await,
            None => self.exchange(message, None, Answers::Forwarded).await.map(|_| ()),
            Some(session) => self.deliver_in(message, session).await,
        };
        match (delivered, &message.id) {
            (Ok(()), _) => Ok(()),
            (Err(RelayFailure::Output(failure)), _) => Err(failure),
            (Err(RelayFailure::Upstream(why)), Some(id)) => {
                write_message(&error_reply(id, RELAY_ERROR, why.text())).await
            }
            (Err(RelayFailure::Upstream(why)), None) => {
                eprintln!("hotdesk: a notification was not delivered: {}", why.text());
                Ok(())
            }
        }
    }

    /// Opens the client's session.
    async fn open(&self, message: &ClientMessage) -> Result<(), RelayFailure> {
        let mut opening = self.opening.lock().await;
        let session = self.exchange(message, None, Answers::Forwarded).await?.session;
        if session.is_some() {
            *opening = Some(message.clone());
            self.session.send_replace(session);
        }
        Ok(())
    }

    async fn deliver_in(&self, message: &ClientMessage, session: LiveSession) -> Result<(), RelayFailure> {
        if !self.exchange(message, Some(&session), Answers::Forwarded).await?.is_session_gone {
            return Ok(());
        }
        let session = self.open_again(&session).await?;
        if message.is_initialized() {
            // Opening it again has sent this notification.
            return Ok(());
        }
        if self.exchange(message, Some(&session), Answers::Forwarded).await?.is_session_gone {
            return Err(upstream("the session on the server ended twice; try again"));
        }
        Ok(())
    }

    /// Opens a session in place of one that has ended, unless another message did so.
    async fn open_again(&self, ended: &LiveSession) -> Result<LiveSession, RelayFailure> {
        let opening = self.opening.lock().await;
        let current = self.session.borrow().clone();
        if let Some(session) = current.filter(|current| current != ended) {
            return Ok(session);
        }
        let Some(first) = opening.as_ref() else { return Err(upstream("there is no session")) };
        eprintln!("hotdesk: the session on the server has ended; opening another");
        let session = self.exchange(first, None, Answers::Dropped).await?.session;
        let session = session.ok_or_else(|| upstream("the server opened no session"))?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        let initialized = ClientMessage::parse(initialized.into()).map_err(|_| upstream("no message"))?;
        self.exchange(&initialized, Some(&session), Answers::Dropped).await?;
        self.session.send_replace(Some(session.clone()));
        Ok(session)
    }

    fn request(&self, method: Method, session: Option<&LiveSession>) -> RequestBuilder {
        let request = self.api.request(method, self.api.url(&PATH));
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        match session {
            Some(LiveSession { id, version }) => {
                request.header("mcp-session-id", id).header("mcp-protocol-version", version)
            }
            None => request,
        }
    }

    /// Sends a message and handles the answer.
    async fn exchange(
        &self,
        message: &ClientMessage,
        session: Option<&LiveSession>,
        answers: Answers,
    ) -> Result<Exchanged, RelayFailure> {
        let mut request = self.request(Method::POST, session).header(CONTENT_TYPE, "application/json");
        for (name, value) in &message.fields {
            request = request.header(*name, value);
        }
        let sent = tokio::time::timeout(CALL_TIMEOUT, request.body(message.text.clone()).send()).await;
        let sent = sent.map_err(|_| upstream("the server did not answer in ten minutes"))?;
        let response = sent.map_err(|error| RelayFailure::Upstream(self.api.transport_failure(error)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Ok(Exchanged { is_session_gone: true, session: None });
        }
        let mut first = None;
        if is_kind(&headers, "text/event-stream") {
            let mut events = EventStream::of(self.api, response, MAX_ANSWER);
            let mut is_answered = message.id.is_none();
            while let Some(data) = events.next_data().await.map_err(RelayFailure::Upstream)? {
                let Ok(event) = serde_json::from_str::<Value>(&data) else { continue };
                is_answered |= event["id"] == json!(message.id) && event.get("method").is_none();
                if answers == Answers::Forwarded {
                    write_message(&event).await.map_err(RelayFailure::Output)?;
                }
                if is_answered {
                    first.get_or_insert(event);
                }
            }
            if !is_answered {
                return Err(upstream("the server ended the stream before its answer"));
            }
        } else if let Some(body) = self.body(response).await? {
            let is_message = body.get("jsonrpc").is_some();
            if is_message {
                if answers == Answers::Forwarded {
                    write_message(&body).await.map_err(RelayFailure::Output)?;
                }
                first = Some(body);
            } else if !status.is_success() {
                return Err(upstream(&refusal(status, &body)));
            }
        } else if !status.is_success() {
            return Err(upstream(&format!("the server answered {status}")));
        }
        let session = first.filter(|_| message.is_initialize()).and_then(|answer| {
            let id = headers.get("mcp-session-id")?.to_str().ok()?.to_owned();
            let version = answer["result"]["protocolVersion"].as_str()?.to_owned();
            Some(LiveSession { id, version })
        });
        Ok(Exchanged { is_session_gone: false, session })
    }

    /// Reads an answer that is not a stream; `None` when it is empty or no JSON.
    async fn body(&self, mut response: Response) -> Result<Option<Value>, RelayFailure> {
        let mut body = Vec::new();
        loop {
            let chunk = tokio::time::timeout(REQUEST_TIMEOUT, response.chunk()).await;
            let chunk = chunk.map_err(|_| upstream("the server stopped in the middle of its answer"))?;
            let chunk = chunk.map_err(|error| RelayFailure::Upstream(self.api.transport_failure(error)))?;
            let Some(chunk) = chunk else { return Ok(serde_json::from_slice(&body).ok()) };
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(upstream("the answer of the server is too long"));
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// Writes the notifications of the session, for as long as this program runs.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub async fn listen(&self) -> Outcome<Infallible> {
        let mut sessions = self.session.subscribe();
        loop {
            let session = sessions.borrow_and_update().clone();
            let Some(session) = session else {
                // It cannot end: this upstream owns the sender.
                let _ = sessions.changed().await;
                continue;
            };
            let is_refused = tokio::select! {
                heard = self.hear(&session) => heard?,
                _ = sessions.changed() => continue,
            };
            if is_refused {
                // The next message opens another.
                let _ = sessions.changed().await;
            } else {
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
        }
    }

    /// Writes notifications until the stream ends. Returns whether the server refuses the session.
    async fn hear(&self, session: &LiveSession) -> Outcome<bool> {
        let Ok(response) = self.api.stream(self.request(Method::GET, Some(session))).await else {
            return Ok(false);
        };
        if !response.status().is_success() {
            // A refusal, such as of an ended session or key, would only come again.
            return Ok(response.status().is_client_error());
        }
        let mut events = EventStream::of(self.api, response, MAX_ANSWER);
        // A stream that breaks is opened again.
        while let Ok(Some(data)) = events.next_data().await {
            if let Ok(event) = serde_json::from_str::<Value>(&data) {
                write_message(&event).await?;
            }
        }
        Ok(false)
    }

    /// Ends the session, if there is one.
    pub async fn end(&self) {
        let session = self.session.borrow().clone();
        if let Some(session) = session {
            let request = self.request(Method::DELETE, Some(&session)).timeout(END_TIMEOUT);
            // The server ends an idle session by itself.
            drop(self.api.exchange(request).await);
        }
    }
}

/// Result of an exchange.
struct Exchanged {
    /// Whether the server does not know the session any more.
    is_session_gone: bool,
    /// The session that was opened.
    session: Option<LiveSession>,
}

/// Why a message was not relayed.
enum RelayFailure {
    /// The client is told.
    Upstream(Failure),
    /// The client cannot be told.
    Output(Failure),
}

fn upstream(why: &str) -> RelayFailure {
    RelayFailure::Upstream(Failure::Failed(why.to_owned()))
}

fn is_kind(headers: &HeaderMap, kind: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.starts_with(kind))
}

/// Error text of the server, with its request id.
fn refusal(status: StatusCode, body: &Value) -> String {
    match serde_json::from_value::<ErrorBody>(body.clone()) {
        Ok(ErrorBody { error, request_id: Some(id), .. }) => format!("{error} (request {id})"),
        Ok(ErrorBody { error, .. }) => error,
        Err(_) => format!("the server answered {status}"),
    }
}

/// Writes a message as one line of standard output.
///
/// # Errors
/// When the reader has gone.
pub async fn write_message(message: &Value) -> Outcome<()> {
    let line = Bytes::from(format!("{message}\n"));
    let written = stdio::write(OutputStream::Out, line).await;
    written.map_err(|error| format!("cannot write to standard output: {error}").into())
}
