//! Messages between a client and the MCP server of hotdesk.
//!
//! ```text
//! initialize -> POST -> session id -> GET: notifications of the session
//! request    -> POST -> JSON, or events until the answer
//!                 \-> 404: the session has ended -> initialize and subscribe again, then the request, once
//! ```

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};

use super::lines::MAX_MESSAGE;
use super::message::{ClientMessage, RELAY_ERROR, Subscription, error_reply};
use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::event_stream::EventStream;
use crate::failure::{Failure, Outcome};
use crate::remote::stdio::{self, OutputStream};
use hotdesk_wire::error::ErrorBody;

/// Longest wait for the head of an answer. Without a session it comes with the result, and the longest call
/// creates a computer (seven minutes).
const CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// Pause before notifications are requested again, for a server that restarts. It doubles with each failure.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause that this program chooses: notifications are late by it after an outage.
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(60);
/// Longest such pause that the server chooses (`Retry-After`).
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);
/// Most subscriptions that are made again in a new session; the server allows 8 at once.
const MAX_SUBSCRIPTIONS: usize = 64;
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
    /// Addresses to which the client has subscribed.
    subscribed: StdMutex<BTreeSet<String>>,
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
        let (session, opening) = (watch::Sender::new(None), Mutex::new(None));
        Self { api, session, opening, subscribed: StdMutex::default() }
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
            self.subscribed().clear();
            self.session.send_replace(session);
        }
        Ok(())
    }

    async fn deliver_in(&self, message: &ClientMessage, session: LiveSession) -> Result<(), RelayFailure> {
        let mut answer = self.exchange(message, Some(&session), Answers::Forwarded).await?;
        if answer.is_session_gone {
            let session = self.open_again(&session).await?;
            if message.is_initialized() {
                // Opening it again has sent this notification.
                return Ok(());
            }
            answer = self.exchange(message, Some(&session), Answers::Forwarded).await?;
            if answer.is_session_gone {
                return Err(upstream("the session on the server ended twice; try again"));
            }
        }
        if answer.is_success {
            self.remember(message);
        }
        Ok(())
    }

    fn subscribed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers how an accepted message changes the subscriptions.
    fn remember(&self, message: &ClientMessage) {
        let Some(change) = message.subscription() else { return };
        let mut subscribed = self.subscribed();
        match change {
            Subscription::Begin(uri) if subscribed.len() < MAX_SUBSCRIPTIONS => {
                subscribed.insert(uri.clone());
            }
            Subscription::Begin(uri) => {
                eprintln!("hotdesk: the subscription to {uri} ends with the session: there are too many");
            }
            Subscription::End(uri) => {
                subscribed.remove(uri);
            }
        }
    }

    /// Subscribes in a new session to what the client has subscribed to. What the server refuses, for example
    /// because the computer was deleted, is forgotten.
    async fn subscribe_again(&self, session: &LiveSession) {
        let all = self.subscribed().clone();
        for uri in all {
            let request = json!({"jsonrpc": "2.0", "id": format!("hotdesk: {uri}"),
                "method": "resources/subscribe", "params": {"uri": uri}});
            // It is a message.
            let Ok(request) = ClientMessage::parse(request.to_string().into()) else { continue };
            match self.exchange(&request, Some(session), Answers::Dropped).await {
                // The session after one that has gone is subscribed again.
                Ok(answer) if answer.is_success || answer.is_session_gone => {}
                Ok(_) => {
                    eprintln!("hotdesk: the server ended the subscription to {uri}");
                    self.subscribed().remove(&uri);
                }
                Err(RelayFailure::Upstream(why) | RelayFailure::Output(why)) => {
                    eprintln!("hotdesk: cannot subscribe to {uri} again: {}", why.text());
                }
            }
        }
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
        self.subscribe_again(&session).await;
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
    ) -> Result<ExchangeOutcome, RelayFailure> {
        let mut request = self.request(Method::POST, session).header(CONTENT_TYPE, "application/json");
        for (name, value) in &message.fields {
            request = request.header(*name, value);
        }
        // What is no request is accepted at once, and standard input waits for it.
        let timeout = if message.id.is_some() { CALL_TIMEOUT } else { REQUEST_TIMEOUT };
        let sent = tokio::time::timeout(timeout, request.body(message.text.clone()).send()).await;
        let late = |_| upstream(&format!("the server did not answer in {} seconds", timeout.as_secs()));
        let response = sent.map_err(late)?;
        let response = response.map_err(|error| RelayFailure::Upstream(self.api.transport_failure(error)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Ok(ExchangeOutcome { is_session_gone: true, ..ExchangeOutcome::default() });
        }
        let Some(id) = &message.id else {
            if status.is_success() {
                return Ok(ExchangeOutcome::default());
            }
            let body = self.body(response).await?.unwrap_or_default();
            return Err(upstream(&refusal(status, &body)));
        };
        let answer = if is_kind(&headers, "text/event-stream") {
            self.streamed_answer(response, id, answers).await?
        } else {
            self.whole_answer(response, id, answers).await?
        };
        let session = message.is_initialize().then_some(&answer).and_then(|answer| {
            let id = headers.get("mcp-session-id")?.to_str().ok()?.to_owned();
            let version = answer["result"]["protocolVersion"].as_str()?.to_owned();
            Some(LiveSession { id, version })
        });
        let is_success = answer.get("result").is_some();
        Ok(ExchangeOutcome { is_session_gone: false, session, is_success })
    }

    /// Relays the messages of a stream up to the answer to a request. What a server sends after it is not
    /// read, so that no failure becomes a second answer.
    async fn streamed_answer(
        &self,
        response: Response,
        id: &Value,
        answers: Answers,
    ) -> Result<Value, RelayFailure> {
        let mut events = EventStream::of(self.api, response, MAX_ANSWER);
        while let Some(data) = events.next_data().await.map_err(RelayFailure::Upstream)? {
            let Ok(event) = serde_json::from_str::<Value>(&data) else { continue };
            if answers == Answers::Forwarded {
                write_message(&event).await.map_err(RelayFailure::Output)?;
            }
            if is_answer(&event, id) {
                return Ok(event);
            }
        }
        Err(upstream("the server ended the stream before its answer"))
    }

    /// Relays a body that is the answer to a request.
    async fn whole_answer(
        &self,
        response: Response,
        id: &Value,
        answers: Answers,
    ) -> Result<Value, RelayFailure> {
        let status = response.status();
        let body = self.body(response).await?.unwrap_or_default();
        if !is_answer(&body, id) {
            return Err(upstream(&refusal(status, &body)));
        }
        if answers == Answers::Forwarded {
            write_message(&body).await.map_err(RelayFailure::Output)?;
        }
        Ok(body)
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
        let mut pause = RECONNECT_PAUSE;
        loop {
            let session = sessions.borrow_and_update().clone();
            let Some(session) = session else {
                // It cannot end: this upstream owns the sender.
                let _ = sessions.changed().await;
                continue;
            };
            let end = tokio::select! {
                heard = self.hear(&session) => heard?,
                _ = sessions.changed() => continue,
            };
            let wait = match end {
                // Not only with the next message: a client may wait for notifications alone.
                ListenEnd::Gone => match self.open_again(&session).await {
                    Ok(_) => {
                        let wait = grow(&mut pause);
                        if wait == RECONNECT_PAUSE {
                            continue;
                        }
                        // The last new session was gone at once.
                        sessions.mark_unchanged();
                        wait
                    }
                    Err(RelayFailure::Output(failure)) => return Err(failure),
                    Err(RelayFailure::Upstream(why)) => {
                        eprintln!("hotdesk: no session for notifications: {}", why.text());
                        grow(&mut pause)
                    }
                },
                ListenEnd::Refused => {
                    // The same request would be refused again; the next session may not.
                    let _ = sessions.changed().await;
                    continue;
                }
                ListenEnd::Failed(retry_after) => grow(&mut pause).max(retry_after.unwrap_or_default()),
                ListenEnd::Ended => {
                    pause = RECONNECT_PAUSE;
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = sessions.changed() => pause = RECONNECT_PAUSE,
            }
        }
    }

    /// Writes notifications until the stream ends.
    async fn hear(&self, session: &LiveSession) -> Outcome<ListenEnd> {
        let Ok(response) = self.api.stream(self.request(Method::GET, Some(session))).await else {
            return Ok(ListenEnd::Failed(None));
        };
        if !response.status().is_success() {
            return Ok(ListenEnd::of_refusal(response.status(), response.headers()));
        }
        let mut events = EventStream::of(self.api, response, MAX_ANSWER);
        // A stream that breaks is opened again.
        while let Ok(Some(data)) = events.next_data().await {
            if let Ok(event) = serde_json::from_str::<Value>(&data) {
                write_message(&event).await?;
            }
        }
        Ok(ListenEnd::Ended)
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
#[derive(Default)]
struct ExchangeOutcome {
    /// Whether the server does not know the session any more.
    is_session_gone: bool,
    /// The session that was opened.
    session: Option<LiveSession>,
    /// Whether the answer to the request is a result.
    is_success: bool,
}

/// Why notifications of a session end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenEnd {
    /// The server does not know the session any more.
    Gone,
    /// The server refuses the credential, or has no notifications.
    Refused,
    /// The server could not be reached or could not answer; after this time it may.
    Failed(Option<Duration>),
    /// The stream ended.
    Ended,
}

impl ListenEnd {
    fn of_refusal(status: StatusCode, headers: &HeaderMap) -> Self {
        if status == StatusCode::NOT_FOUND {
            return Self::Gone;
        }
        let lasting = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::METHOD_NOT_ALLOWED];
        if lasting.contains(&status) {
            return Self::Refused;
        }
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        Self::Failed(seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER)))
    }
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
        Err(_) => match body["error"]["message"].as_str() {
            Some(message) => message.to_owned(),
            None if status.is_success() => format!("the server answered {status} without a message"),
            None => format!("the server answered {status}"),
        },
    }
}

/// Returns the pause before the next attempt, and doubles it for the one after that.
fn grow(pause: &mut Duration) -> Duration {
    let wait = *pause;
    *pause = (wait * 2).min(MAX_RECONNECT_PAUSE);
    wait
}

/// Whether a message answers a request.
fn is_answer(message: &Value, id: &Value) -> bool {
    message["jsonrpc"].is_string() && message.get("method").is_none() && message["id"] == *id
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

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn only_lasting_refusals_end_the_listening() {
        let end = |status: u16, retry_after: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = retry_after {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(value));
            }
            ListenEnd::of_refusal(StatusCode::from_u16(status).unwrap(), &headers)
        };
        let failed = |seconds: u64| ListenEnd::Failed(Some(Duration::from_secs(seconds)));
        assert_eq!(end(404, None), ListenEnd::Gone);
        for status in [401, 403, 405] {
            assert_eq!(end(status, Some("1")), ListenEnd::Refused, "{status}");
        }
        assert_eq!((end(429, Some("7")), end(503, Some("99999"))), (failed(7), failed(600)));
        for (status, retry_after) in [(429, None), (409, Some("soon")), (400, None), (502, None)] {
            assert_eq!(end(status, retry_after), ListenEnd::Failed(None), "{status}");
        }
    }

    #[test]
    fn the_pause_grows_to_a_minute() {
        let mut pause = RECONNECT_PAUSE;
        let waits: Vec<u64> = (0..8).map(|_| grow(&mut pause).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn an_answer_has_the_id_of_its_request() {
        let is = |message: Value| is_answer(&message, &json!(1));
        assert!(is(json!({"jsonrpc": "2.0", "id": 1, "result": {}})));
        for foreign in [
            Value::Null,
            json!([]),
            json!({"id": 1}),
            json!({"jsonrpc": "2.0", "id": 2, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        ] {
            assert!(!is(foreign.clone()), "{foreign}");
        }
    }

    #[test]
    fn a_refusal_has_the_text_of_the_server() {
        let text = |body: Value| refusal(StatusCode::OK, &body);
        assert_eq!(text(json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "no"}})), "no");
        assert_eq!(text(Value::Null), "the server answered 200 OK without a message");
    }
}
