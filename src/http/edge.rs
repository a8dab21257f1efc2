//! What does every request pass on its way in and out? Request id, Host check, panic guard, error bodies, access log.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::error_response::{self, CarriedError, HttpError};
use super::leftover::{self, Abandoned};
use super::serve::MAX_HEADER_BYTES;
use hotdesk_domain::error::Error;

/// The header that names a request, in every response.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of the request being answered, for handlers that must tell it.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Wraps a whole router: unknown paths and methods answer in JSON, and every response passes [`pass`].
pub fn wrap<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    fallbacks(router).layer(axum::middleware::from_fn(pass))
}

/// Only the JSON answers to unknown paths and methods: for a router whose own layers must see those requests too,
/// before it adds [`pass`] as the outermost.
pub fn fallbacks<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .fallback(|| async { HttpError(Error::not_found("Not found")) })
        .method_not_allowed_fallback(method_not_allowed)
}

/// The answer to an unknown method; named by a route whose own layers must see that too.
pub async fn method_not_allowed() -> Response {
    let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
    // The kind only supplies the text: the status stands already, and axum adds `Allow`.
    let error = Error::invalid("Method not allowed");
    response.extensions_mut().insert(CarriedError(error.into()));
    response
}

/// The outermost middleware.
pub async fn pass(mut request: Request, next: Next) -> Response {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let started = Instant::now();
    let method = request.method().clone();
    // The route, for a path may be a secret (a claim link is), and queries may hold tokens (threats.md, trap 3). The audit log
    // tells by the same request id which computer it was about.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    request.extensions_mut().insert(RequestId(id.clone()));
    let (request, leftover) = leftover::keep(request);
    let response = match check_header(&request) {
        Err(error) => HttpError(error).into_response(),
        Ok(()) => AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            HttpError(Error::internal(format!("handler panicked: {text}"))).into_response()
        }),
    };
    if response.extensions().get::<Abandoned>().is_none() {
        leftover.swallow().await;
    }
    let mut response = finish(response, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    tracing::debug!(request_id = id, %method, route, status = response.status().as_u16(),
        ms = started.elapsed().as_secs_f64() * 1000.0, "answered");
    response
}

/// Writes the body of a failure that a handler or the router left open, and logs its inside context once.
fn finish(mut response: Response, id: &str) -> Response {
    let Some(CarriedError(error)) = response.extensions_mut().remove::<CarriedError>() else {
        return response;
    };
    let status = response.status();
    error_response::log(&error, id);
    let mut rendered = error_response::render(&error, id);
    *rendered.status_mut() = status;
    for (name, value) in response.headers() {
        // Who refused may know more of how to authenticate than the scheme.
        let said = rendered.headers().contains_key(name) && name != header::WWW_AUTHENTICATE;
        if name != header::CONTENT_LENGTH && name != header::CONTENT_TYPE && !said {
            rendered.headers_mut().insert(name.clone(), value.clone());
        }
    }
    rendered
}

/// RFC 9112 section 3.2: a request with no Host field, or more than one, is answered 400 (hyper lets both through). So
/// is a header past [`MAX_HEADER_BYTES`], of which hyper lets up to twice as much through.
fn check_header(request: &Request) -> Result<(), Error> {
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if path + fields.sum::<usize>() > MAX_HEADER_BYTES {
        return Err(Error::invalid(format!("the request header is larger than {MAX_HEADER_BYTES} bytes")));
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if !host.is_empty() => Ok(()),
        _ => Err(Error::invalid("exactly one Host header is needed")),
    }
}
