//! Routes `/stream/...`: RTMP streaming of a screen.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use crate::media::stream::Streams;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::stream::{StreamStarted, StreamStatus, StreamTo};

/// Routes of the stream.
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

async fn stop(State(streams): State<Streams>) -> Result<Answer<Acknowledgement>> {
    streams.stop().await?;
    Ok(Answer(Acknowledgement { success: true }))
}
