//! Floor 4: how does the controller speak to a computer? A typed client of the agent's API.
//!
//! The agent must be treated as compromised (threats.md): every answer is bounded in time and size, no redirect is
//! followed, nothing it says becomes a path here, and a header only what [`hotdesk_http::marks`] has read as plain words.

mod acted;
mod collect;
mod connect;
mod failure;
mod screenshot;
mod socket;

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use hotdesk_base::ids::FileId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::endpoint::Endpoint;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::filename::FileName;
use hotdesk_http::idempotency;
use hotdesk_wire::agent::{Activity, Health, PutResult, Renewal, Renewed};

pub use acted::Acted;
pub use failure::refuses;
pub use hotdesk_http::encode::percent_encode;
pub use screenshot::{Image, Sight};
pub use socket::Socket;

/// Largest JSON answer in bytes: 1 MiB of command output can grow sixfold as escapes, the command is echoed beside it.
const MAX_JSON_ANSWER: usize = 24 * 1024 * 1024;
/// How long an agent may take for what should be immediate.
pub const QUICK: Duration = Duration::from_secs(15);
/// How long a renewal may take that makes host keys too: the agent gives each of three up to 20 s.
const KEYS_TIMEOUT: Duration = Duration::from_secs(75);
/// How long an agent may take to say what is at work: it asks its screens and its sound server for that.
const ACTIVITY_TIMEOUT: Duration = Duration::from_secs(3);
/// Idle connections kept per computer: one for actions, one for screenshots, two to spare.
const IDLE_CONNECTIONS: usize = 4;
/// Idle connections are closed after this long: before the agent does it ([`hotdesk_http::serve`]), whose end would meet a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an agent may take to say how it is. Whoever looks for it asks again and again; one that needs more than a second each
/// time, on a busy host, is heard too. Where nobody listens yet, the connection is given up sooner.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);

/// A guest: a computer as the controller sees it from outside.
#[derive(Clone, Debug)]
pub struct Guest {
    client: Client<connect::Connector, Body>,
    connector: connect::Connector,
    bearer: HeaderValue,
    room: collect::Room,
}

impl Guest {
    /// A client for the agent at an endpoint. No connection is made yet.
    ///
    /// # Errors
    /// When the token cannot be a header value.
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
        Ok(Self { client, connector, bearer, room: collect::Room::new() })
    }

    /// How the agent is.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub async fn health(&self) -> Result<Health> {
        self.call(Method::GET, "/health", (), None::<&()>, HEALTH_TIMEOUT).await
    }

    /// Gives a computer that goes on from its memory what must be new. Asked with the token of the boot that was saved,
    /// which ends with it.
    ///
    /// # Errors
    /// As [`Guest::call`]; whether the agent has taken the new token is open then.
    pub async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let patience = if renewal.another { KEYS_TIMEOUT } else { QUICK };
        self.call(Method::POST, "/identity", (), Some(renewal), patience).await
    }

    /// Whether anybody or anything is at work in it.
    ///
    /// # Errors
    /// When it does not answer within three seconds.
    pub async fn activity(&self) -> Result<Activity> {
        self.call(Method::GET, "/activity", (), None::<&()>, ACTIVITY_TIMEOUT).await
    }

    /// One JSON call. `query` is a serde struct; `patience` bounds the whole answer.
    ///
    /// # Errors
    /// The agent's own refusal with its status, or why it could not be asked.
    pub async fn call<Query: Serialize, Send: Serialize, Receive: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: Query,
        body: Option<&Send>,
        patience: Duration,
    ) -> Result<Receive> {
        let body = match body {
            None => Body::empty(),
            Some(value) => Body::from(serde_json::to_vec(value).map_err(Error::internal)?),
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri(path, query)?;
        self.ask(request, patience).await.map(|acted| acted.answer)
    }

    /// One action, done at most once where it has a key.
    ///
    /// # Errors
    /// As [`Guest::call`].
    pub async fn act<Query: Serialize, Send: Serialize, Receive: DeserializeOwned>(
        &self,
        path: &str,
        query: Query,
        body: &Send,
        key: Option<HeaderValue>,
        patience: Duration,
    ) -> Result<Acted<Receive>> {
        let mut request = Request::new(Body::from(serde_json::to_vec(body).map_err(Error::internal)?));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri(path, query)?;
        if let Some(key) = key {
            request.headers_mut().insert(idempotency::NAME, key);
        }
        self.ask(request, patience).await
    }

    /// Sends a request with JSON and reads the JSON that comes back.
    async fn ask<Receive: DeserializeOwned>(
        &self,
        mut request: Request<Body>,
        patience: Duration,
    ) -> Result<Acted<Receive>> {
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let exchange = async {
            let response = self.exchange(request, StatusCode::is_success).await?;
            let replayed = response.headers().get(idempotency::REPLAYED).is_some_and(|value| value == "true");
            let bytes = self.room.collect(response.into_body(), MAX_JSON_ANSWER).await?;
            let answer = serde_json::from_slice(&bytes).map_err(|error| failure::nonsense(&error))?;
            Ok(Acted { answer, replayed })
        };
        within(patience, exchange).await
    }

    /// Puts a file on the desktop; an existing one is never replaced.
    ///
    /// # Errors
    /// As [`Guest::call`].
    pub async fn put_file(
        &self,
        name: &FileName,
        file: FileId,
        body: Body,
        patience: Duration,
    ) -> Result<PutResult> {
        let encoded = percent_encode(name.as_str());
        let exchange = async {
            let path = format!("/files/desktop/{encoded}");
            let response = self.send(Method::PUT, uri(&path, ())?, body).await?;
            let bytes = self.room.collect(response.into_body(), MAX_JSON_ANSWER).await?;
            serde_json::from_slice(&bytes).map_err(|error| failure::nonsense(&error))
        };
        within(patience, exchange).await.map_err(|error| {
            let said = error.context.clone().unwrap_or_default();
            error.context(format!("file {file}: {said}"))
        })
    }

    /// Opens a file of the computer for reading.
    ///
    /// # Errors
    /// As [`Guest::call`].
    pub async fn open_file(&self, path: &str) -> Result<Incoming> {
        let response = within(QUICK, async {
            self.send(Method::GET, uri("/files/content", [("path", path)])?, Body::empty()).await
        });
        Ok(response.await?.into_body())
    }

    /// Sends bytes as they come and reads a JSON answer.
    ///
    /// # Errors
    /// As [`Guest::call`].
    pub async fn send_bytes<Query: Serialize, Receive: DeserializeOwned>(
        &self,
        path: &str,
        query: Query,
        body: Body,
        patience: Duration,
    ) -> Result<Receive> {
        let exchange = async {
            let response = self.send(Method::POST, uri(path, query)?, body).await?;
            let bytes = self.room.collect(response.into_body(), MAX_JSON_ANSWER).await?;
            serde_json::from_slice(&bytes).map_err(|error| failure::nonsense(&error))
        };
        within(patience, exchange).await
    }

    /// Opens an answer that is read as it comes; `patience` bounds the wait for its header.
    ///
    /// # Errors
    /// As [`Guest::call`].
    pub async fn open<Query: Serialize>(
        &self,
        path: &str,
        query: Query,
        patience: Duration,
    ) -> Result<Response<Incoming>> {
        within(patience, async { self.send(Method::GET, uri(path, query)?, Body::empty()).await }).await
    }

    /// Passes a request on as it is, upgrade included; method, path and headers were chosen by the caller.
    ///
    /// # Errors
    /// When the agent cannot be reached or sends no header in time.
    pub async fn forward(
        &self,
        mut request: Request<Body>,
        patience: Duration,
    ) -> Result<Response<Incoming>> {
        request.headers_mut().insert(header::AUTHORIZATION, self.bearer.clone());
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("agent"));
        within(patience, async {
            self.client.request(request).await.map_err(|error| failure::unanswered(&error))
        })
        .await
    }

    /// Sends and lets only a 2xx through; a refusal becomes an error that carries the agent's words, bounded.
    async fn send(&self, method: Method, uri: Uri, body: Body) -> Result<Response<Incoming>> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.exchange(request, StatusCode::is_success).await
    }

    /// Sends a request and lets only the statuses through that `good` accepts.
    async fn exchange(
        &self,
        mut request: Request<Body>,
        good: impl Fn(&StatusCode) -> bool,
    ) -> Result<Response<Incoming>> {
        request.headers_mut().insert(header::AUTHORIZATION, self.bearer.clone());
        let response = self.client.request(request).await.map_err(|error| failure::unanswered(&error))?;
        if good(&response.status()) {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// What an answer that is no success says, as an error of ours; its words and their length are bounded.
    pub async fn refusal(&self, response: Response<Incoming>) -> Error {
        let status: StatusCode = response.status();
        let retry_after =
            response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let reading = self.room.collect(response.into_body(), failure::MAX_REFUSAL);
        let bytes = within(QUICK, reading).await.unwrap_or_default();
        failure::refused(status, &bytes, retry_after)
    }
}

async fn within<T>(patience: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(patience, work).await {
        Ok(done) => done,
        Err(_) => Err(failure::late(patience)),
    }
}

fn uri(path: &str, query: impl Serialize) -> Result<Uri> {
    let query = serde_urlencoded::to_string(query).map_err(Error::internal)?;
    let joined =
        if query.is_empty() { format!("http://agent{path}") } else { format!("http://agent{path}?{query}") };
    joined.parse().map_err(|error| Error::internal(format!("agent path: {error}")))
}
