//! Messages between a client and the MCP server of hotdesk.
//!
//! ```text
//! initialize -> POST -> session id -> GET: notifications of the session
//! request    -> POST -> JSON, or events until the answer
//!                 \-> 404: the session has ended -> initialize and subscribe again, then the request, once
//! ```

mod exchange;
mod listen;

use std::collections::BTreeSet;
use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::ACCEPT;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};

use super::lines::MAX_MESSAGE;
use super::message::{ClientMessage, RELAY_ERROR, Subscription, error_reply};
use crate::client::api::Api;
use crate::failure::{Failure, Outcome};
use crate::remote::stdio::{self, OutputStream};
use exchange::Answers;

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

/// Writes a message as one line of standard output.
///
/// # Errors
/// When the reader has gone.
pub async fn write_message(message: &Value) -> Outcome<()> {
    let line = Bytes::from(format!("{message}\n"));
    let written = stdio::write(OutputStream::Out, line).await;
    written.map_err(|error| format!("cannot write to standard output: {error}").into())
}
