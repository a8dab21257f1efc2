//! Recordings of a computer's screens over HTTP. The agent makes and stores them.

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use crate::relay::transfer::{TransferRules, transfer};
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::recording::{Recording, RecordingList, StartRecording, TimelineEntry};
use hotdesk_wire::error::ErrorBody;

/// Returns the routes of recordings.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(start, list))
        .routes(routes!(record, delete))
        .routes(routes!(stop))
        .routes(routes!(video))
        .routes(routes!(timeline))
}

/// Starts to record a screen as a video, with a timeline of the actions on it.
///
/// A screen has one recording at a time (409 `already_recording`). 409 `no_encoder`: the computer has no
/// ffmpeg. All recordings of a computer use at most 1 GiB of its disk; the oldest completed ones are removed
/// first.
#[utoipa::path(post, path = "/computers/{id}/recordings", tag = "recordings", params(("id" = String, Path)),
    request_body = StartRecording,
    responses((status = 201, description = "The recording has started", body = Recording)))]
async fn start(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(body): Body<StartRecording>,
) -> Result<(StatusCode, Json<Recording>)> {
    let made =
        forward(&app, &caller, &id, Method::POST, "/recordings", (), Some(&body), QUICK_TIMEOUT).await?;
    Ok((StatusCode::CREATED, made))
}

/// Lists the recordings of a computer's screens.
#[utoipa::path(get, path = "/computers/{id}/recordings", tag = "recordings", params(("id" = String, Path)),
    responses((status = 200, description = "The recordings, oldest first", body = RecordingList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<RecordingList>> {
    forward(&app, &caller, &id, Method::GET, "/recordings", (), None::<&()>, QUICK_TIMEOUT).await
}

/// Returns a recording.
#[utoipa::path(get, path = "/computers/{id}/recordings/{recording_id}", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)),
    responses((status = 200, description = "The recording", body = Recording)))]
async fn record(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, recording)): Path<(String, String)>,
) -> Result<Json<Recording>> {
    forward(&app, &caller, &id, Method::GET, &path(&recording, ""), (), None::<&()>, QUICK_TIMEOUT).await
}

/// Ends a recording. A completed one stays unchanged.
#[utoipa::path(post, path = "/computers/{id}/recordings/{recording_id}/stop", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)),
    responses((status = 200, description = "The recording has ended", body = Recording)))]
async fn stop(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, recording)): Path<(String, String)>,
) -> Result<Json<Recording>> {
    forward(&app, &caller, &id, Method::POST, &path(&recording, "/stop"), (), None::<&()>, QUICK_TIMEOUT)
        .await
}

/// Deletes a recording. It is ended first if necessary.
#[utoipa::path(delete, path = "/computers/{id}/recordings/{recording_id}", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)),
    responses((status = 200, description = "The recording was deleted", body = Acknowledgement)))]
async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, recording)): Path<(String, String)>,
) -> Result<Json<Acknowledgement>> {
    forward(&app, &caller, &id, Method::DELETE, &path(&recording, ""), (), None::<&()>, QUICK_TIMEOUT).await
}

/// Returns the video of a recording: H.264 in MP4, complete or one range.
///
/// For a recording in progress it is what was written so far.
#[utoipa::path(get, path = "/computers/{id}/recordings/{recording_id}/video", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)), responses(
        (status = 200, description = "The video", body = String, content_type = "video/mp4"),
        (status = 206, description = "The range", body = String, content_type = "video/mp4"),
        (status = 304, description = "The client has the current version (`If-None-Match`)"),
        (status = 416, description = "The video ends before the range", body = ErrorBody)))]
async fn video(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, recording)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, &path(&recording, "/video"), TransferRules::DOWNLOAD, request).await
}

/// Returns the actions on the screen while it was recorded: one `TimelineEntry` per line.
#[utoipa::path(get, path = "/computers/{id}/recordings/{recording_id}/timeline", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)), responses(
        (status = 200, description = "The timeline",
        body = TimelineEntry, content_type = "application/x-ndjson"),
        (status = 206, description = "The range", body = String, content_type = "application/x-ndjson"),
        (status = 304, description = "The client has the current version (`If-None-Match`)"),
        (status = 416, description = "The timeline ends before the range", body = ErrorBody)))]
async fn timeline(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, recording)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, &path(&recording, "/timeline"), TransferRules::DOWNLOAD, request).await
}

fn path(recording: &str, rest: &str) -> String {
    format!("/recordings/{}{rest}", percent_encode(recording))
}
