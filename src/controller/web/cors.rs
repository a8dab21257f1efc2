//! CORS headers of public routes.
//!
//! They are on responses that are equal for everybody, or that need no more than what the client itself
//! sends. MCP clients in a browser discover the authorization server with them (RFC 8414 section 3, RFC 9728
//! section 3).

use std::time::Duration;

use axum::http::Method;
use axum::routing::MethodRouter;
use tower_http::cors::{Any, CorsLayer};

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
