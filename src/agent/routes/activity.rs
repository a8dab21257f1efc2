//! `GET /activity`: is anybody or anything at work?

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::activity::Work;
use hotdesk_http::error_response::Result;
use hotdesk_wire::agent::Activity;

pub(super) fn router(work: Work) -> Router {
    Router::new().route("/activity", get(activity)).with_state(work)
}

async fn activity(State(work): State<Work>) -> Result<Answer<Activity>> {
    Ok(Answer(work.look().await?))
}
