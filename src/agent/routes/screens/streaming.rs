//! `/stream`: how is a screen streamed to an RTMP server over HTTP?

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use crate::stream::Streams;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json;
use hotdesk_wire::action::Done;
use hotdesk_wire::stream::{StreamStarted, StreamStatus, StreamTo};

/// The stream's operations.
pub fn router(streams: Streams) -> Router {
    Router::new()
        .route("/stream/start", post(start))
        .route("/stream/status", get(status))
        .route("/stream/stop", post(stop))
        .with_state(streams)
}

async fn start(
    State(streams): State<Streams>,
    Json(request): Json<StreamTo>,
) -> Result<Answer<StreamStarted>> {
    Ok(Answer(streams.start(request).await?))
}

async fn status(State(streams): State<Streams>) -> Answer<StreamStatus> {
    Answer(streams.status())
}

async fn stop(State(streams): State<Streams>) -> Result<Answer<Done>> {
    streams.stop().await?;
    Ok(Answer(Done { success: true }))
}
