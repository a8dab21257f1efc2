//! Route `GET /events`: catalogue of the event types.

use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::state::Agent;
use hotdesk_wire::desktop::event::Catalogue;

/// Route of the catalogue.
pub fn router() -> Router<Agent> {
    Router::new().route("/events", get(async || Answer(Catalogue::current())))
}
