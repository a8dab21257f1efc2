//! How are programs started over HTTP?

use axum::extract::State;
use axum::routing::post;
use axum::{Json as Answer, Router};

use crate::agent::programs::Programs;
use crate::domain::error::Result;
use crate::http::extract::{Json, Query};
use crate::wire::action::ScreenQuery;
use crate::wire::program::{Launch, Launched};

/// The programs' operation.
pub fn router(programs: Programs) -> Router {
    Router::new().route("/launch", post(launch)).with_state(programs)
}

async fn launch(
    State(programs): State<Programs>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Launch>,
) -> Result<Answer<Launched>> {
    programs.launch(query.screen.as_deref(), body).await.map(Answer)
}
