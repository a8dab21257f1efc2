//! HTTP client of the API: one server, bounded time and size, readable errors.

use std::error::Error as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONNECTION, HeaderMap, LOCATION, UPGRADE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Upgraded, Url, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::connection::Connection;
use crate::failure::{Failure, Outcome};
use hotdesk_base::secret::Secret;
use hotdesk_wire::chat::completion::ChatErrorBody;
use hotdesk_wire::error::ErrorBody;

/// Timeout of ordinary requests. It is generous because actions wait on the server for a computer that is starting.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a create. The first one on a host copies an image, a boot may take three minutes, and boots are queued.
pub const CREATE_TIMEOUT: Duration = Duration::from_secs(420);
/// Timeout of a connect: enough for two lost SYNs and their retransmissions.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest response in bytes: an 8K screenshot of noise is 100 MB as PNG and 133 MB as base64.
const MAX_RESPONSE: usize = 160 * 1024 * 1024;

/// Body of a successful response.
#[derive(Debug)]
pub struct ApiResponse {
    body: Bytes,
}

impl ApiResponse {
    /// The body, unchanged.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// When the body has another shape, for example from another service or version.
    pub fn decode<T: DeserializeOwned>(&self) -> Outcome<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let hint = "is it a hotdesk server of this version?";
            format!("cannot parse the server's response: {error}; {hint}").into()
        })
    }
}

/// A complete response of any status.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Status.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    body: Bytes,
    base: String,
}

impl Exchange {
    /// Parses a refusal's body; `None` for a success or another body.
    pub fn refused(&self) -> Option<ErrorBody> {
        serde_json::from_slice(&self.body).ok().filter(|_| !self.status.is_success())
    }

    /// Returns the body of a success.
    ///
    /// # Errors
    /// When the server refused; it has the error text of the server.
    pub fn success(self) -> Outcome<ApiResponse> {
        if self.status.is_success() {
            return Ok(ApiResponse { body: self.body });
        }
        Err(self.refusal())
    }

    /// Describes a refusal.
    pub fn refusal(&self) -> Failure {
        refusal(&self.base, self.status, &self.body).into()
    }
}

/// The API of one server.
pub struct Api {
    http: Client,
    base: Url,
    /// `None` before a sign-in.
    key: Option<Secret>,
}

impl Api {
    /// Prepares a client with a key; sends no request.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(connection: Connection) -> Outcome<Self> {
        Self::keyless(connection.base).map(|api| Self { key: Some(connection.key), ..api })
    }

    /// Prepares a client without a key; sends no request.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn keyless(base: Url) -> Outcome<Self> {
        // The call fails when a provider is already installed; that one is equally good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")));
        if base.scheme() == "http" {
            // Without this, even plain HTTP fails on a host without CA certificates.
            http = http.tls_certs_only([]);
        }
        let http =
            http.build().map_err(|error| format!("cannot set up the HTTP client: {}", cause(error)))?;
        Ok(Self { http, base, key: None })
    }

    /// Returns the URL of a path below the base URL; each segment is percent-encoded.
    pub fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        let encoded: Vec<String> = segments.iter().map(|part| hotdesk_guest::percent_encode(part)).collect();
        url.set_path(&format!("{}/{}", self.base.path(), encoded.join("/")));
        url
    }

    /// Sends a `GET` with a query.
    ///
    /// # Errors
    /// Those of [`Api::send`].
    pub async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        timeout: Duration,
    ) -> Outcome<ApiResponse> {
        let mut request = self.request(Method::GET, self.url(path));
        if !query.is_empty() {
            request = request.query(query);
        }
        self.send(request.timeout(timeout)).await
    }

    /// Sends a request with an optional JSON body.
    ///
    /// # Errors
    /// Those of [`Api::send`].
    pub async fn call<B: Serialize>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&B>,
        timeout: Duration,
    ) -> Outcome<ApiResponse> {
        let mut request = self.request(method, self.url(path)).timeout(timeout);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send(request).await
    }

    /// Returns a request builder; the request carries the key, if any.
    pub fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        }
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    /// When the server is unreachable, the timeout passes, the response is too large, or the server refuses. A refusal
    /// has the error text of the server.
    pub async fn send(&self, request: RequestBuilder) -> Outcome<ApiResponse> {
        let response = self.open(request).await?;
        Ok(ApiResponse { body: self.read(response).await? })
    }

    /// Sends a request and reads the response, whatever its status.
    ///
    /// # Errors
    /// When the server is unreachable, breaks off, the timeout passes, or the response is too large.
    pub async fn exchange(&self, request: RequestBuilder) -> Outcome<Exchange> {
        let response = request.send().await.map_err(|error| self.transport_failure(error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Exchange { status, headers, body: self.read(response).await?, base: self.base.to_string() })
    }

    /// Sends a request whose response has no timeout after its head, and any status.
    ///
    /// # Errors
    /// Those of [`Api::exchange`].
    pub async fn stream(&self, request: RequestBuilder) -> Outcome<Response> {
        let opening = tokio::time::timeout(REQUEST_TIMEOUT, request.send()).await;
        let opened = opening.map_err(|_| format!("{}: the request timed out", self.base))?;
        opened.map_err(|error| self.transport_failure(error))
    }

    /// Reads the rest of a response that [`Api::stream`] opened and that is a refusal.
    pub async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        match self.read(response).await {
            Ok(body) => refusal(self.base.as_str(), status, &body).into(),
            Err(failure) => failure,
        }
    }

    /// Opens a WebSocket channel of a computer with its password.
    ///
    /// # Errors
    /// When the server is unreachable or does not accept the upgrade.
    pub async fn channel(&self, url: Url, password: &str) -> Outcome<WebSocketStream<Upgraded>> {
        self.upgrade(self.http.get(url).bearer_auth(password)).await
    }

    /// Opens a WebSocket with the API key.
    ///
    /// # Errors
    /// Those of [`Api::channel`].
    pub async fn channel_by_key(&self, url: Url) -> Outcome<WebSocketStream<Upgraded>> {
        self.upgrade(self.request(Method::GET, url)).await
    }

    async fn upgrade(&self, request: RequestBuilder) -> Outcome<WebSocketStream<Upgraded>> {
        let key = generate_key();
        let request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
        let request = request.header("sec-websocket-version", "13").header("sec-websocket-key", &key);
        let response = self.stream(request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refusal(response).await);
        }
        let accepted = response.headers().get("sec-websocket-accept");
        if accepted.is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
        {
            return Err(format!("{}: the server does not speak WebSocket", self.base).into());
        }
        let stream = response.upgrade().await.map_err(|error| self.transport_failure(error))?;
        Ok(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    }

    /// Sends a request and returns the head of the response: a success, or an accepted upgrade.
    ///
    /// # Errors
    /// When the server is unreachable or refuses, without a limit of time or size.
    pub async fn open(&self, request: RequestBuilder) -> Outcome<Response> {
        let response = request.send().await.map_err(|error| self.transport_failure(error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        if let Some(to) = response.headers().get(LOCATION).filter(|_| status.is_redirection()) {
            let to = String::from_utf8_lossy(to.as_bytes()).into_owned();
            let base = &self.base;
            let text = format!("{base} redirects to {to}; the key is not sent to another address: use --url");
            return Err(text.into());
        }
        let body = self.read(response).await?;
        Err(refusal(self.base.as_str(), status, &body).into())
    }

    async fn read(&self, mut response: Response) -> Outcome<Bytes> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.transport_failure(error))? {
            if body.len() + chunk.len() > MAX_RESPONSE {
                let limit = MAX_RESPONSE >> 20;
                return Err(
                    format!("{}: the response is larger than the limit of {limit} MiB", self.base).into()
                );
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// Describes a failed exchange with the server.
    pub fn transport_failure(&self, error: reqwest::Error) -> Failure {
        let hint = if error.is_connect() { " (is `hotdesk serve` running there?)" } else { "" };
        format!("{}: {}{hint}", self.base, cause(error)).into()
    }
}

/// Error text of the server, with its error code and request id for a support request.
fn refusal(base: &str, status: StatusCode, body: &[u8]) -> String {
    let (error, code, request) = if let Ok(refused) = serde_json::from_slice::<ErrorBody>(body) {
        (refused.error, refused.code, refused.request_id)
    } else if let Ok(ChatErrorBody { error, .. }) = serde_json::from_slice(body) {
        (error.message, Some(error.code), Some(error.request_id))
    } else {
        return format!("{base} answered {status}");
    };
    let request = request.map(|id| format!("request {id}"));
    let details: Vec<String> = code.into_iter().chain(request).collect();
    if details.is_empty() { error } else { format!("{error} ({})", details.join(", ")) }
}

/// Root cause of a request error. reqwest reports it only as the source; its own text repeats the URL.
fn cause(error: reqwest::Error) -> String {
    if error.is_timeout() {
        return "the request timed out".to_owned();
    }
    let error = error.without_url();
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_error_text_of_the_server() {
        for (body, expected) in [
            (r#"{"error":"Desktop not found","request_id":"r1"}"#, "Desktop not found (request r1)"),
            (
                r#"{"error":"name is taken","code":"NAME_TAKEN","request_id":"r2","x":1}"#,
                "name is taken (NAME_TAKEN, request r2)",
            ),
            (r#"{"error":"no"}"#, "no"),
            (
                r#"{"error":{"type":"t","message":"busy","code":"run_in_progress","request_id":"r3"}}"#,
                "busy (run_in_progress, request r3)",
            ),
            ("<html>", "http://x/api answered 404 Not Found"),
            ("", "http://x/api answered 404 Not Found"),
        ] {
            assert_eq!(refusal("http://x/api", StatusCode::NOT_FOUND, body.as_bytes()), expected);
        }
    }

    #[test]
    fn path_segments_are_encoded() {
        let base = super::super::connection::base("http://x/desk").unwrap();
        let api = Api::new(Connection { base, key: Secret::new("k") }).unwrap();
        assert_eq!(
            api.url(&["computers", "a/../b?c#d"]).as_str(),
            "http://x/desk/api/computers/a%2F..%2Fb%3Fc%23d"
        );
    }
}
