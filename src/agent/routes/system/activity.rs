//! Route `GET /activity`: idle time of the computer and reasons against its suspension.

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::state::activity::ActivitySources;
use hotdesk_http::error_response::Result;
use hotdesk_wire::agent::Activity;

pub fn router(sources: ActivitySources) -> Router {
    Router::new().route("/activity", get(activity)).with_state(sources)
}

async fn activity(State(sources): State<ActivitySources>) -> Result<Answer<Activity>> {
    Ok(Answer(sources.read().await?))
}
