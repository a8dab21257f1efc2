//! CORS headers: for pages of any origin on public routes, and for pages of `web.allowed_origins` on the API.
//!
//! Public routes send what is equal for everybody, or need no more than what the client itself sends. MCP
//! clients in a browser discover the authorization server with them (RFC 8414 section 3, RFC 9728 section 3).
//! No response allows credentials, so pages authenticate by a key in a header and never by cookies.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use tower_http::cors::{Any, CorsLayer};

use crate::AppState;
use hotdesk_http::edge;

/// How long a browser caches a preflight response. The response never changes.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(600);

/// Allows pages of every origin to read a route's responses, including its 405, and answers preflights (Fetch
/// standard, "CORS protocol").
///
/// The wildcard origin excludes cookies. It is never on pages of signed-in people, nor on `/oauth/authorize`,
/// A65 (docs/authentication-rules.md).
pub fn allow_any_origin<S: Clone + Send + Sync + 'static>(route: MethodRouter<S>) -> MethodRouter<S> {
    let pages = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(Any)
        .expose_headers(Any)
        .max_age(PREFLIGHT_MAX_AGE);
    // Without this the router's own fallback would bypass the layer.
    route.fallback(edge::method_not_allowed).layer(pages)
}

/// Middleware that allows pages of `web.allowed_origins` to read a route's responses, and answers their
/// preflights.
pub async fn allow_listed_origins(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let page = app.hosts.allowed_page(request.headers()).cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match page {
        Some(_) if is_preflight => StatusCode::NO_CONTENT.into_response(),
        _ => next.run(request).await,
    };
    if !app.hosts.origins().is_empty() {
        // A cache must not serve a page what it stored for a request without an origin.
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(page) = page {
        allow_page(response.headers_mut(), page);
    }
    response
}

/// Adds the CORS fields for an allowed origin (Fetch standard, "CORS protocol").
pub fn allow_page(headers: &mut HeaderMap, page: HeaderValue) {
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE"),
        // The wildcard does not include `authorization`.
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, *"),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "*"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
}
