//! Route `GET /timeline`: the newest actions on the screens, for the controller.

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::media::timeline::Timelines;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_wire::agent::timeline::{GuestTimeline, GuestTimelineQuery};

/// Route of the timelines.
pub fn router(timelines: Timelines) -> Router {
    Router::new().route("/timeline", get(read)).with_state(timelines)
}

async fn read(
    State(timelines): State<Timelines>,
    Query(query): Query<GuestTimelineQuery>,
) -> Result<Answer<GuestTimeline>> {
    Ok(Answer(timelines.read(&query).await))
}
