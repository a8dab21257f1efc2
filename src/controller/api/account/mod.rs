//! Plans, capacity, clients, agents' accounts, billing events and the host over HTTP.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

mod agents;
mod capacity;
mod clients;
mod host;
mod usage;
mod webhook;
mod webhook_secret;

/// Returns the routes of accounts.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(capacity::router())
        .merge(clients::router())
        .merge(usage::router())
        .merge(agents::router())
        .merge(webhook::router())
        .merge(webhook_secret::router())
        .merge(host::router())
}
