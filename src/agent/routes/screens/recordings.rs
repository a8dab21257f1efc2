//! `/recordings`: how are screens recorded over HTTP?

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use super::files::content::serve;
use crate::recording::Recordings;
use crate::recording::shelf::Part;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path};
use hotdesk_wire::action::Done;
use hotdesk_wire::recording::{Recording, RecordingList, StartRecording};

/// The recordings' operations.
pub fn router(recordings: Recordings) -> Router {
    Router::new()
        .route("/recordings", get(list).post(start))
        .route("/recordings/{id}", get(record).delete(delete))
        .route("/recordings/{id}/stop", post(stop))
        .route(
            "/recordings/{id}/video",
            get(|state, path, method, asked| file(Part::Video, state, path, method, asked)),
        )
        .route(
            "/recordings/{id}/timeline",
            get(|state, path, method, asked| file(Part::Timeline, state, path, method, asked)),
        )
        .with_state(recordings)
}

async fn list(State(recordings): State<Recordings>) -> Answer<RecordingList> {
    Answer(RecordingList { recordings: recordings.list() })
}

async fn start(
    State(recordings): State<Recordings>,
    Json(request): Json<StartRecording>,
) -> Result<(StatusCode, Answer<Recording>)> {
    Ok((StatusCode::CREATED, Answer(recordings.start(request).await?)))
}

async fn record(State(recordings): State<Recordings>, Path(id): Path<String>) -> Result<Answer<Recording>> {
    Ok(Answer(recordings.find(&id)?))
}

async fn stop(State(recordings): State<Recordings>, Path(id): Path<String>) -> Result<Answer<Recording>> {
    Ok(Answer(recordings.stop(&id).await?))
}

async fn delete(State(recordings): State<Recordings>, Path(id): Path<String>) -> Result<Answer<Done>> {
    recordings.delete(&id).await?;
    Ok(Answer(Done { success: true }))
}

/// Also `HEAD`, and ranges.
async fn file(
    part: Part,
    State(recordings): State<Recordings>,
    Path(id): Path<String>,
    method: Method,
    asked: HeaderMap,
) -> Result<Response> {
    serve(recordings.content(&id, part).await?, &method, &asked).await
}
