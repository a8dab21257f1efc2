//! Plans, capacity, clients, agents' accounts, billing events, the host, and hosts of computers over HTTP.

use crate::api::api_router::ApiRouter;

mod agents;
mod capacity;
mod clients;
mod gone_hosts;
mod host;
mod hosts;
mod usage;
mod webhook;
mod webhook_secret;

/// Returns the routes of accounts.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(capacity::router())
        .merge(clients::router())
        .merge(usage::router())
        .merge(agents::router())
        .merge(webhook::router())
        .merge(webhook_secret::router())
        .merge(host::router())
        .merge(gone_hosts::router())
        .merge(hosts::router())
}
