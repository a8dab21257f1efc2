//! How does a request go? With the key, to one server only, bounded in time and size; a refusal becomes a sentence.

use std::error::Error as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::LOCATION;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::Connection;
use crate::failure::{Failure, Outcome};
use hotdesk_base::secret::Secret;
use hotdesk_wire::error::ErrorBody;

/// How long the server may take for what it answers from memory. Actions wait there for a computer that is on its way
/// up, so this is more than a moment.
pub const QUICK: Duration = Duration::from_secs(60);
/// How long a create may take: the first one on a cold host copies an image, a boot may take three minutes, and
/// one may wait for its turn to boot.
pub const CREATE: Duration = Duration::from_secs(420);
/// How long connecting may take: two lost SYNs and their repeats.
const CONNECT: Duration = Duration::from_secs(10);
/// Largest answer that is kept in memory: an 8K screenshot of noise is 100 MB as PNG, 133 MB as base64.
const MAX_ANSWER: usize = 160 * 1024 * 1024;

/// A successful answer.
#[derive(Debug)]
pub struct Answer {
    body: Bytes,
}

impl Answer {
    /// Its body as it came.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is not what this command expects: another service, or another version.
    pub fn decode<T: DeserializeOwned>(&self) -> Outcome<T> {
        serde_json::from_slice(&self.body)
            .map_err(|error| format!("the server's answer is not understood: {error}").into())
    }
}

/// The API of one server.
pub struct Api {
    http: Client,
    base: Url,
    /// Nobody has one before a sign-in.
    key: Option<Secret>,
}

impl Api {
    /// Prepares requests; sends none.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(connection: Connection) -> Outcome<Self> {
        Self::keyless(connection.base).map(|api| Self { key: Some(connection.key), ..api })
    }

    /// As [`Api::new`], for what needs no key.
    ///
    /// # Errors
    /// As that.
    pub fn keyless(base: Url) -> Outcome<Self> {
        // Someone else's provider, installed before, serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut http = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")));
        if base.scheme() == "http" {
            // Without this a host that has no CA certificates could not even speak plain HTTP.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|error| format!("HTTP client: {}", told(error)))?;
        Ok(Self { http, base, key: None })
    }

    /// The address of a path below the API's base; every segment is encoded.
    pub fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        let encoded: Vec<String> = segments.iter().map(|part| hotdesk_guest::percent_encode(part)).collect();
        url.set_path(&format!("{}/{}", self.base.path(), encoded.join("/")));
        url
    }

    /// `GET` with a query.
    ///
    /// # Errors
    /// As [`Api::send`].
    pub async fn get(&self, path: &[&str], query: &[(&str, &str)], patience: Duration) -> Outcome<Answer> {
        let mut request = self.request(Method::GET, self.url(path));
        if !query.is_empty() {
            request = request.query(query);
        }
        self.send(request.timeout(patience)).await
    }

    /// Any method with a JSON body or none.
    ///
    /// # Errors
    /// As [`Api::send`].
    pub async fn call<B: Serialize>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&B>,
        patience: Duration,
    ) -> Outcome<Answer> {
        let mut request = self.request(method, self.url(path)).timeout(patience);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send(request).await
    }

    /// A request with the key, if there is one, to be completed.
    pub fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        }
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// When the server is not reached in time or refuses, in its own words.
    pub async fn send(&self, request: RequestBuilder) -> Outcome<Answer> {
        let response = self.open(request).await?;
        Ok(Answer { body: self.read(response).await? })
    }

    /// Opens a stored file by its link. The link's host is what the server takes itself to be; asked is the server that
    /// the user named, and without the key: the link carries its own permission.
    ///
    /// # Errors
    /// When it is no such link, or as [`Api::send`].
    pub async fn open_link(&self, link: &str) -> Outcome<Response> {
        let not_understood = || format!("the server's link is not understood: {link}");
        let parsed: Url = link.parse().map_err(|_| not_understood())?;
        let (_, stored) = parsed.path().split_once("/storage/").ok_or_else(not_understood)?;
        let mut url = self.base.clone();
        url.set_path(&format!("{}/storage/{stored}", self.base.path()));
        url.set_query(parsed.query());
        // Only for the head of the answer: the body takes as long as it is large.
        let opening = tokio::time::timeout(QUICK, self.open(self.http.get(url)));
        opening.await.map_err(|_| format!("{}: no answer in time", self.base))?
    }

    /// Sends a request; a refusal is read and told.
    async fn open(&self, request: RequestBuilder) -> Outcome<Response> {
        let response = request.send().await.map_err(|error| self.unreached(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if let Some(to) = response.headers().get(LOCATION).filter(|_| status.is_redirection()) {
            let to = String::from_utf8_lossy(to.as_bytes()).into_owned();
            let text = format!("{} redirects to {to}; a key is not sent elsewhere: use --url", self.base);
            return Err(text.into());
        }
        let body = self.read(response).await?;
        Err(refused(self.base.as_str(), status, &body).into())
    }

    async fn read(&self, mut response: Response) -> Outcome<Bytes> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreached(error))? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(format!("the answer is larger than {} MiB", MAX_ANSWER >> 20).into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// What a failed exchange says about the server.
    pub fn unreached(&self, error: reqwest::Error) -> Failure {
        let hint = if error.is_connect() { " (does `hotdesk serve` run there?)" } else { "" };
        format!("{}: {}{hint}", self.base, told(error)).into()
    }
}

/// The server's own words, with what to quote when asking somebody about it.
fn refused(base: &str, status: StatusCode, body: &[u8]) -> String {
    let Ok(said) = serde_json::from_slice::<ErrorBody>(body) else {
        return format!("{base} answered {status}");
    };
    let request = said.request_id.map(|id| format!("request {id}"));
    let details: Vec<String> = said.code.into_iter().chain(request).collect();
    if details.is_empty() { said.error } else { format!("{} ({})", said.error, details.join(", ")) }
}

/// reqwest tells a cause only as the source of an error. Its own text would repeat the URL.
fn told(error: reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let error = error.without_url();
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_server_s_words() {
        for (body, expected) in [
            (r#"{"error":"Desktop not found","request_id":"r1"}"#, "Desktop not found (request r1)"),
            (
                r#"{"error":"name is taken","code":"NAME_TAKEN","request_id":"r2","x":1}"#,
                "name is taken (NAME_TAKEN, request r2)",
            ),
            (r#"{"error":"no"}"#, "no"),
            ("<html>", "http://x/api answered 404 Not Found"),
            ("", "http://x/api answered 404 Not Found"),
        ] {
            assert_eq!(refused("http://x/api", StatusCode::NOT_FOUND, body.as_bytes()), expected);
        }
    }

    #[test]
    fn no_segment_leaves_its_place() {
        let base = super::super::connection::base("http://x/desk").unwrap();
        let api = Api::new(Connection { base, key: Secret::new("k") }).unwrap();
        assert_eq!(
            api.url(&["computers", "a/../b?c#d"]).as_str(),
            "http://x/desk/api/computers/a%2F..%2Fb%3Fc%23d"
        );
    }
}
