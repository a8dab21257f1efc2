//! HTTP client of S3 buckets.
//!
//! `object_store` has one itself, which brings HTTP/2 into the program and speaks HTTP/1.1 alone by default. This
//! one has no HTTP/2.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};

use super::TIMEOUT;

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maker of the clients of a bucket.
#[derive(Debug)]
pub(super) struct BucketConnector {
    /// Whether connections may be without encryption.
    pub(super) allows_http: bool,
}

impl HttpConnector for BucketConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .https_only(!self.allows_http)
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")))
            .build();
        let failed =
            |error: reqwest::Error| object_store::Error::Generic { store: "S3", source: error.into() };
        Ok(HttpClient::new(BucketClient(client.map_err(failed)?)))
    }
}

/// Client of a bucket.
#[derive(Debug)]
struct BucketClient(reqwest::Client);

#[async_trait]
impl HttpService for BucketClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let request = reqwest::Request::try_from(request.map(request_body)).map_err(convert_error)?;
        let mut response = self.0.execute(request).await.map_err(convert_error)?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = reqwest::Body::from(response).map_err(convert_error);
        let mut answer = HttpResponse::new(HttpResponseBody::new(body));
        (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
        Ok(answer)
    }
}

/// Converts a body; one that is in one piece can be sent again when a kept connection turns out to be closed.
fn request_body(body: HttpRequestBody) -> reqwest::Body {
    match body.as_bytes().cloned() {
        Some(bytes) => reqwest::Body::from(bytes),
        None => reqwest::Body::wrap(body),
    }
}

/// Converts an error. Its kind decides whether the request is repeated. The library adds the address itself.
fn convert_error(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_decode() {
        HttpErrorKind::Decode
    } else if error.is_builder() {
        HttpErrorKind::Unknown
    } else {
        // The server may have got the request: only an idempotent one is repeated.
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error.without_url())
}
