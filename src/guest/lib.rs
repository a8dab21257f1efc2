//! Floor 4: typed client of the agent's API.
//!
//! The controller treats the agent as compromised (docs/security.md). Each answer has a timeout and a size
//! limit, and redirects are not followed. No text of an agent becomes a path. It becomes a header only after
//! the strict parser in [`hotdesk_http::headers::image_headers`].

mod action_reply;
mod answer_budget;
mod connect;
mod failure;
mod liveness;
mod port;
mod screenshot;
mod socket;
mod ssh;
mod template;
mod timeline;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use hotdesk_base::ids::FileId;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::endpoint::Endpoint;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::filename::FileName;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_http::headers::actor;
use hotdesk_http::idempotency;
use hotdesk_wire::agent::{
    Activity, ContentQuery, Health, HealthQuery, PutResult, PutSecretsResult, Renewal, RenewalResult,
};

pub use action_reply::ActionReply;
pub use failure::{is_error_status, is_token_refused};
pub use hotdesk_http::encode::percent_encode;
pub use screenshot::{ConditionalScreenshot, Image};
pub use socket::Socket;

/// Largest JSON answer, in bytes. JSON escapes can make 1 MiB of command output six times longer, and the
/// answer repeats the command.
const MAX_JSON_ANSWER: usize = 24 * 1024 * 1024;
/// Timeout of requests that an agent answers immediately.
pub const QUICK_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a renewal that also makes host keys: the agent makes three, with up to 20 s for each.
const KEYS_TIMEOUT: Duration = Duration::from_secs(75);
/// Timeout of an activity request: the agent asks its screens and its sound server.
const ACTIVITY_TIMEOUT: Duration = Duration::from_secs(3);
/// Most idle connections per computer: one for actions, one for screenshots, two to spare.
const IDLE_CONNECTIONS: usize = 4;
/// Idle connections are closed after this long. It is less than the agent's timeout in
/// [`hotdesk_http::serve`], so that the agent never closes a connection that a request is about to use.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a health check. Callers repeat the check, so it must be long enough for an agent on a busy host
/// that needs more than a second each time. The timeout of the connection is shorter.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Milliseconds for which such a check may wait for the desktop. The rest of [`HEALTH_TIMEOUT`] is for the
/// agent's start.
const USABLE_WAIT_MS: u32 = 5_000;

/// Client of one computer's agent; cheap to clone.
#[derive(Clone, Debug)]
pub struct Guest {
    client: Client<connect::Connector, Body>,
    connector: connect::Connector,
    bearer: HeaderValue,
    /// Who acts by this client; the agent is told.
    actor: Option<HeaderValue>,
    acted: Arc<timeline::LastActed>,
    answers: answer_budget::AnswerBudget,
    liveness: liveness::Liveness,
}

impl Guest {
    /// Makes a client for the agent at an endpoint. It does not connect yet.
    ///
    /// # Errors
    /// `Internal` when the token cannot be a header value.
    pub fn new(endpoint: Endpoint, token: &Secret) -> Result<Self> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| Error::internal("an agent token is not a header value"))?;
        bearer.set_sensitive(true);
        let connector = connect::Connector::new(endpoint);
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector.clone());
        let (answers, liveness) = (answer_budget::AnswerBudget::new(), liveness::Liveness::new());
        let acted = Arc::default();
        Ok(Self { client, connector, bearer, actor: None, acted, answers, liveness })
    }

    /// Returns the client of somebody whose requests name who acts.
    #[must_use]
    pub fn acting_as(self, actor: Actor) -> Self {
        self.acted.note();
        Self { actor: actor::value(actor), ..self }
    }

    /// Adds the fields of the controller: the token, and who acts.
    fn authorize(&self, headers: &mut HeaderMap) {
        headers.insert(header::AUTHORIZATION, self.bearer.clone());
        match &self.actor {
            Some(actor) => headers.insert(actor::NAME, actor.clone()),
            None => headers.remove(actor::NAME),
        };
    }

    /// The start of the first request since which the agent answers nothing, as it changes; `None` while it
    /// answers.
    pub fn unresponsive_since(&self) -> watch::Receiver<Option<UnixMillis>> {
        self.liveness.watch()
    }

    /// Requests the agent's health.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `TimedOut` after 10 s.
    pub async fn health(&self) -> Result<Health> {
        self.call(Method::GET, "/health", (), None::<&()>, HEALTH_TIMEOUT).await
    }

    /// Requests the agent's health once the desktop is usable, or as it is after some seconds.
    ///
    /// # Errors
    /// Those of [`Guest::health`].
    pub async fn health_once_usable(&self) -> Result<Health> {
        let query = HealthQuery { usable_within_ms: USABLE_WAIT_MS };
        self.call(Method::GET, "/health", query, None::<&()>, HEALTH_TIMEOUT).await
    }

    /// Renews the identity of a computer that was restored from its memory. The request uses the token of the
    /// saved boot, which the agent replaces.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; it is then unknown whether the agent uses the new token.
    pub async fn renew(&self, renewal: &Renewal) -> Result<RenewalResult> {
        let timeout = if renewal.another { KEYS_TIMEOUT } else { QUICK_TIMEOUT };
        self.call(Method::POST, "/identity", (), Some(renewal), timeout).await
    }

    /// Requests what is active on the computer.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `TimedOut` after 3 s.
    pub async fn activity(&self) -> Result<Activity> {
        self.call(Method::GET, "/activity", (), None::<&()>, ACTIVITY_TIMEOUT).await
    }

    /// Sends one request and reads a JSON answer. `query` is a serde struct; the timeout includes the
    /// answer's body.
    ///
    /// # Errors
    /// The agent's own error with its status in `upstream_status`; `Unavailable` when the agent cannot be
    /// reached or breaks off; `TimedOut` after `timeout`; `Internal` for an invalid answer.
    pub async fn call<Query: Serialize, Send: Serialize, Receive: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: Query,
        body: Option<&Send>,
        timeout: Duration,
    ) -> Result<Receive> {
        let body = match body {
            None => Body::empty(),
            Some(value) => Body::from(serde_json::to_vec(value).map_err(Error::internal)?),
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri(path, query)?;
        self.exchange_json(request, timeout, MAX_JSON_ANSWER).await.map(|reply| reply.answer)
    }

    /// Sends one action. With an idempotency key, the agent executes it at most once; it then compares
    /// `digest` instead of the body.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn act<Query: Serialize, Send: Serialize, Receive: DeserializeOwned>(
        &self,
        path: &str,
        query: Query,
        body: &Send,
        key: Option<HeaderValue>,
        digest: Option<HeaderValue>,
        timeout: Duration,
    ) -> Result<ActionReply<Receive>> {
        let mut request = Request::new(Body::from(serde_json::to_vec(body).map_err(Error::internal)?));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri(path, query)?;
        if let Some(key) = key {
            request.headers_mut().insert(idempotency::NAME, key);
        }
        if let Some(digest) = digest {
            request.headers_mut().insert(idempotency::REQUEST_DIGEST, digest);
        }
        self.exchange_json(request, timeout, MAX_JSON_ANSWER).await
    }

    /// Sends a request with JSON and reads the JSON answer, of at most `most` bytes.
    async fn exchange_json<Receive: DeserializeOwned>(
        &self,
        request: Request<Body>,
        timeout: Duration,
        most: usize,
    ) -> Result<ActionReply<Receive>> {
        let (bytes, replayed) = self.exchange_bytes(request, timeout, most).await?;
        let answer = serde_json::from_slice(&bytes).map_err(|error| failure::invalid_answer(&error))?;
        Ok(ActionReply { answer, replayed })
    }

    /// Sends a request with JSON. Returns the answer, of at most `most` bytes, and whether it is the stored one of
    /// an earlier request. It is no part of [`Self::exchange_json`], whose code exists for each type of an answer.
    async fn exchange_bytes(
        &self,
        mut request: Request<Body>,
        timeout: Duration,
        most: usize,
    ) -> Result<(Bytes, bool)> {
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let exchange = async {
            let response = self.exchange(request, StatusCode::is_success).await?;
            let replayed = is_replayed(&response);
            Ok((self.answers.collect(response.into_body(), most).await?, replayed))
        };
        self.answer_within(timeout, exchange).await
    }

    /// Puts a file on the desktop; an existing file is not replaced.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; the context names the file's id.
    pub async fn put_file(
        &self,
        name: &FileName,
        file: FileId,
        body: Body,
        timeout: Duration,
    ) -> Result<PutResult> {
        let encoded = percent_encode(name.as_str());
        let exchange = async {
            let path = format!("/files/desktop/{encoded}");
            let response = self.send(Method::PUT, uri(&path, ())?, body).await?;
            let bytes = self.answers.collect(response.into_body(), MAX_JSON_ANSWER).await?;
            serde_json::from_slice(&bytes).map_err(|error| failure::invalid_answer(&error))
        };
        within(timeout, exchange).await.map_err(|error| {
            let context = error.context.clone().unwrap_or_default();
            error.context(format!("file {file}: {context}"))
        })
    }

    /// Replaces the file of secrets, whose text sets shell variables.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `Conflict` (`env_file_exists`) when another file is at its place.
    pub async fn put_env_file(&self, text: &Secret) -> Result<PutSecretsResult> {
        let exchange = async {
            let body = Body::from(text.reveal().to_owned());
            let response = self.send(Method::PUT, uri("/secrets", ())?, body).await?;
            let bytes = self.answers.collect(response.into_body(), MAX_JSON_ANSWER).await?;
            serde_json::from_slice(&bytes).map_err(|error| failure::invalid_answer(&error))
        };
        self.answer_within(QUICK_TIMEOUT, exchange).await
    }

    /// Opens a file of the computer's home folder and returns its content as a stream. The stream itself has no
    /// timeout.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `Forbidden` (`path_through_link`) for a link that leads out of the home folder.
    pub async fn open_file(&self, path: &str) -> Result<Incoming> {
        let response = self.answer_within(QUICK_TIMEOUT, async {
            let query = ContentQuery { path: path.to_owned(), within_home: true };
            self.send(Method::GET, uri("/files/content", query)?, Body::empty()).await
        });
        Ok(response.await?.into_body())
    }

    /// Sends a stream of bytes and reads a JSON answer; the timeout includes both.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn send_bytes<Query: Serialize, Receive: DeserializeOwned>(
        &self,
        path: &str,
        query: Query,
        body: Body,
        timeout: Duration,
    ) -> Result<Receive> {
        let exchange = async {
            let response = self.send(Method::POST, uri(path, query)?, body).await?;
            let bytes = self.answers.collect(response.into_body(), MAX_JSON_ANSWER).await?;
            serde_json::from_slice(&bytes).map_err(|error| failure::invalid_answer(&error))
        };
        within(timeout, exchange).await
    }

    /// Requests an answer that is read as a stream; the timeout ends at its header.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn open<Query: Serialize>(
        &self,
        path: &str,
        query: Query,
        timeout: Duration,
    ) -> Result<Response<Incoming>> {
        self.answer_within(timeout, async { self.send(Method::GET, uri(path, query)?, Body::empty()).await })
            .await
    }

    /// Forwards a request, upgrade included. Method, path and headers are the caller's; only `Authorization`,
    /// `Host` and the actor are set. The answer may have any status; the timeout ends at its header.
    ///
    /// # Errors
    /// `Unavailable` when the agent cannot be reached or breaks off; `TimedOut` after `timeout`.
    pub async fn forward(&self, mut request: Request<Body>, timeout: Duration) -> Result<Response<Incoming>> {
        self.authorize(request.headers_mut());
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("agent"));
        within(timeout, self.request(request)).await
    }

    /// Sends a request. An answer with another status than 2xx becomes an error with the agent's text,
    /// shortened.
    async fn send(&self, method: Method, uri: Uri, body: Body) -> Result<Response<Incoming>> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.exchange(request, StatusCode::is_success).await
    }

    async fn request(&self, request: Request<Body>) -> Result<Response<Incoming>> {
        let sent = self.liveness.sent();
        match self.client.request(request).await {
            Ok(response) => {
                self.liveness.answered();
                Ok(response)
            }
            // An agent that stands still accepts no connection once its queue is full.
            Err(error) if failure::is_timeout(&error) => match self.liveness.timed_out(sent) {
                Some(since) => Err(failure::unresponsive(since).context(error)),
                None => Err(failure::no_answer(&error)),
            },
            Err(error) => Err(failure::no_answer(&error)),
        }
    }

    /// Waits for an answer for at most `timeout`. Only for requests that are sent whole: a slow sender of a
    /// streamed body says nothing about the agent.
    async fn answer_within<T>(&self, timeout: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        let sent = self.liveness.sent();
        match tokio::time::timeout(timeout, work).await {
            Ok(done) => done,
            // An agent on a busy host may exceed a shorter timeout.
            Err(_) if timeout < HEALTH_TIMEOUT => Err(failure::timed_out(timeout)),
            Err(_) => Err(match self.liveness.timed_out(sent) {
                Some(since) => failure::unresponsive(since).context(format!("waited {timeout:?}")),
                None => failure::timed_out(timeout),
            }),
        }
    }

    /// Sends a request. An answer whose status `good` does not accept becomes an error.
    async fn exchange(
        &self,
        mut request: Request<Body>,
        good: impl Fn(&StatusCode) -> bool,
    ) -> Result<Response<Incoming>> {
        self.authorize(request.headers_mut());
        let response = self.request(request).await?;
        if good(&response.status()) {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// Converts an answer with an error status to an error of the API. The agent's text is shortened.
    pub async fn refusal(&self, response: Response<Incoming>) -> Error {
        let status: StatusCode = response.status();
        let retry_after =
            response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let replayed = is_replayed(&response);
        let reading = self.answers.collect(response.into_body(), failure::MAX_REFUSAL);
        let bytes = within(QUICK_TIMEOUT, reading).await.unwrap_or_default();
        Error { replayed, ..failure::from_status(status, &bytes, retry_after) }
    }
}

/// Whether a response is the stored one of an earlier request.
fn is_replayed(response: &Response<Incoming>) -> bool {
    response.headers().get(idempotency::REPLAYED).is_some_and(|value| value == "true")
}

async fn within<T>(timeout: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done,
        Err(_) => Err(failure::timed_out(timeout)),
    }
}

fn uri(path: &str, query: impl Serialize) -> Result<Uri> {
    uri_with(path, &serde_urlencoded::to_string(query).map_err(Error::internal)?)
}

fn uri_with(path: &str, query: &str) -> Result<Uri> {
    let joined =
        if query.is_empty() { format!("http://agent{path}") } else { format!("http://agent{path}?{query}") };
    joined.parse().map_err(|error| Error::internal(format!("agent path: {error}")))
}
