//! OAuth 2.1 authorization server for one resource, `{site_url}/mcp`, and its discovery metadata
//! (docs/api/mcp.md).
//!
//! Codes and tokens are opaque, and only their SHA-256 is stored. Each step is one compare-and-set in the
//! database. Clients are public: a client is identified by a URL that describes it, or it registers itself.

use axum::Router;
use axum::routing::{get, post};
use governor::DefaultKeyedRateLimiter;

use crate::AppState;
use crate::identity::auth::rate::per_minute;
use crate::web::cors::allow_any_origin;
use crate::web::origin::Origin;
use crate::web::source::Source;
use hotdesk_http::guarded_fetch::GuardedFetcher;
use hotdesk_store::Store;

mod answer;
mod authorization_request;
mod authorize;
pub mod challenge;
mod clients;
mod consent;
mod discovery;
mod register;
mod revoke;
mod token;
pub mod tokens;

/// Registrations of one client address in a minute. A client registers once. All clients behind an untrusted
/// proxy share the limit.
const REGISTRATIONS: u32 = 20;
/// Client documents that are fetched for one client address in a minute. Cached documents do not count.
const FETCHES: u32 = 30;

/// Authorization server: its clients and its authorization requests.
#[derive(Debug)]
pub struct AuthorizationServer {
    store: Store,
    documents: clients::Documents,
    fetches: DefaultKeyedRateLimiter<Source>,
    registrations: DefaultKeyedRateLimiter<Source>,
}

impl AuthorizationServer {
    /// Creates a server that fetches client documents with `guarded`.
    pub fn new(store: Store, guarded: GuardedFetcher) -> Self {
        Self {
            store,
            documents: clients::Documents::new(guarded),
            fetches: DefaultKeyedRateLimiter::keyed(per_minute(FETCHES)),
            registrations: DefaultKeyedRateLimiter::keyed(per_minute(REGISTRATIONS)),
        }
    }

    /// Removes the rate limit entries of idle client addresses.
    pub fn sweep(&self) {
        self.fetches.retain_recent();
        self.registrations.retain_recent();
    }
}

/// Returns the routes. They are described by RFC 8414 metadata, not by the OpenAPI document.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/oauth/token", allow_any_origin(post(token::exchange)))
        .route("/oauth/revoke", allow_any_origin(post(revoke::revoke)))
        .route("/oauth/register", allow_any_origin(post(register::register)))
        // It uses a person's cookie, so other origins cannot read it.
        .route("/oauth/authorize", get(authorize::show).post(authorize::decide))
        .merge(discovery::router())
}

/// Returns the resource that tokens are for.
fn resource(site: &Origin) -> String {
    format!("{}/mcp", site.0)
}
