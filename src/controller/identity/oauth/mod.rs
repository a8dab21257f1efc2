//! How do MCP clients get in? An OAuth 2.1 authorization server for one resource, `{site_url}/mcp`, and what is said about it where
//! programs look (interface.md "Browser authorization for the MCP endpoint", "Discovery metadata").
//!
//! Codes and tokens are opaque and kept as SHA-256 only; every step is one compare-and-set in the store. Clients are public: they
//! are known by a URL that describes them, or registered themselves.

use axum::Router;
use axum::routing::{get, post};
use governor::DefaultKeyedRateLimiter;

use super::Shared;
use super::auth::rate::per_minute;
use super::auth::source::Source;
use super::origin::Origin;
use super::readable::by_any_page;
use hotdesk_http::guarded::Guarded;

mod answer;
mod authorize;
pub mod challenge;
mod clients;
mod consent;
mod discovery;
mod register;
mod revoke;
mod token;
pub mod tokens;

/// Registrations of one source in a minute: a client does it once. Behind a proxy that is not trusted all share them.
const REGISTRATIONS: u32 = 20;
/// Client documents that one source may have fetched in a minute; those that are kept do not count.
const FETCHES: u32 = 30;

/// What is remembered of clients beside the store.
#[derive(Debug)]
pub struct Room {
    documents: clients::Documents,
    fetches: DefaultKeyedRateLimiter<Source>,
    registrations: DefaultKeyedRateLimiter<Source>,
}

impl Room {
    /// An empty one that fetches by this.
    pub fn new(guarded: Guarded) -> Self {
        Self {
            documents: clients::Documents::new(guarded),
            fetches: DefaultKeyedRateLimiter::keyed(per_minute(FETCHES)),
            registrations: DefaultKeyedRateLimiter::keyed(per_minute(REGISTRATIONS)),
        }
    }

    /// Forgets the sources that are quiet.
    pub fn sweep(&self) {
        self.fetches.retain_recent();
        self.registrations.retain_recent();
    }
}

/// Its routes. None is part of the documented API: RFC 8414's metadata describes them.
pub fn router() -> Router<Shared> {
    Router::new()
        .route("/oauth/token", by_any_page(post(token::exchange)))
        .route("/oauth/revoke", by_any_page(post(revoke::revoke)))
        .route("/oauth/register", by_any_page(post(register::register)))
        // A person's, with its cookie: no page but ours reads it.
        .route("/oauth/authorize", get(authorize::ask).post(authorize::decide))
        .merge(discovery::router())
}

/// The resource that tokens are for.
fn resource(site: &Origin) -> String {
    format!("{}/mcp", site.0)
}
