//! Which answers may a page of any site read? What is the same for everybody, and what is asked for with no more than the client
//! shows itself: MCP clients that run in a browser find out by these how to get in (RFC 8414 section 3, RFC 9728 section 3).

use std::time::Duration;

use axum::http::Method;
use axum::routing::MethodRouter;
use tower_http::cors::{Any, CorsLayer};

use hotdesk_http::edge;

/// How long a browser may keep the answer to its preflight: nothing here ever says another thing.
const KEPT: Duration = Duration::from_secs(600);

/// Lets every page read the answers of a route, refusals of its methods too, and answers preflights (the Fetch standard, "CORS protocol"). The star goes
/// with no cookie, so it is for no page of a signed-in person, and never for `/oauth/authorize` (access.md A65).
pub fn by_any_page<S: Clone + Send + Sync + 'static>(route: MethodRouter<S>) -> MethodRouter<S> {
    let pages = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(Any)
        .expose_headers(Any)
        .max_age(KEPT);
    // Else the router would put its own in place of what the layer has seen.
    route.fallback(edge::method_not_allowed).layer(pages)
}
