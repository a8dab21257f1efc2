//! `GET /events`: which events can be subscribed to?

use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::state::Agent;
use hotdesk_wire::event::Catalogue;

/// The catalogue's route.
pub fn router() -> Router<Agent> {
    Router::new().route("/events", get(async || Answer(Catalogue::current())))
}
