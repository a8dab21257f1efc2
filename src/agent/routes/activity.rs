//! `GET /activity`: is anybody or anything at work?

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::agent::activity::Work;
use crate::domain::error::Result;
use crate::wire::agent::Activity;

pub(super) fn router(work: Work) -> Router {
    Router::new().route("/activity", get(activity)).with_state(work)
}

async fn activity(State(work): State<Work>) -> Result<Answer<Activity>> {
    work.look().await.map(Answer)
}
