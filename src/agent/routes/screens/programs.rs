//! Route `POST /launch`: start of a desktop program.

use axum::extract::State;
use axum::routing::post;
use axum::{Json as Answer, Router};

use crate::programs::Programs;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Query};
use hotdesk_wire::desktop::action::ScreenQuery;
use hotdesk_wire::programs::program::{Launch, LaunchResult};

/// Routes of the programs.
pub fn router(programs: Programs) -> Router {
    Router::new().route("/launch", post(launch)).with_state(programs)
}

async fn launch(
    State(programs): State<Programs>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Launch>,
) -> Result<Answer<LaunchResult>> {
    Ok(Answer(programs.launch(query.screen.as_deref(), body).await?))
}
