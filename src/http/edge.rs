//! Middleware of every request: request id, header checks, panic handler, error bodies, access log.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::error_response::{self, CarriedError, HttpError};
use super::serve::MAX_HEADER_BYTES;
use super::unread_body::{self, SkipDrain};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::Error;

/// The header that names a request, in every response.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of the request, as a request extension for handlers.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Adds JSON responses to unknown paths and methods. For a router whose own layers must see those requests,
/// before it adds [`pass`] as the outermost.
pub fn fallbacks<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .fallback(|| async { HttpError(Error::not_found("Not found")) })
        .method_not_allowed_fallback(method_not_allowed)
}

/// The response to an unknown method, for routes whose own layers must see such requests.
pub async fn method_not_allowed() -> Response {
    let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
    // Only the text of this error is used: the status is set, and axum adds `Allow`.
    let error = Error::invalid("Method not allowed");
    response.extensions_mut().insert(CarriedError(error.into()));
    response
}

/// The outermost middleware.
pub async fn pass(mut request: Request, next: Next) -> Response {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let started = Instant::now();
    let method = request.method().clone();
    // The log has the route, because paths can be secret (claim links) and queries can hold tokens
    // (docs/security.md). The audit log names the computer under the same request id.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    request.extensions_mut().insert(RequestId(id.clone()));
    let tasks = request.extensions().get::<Tasks>().cloned();
    let (mut request, unread) = unread_body::track(request);
    let response = match check_header(&mut request) {
        Err(error) => HttpError(error).into_response(),
        Ok(()) => AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            HttpError(Error::internal(format!("handler panicked: {text}"))).into_response()
        }),
    };
    if response.extensions().get::<SkipDrain>().is_none()
        && let Some(rest) = unread.rest()
    {
        match tasks {
            Some(tasks) => drop(tasks.spawn("drain", unread_body::drain(rest))),
            None => unread_body::drain(rest).await,
        }
    }
    let mut response = finish(response, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    tracing::debug!(request_id = id, %method, route, status = response.status().as_u16(),
        ms = started.elapsed().as_secs_f64() * 1000.0, "answered");
    response
}

/// Writes the body of an error that a handler or the router returned, and logs its internal context once.
fn finish(mut response: Response, id: &str) -> Response {
    let Some(CarriedError(error)) = response.extensions_mut().remove::<CarriedError>() else {
        return response;
    };
    let status = response.status();
    error_response::log(&error, id);
    let mut rendered = error_response::render(&error, id);
    *rendered.status_mut() = status;
    for (name, value) in response.headers() {
        // A handler may have set a more detailed `WWW-Authenticate`.
        let already_set = rendered.headers().contains_key(name) && name != header::WWW_AUTHENTICATE;
        if name != header::CONTENT_LENGTH && name != header::CONTENT_TYPE && !already_set {
            rendered.headers_mut().insert(name.clone(), value.clone());
        }
    }
    rendered
}

/// Rejects a request without exactly one Host field (RFC 9112 section 3.2), and a header above
/// [`MAX_HEADER_BYTES`]. hyper accepts any number of Host fields, and headers of up to twice that size.
///
/// The host of a target in absolute form replaces the Host field (RFC 9112 section 3.2.2).
fn check_header(request: &mut Request) -> Result<(), Error> {
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if path + fields.sum::<usize>() > MAX_HEADER_BYTES {
        return Err(Error::invalid(format!("the request header is larger than {MAX_HEADER_BYTES} bytes")));
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(_), None) = (hosts.next().filter(|host| !host.is_empty()), hosts.next()) else {
        return Err(Error::invalid("exactly one Host header is needed"));
    };
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str()).map_err(Error::internal)?;
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(())
}
