//! Routes `/recordings`: recordings of screens.

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use crate::media::recording::Recordings;
use crate::media::recording::store::RecordingFile;
use crate::routes::files::content::serve;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::recording::{Recording, RecordingList, StartRecording};

/// Routes of the recordings.
pub fn router(recordings: Recordings) -> Router {
    Router::new()
        .route("/recordings", get(list).post(start))
        .route("/recordings/{id}", get(record).delete(delete))
        .route("/recordings/{id}/stop", post(stop))
        .route(
            "/recordings/{id}/video",
            get(|state, path, method, headers| file(RecordingFile::Video, state, path, method, headers)),
        )
        .route(
            "/recordings/{id}/timeline",
            get(|state, path, method, headers| file(RecordingFile::Timeline, state, path, method, headers)),
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

async fn delete(
    State(recordings): State<Recordings>,
    Path(id): Path<String>,
) -> Result<Answer<Acknowledgement>> {
    recordings.delete(&id).await?;
    Ok(Answer(Acknowledgement { success: true }))
}

/// Serves a file of a recording, with `HEAD` and ranges.
async fn file(
    part: RecordingFile,
    State(recordings): State<Recordings>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response> {
    serve(recordings.content(&id, part).await?, &method, &headers).await
}
