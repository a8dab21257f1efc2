//! For those who pay, and for those for whom they do: plans, capacity, clients, agents' accounts.

use utoipa_axum::router::OpenApiRouter;

use crate::Shared;

mod agents;
mod capacity;
mod clients;
mod usage;
mod webhook;

/// The routes of accounts.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(capacity::router())
        .merge(clients::router())
        .merge(usage::router())
        .merge(agents::router())
        .merge(webhook::router())
}
