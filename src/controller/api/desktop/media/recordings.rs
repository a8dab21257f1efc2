//! Recordings of a computer's screens over HTTP: made, kept and sent by its agent.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forward;
use crate::Shared;
use crate::relay::transfer::{Crossing, transfer};
use hotdesk_guest::{QUICK, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::action::Done;
use hotdesk_wire::error::ErrorBody;
use hotdesk_wire::recording::{Recording, RecordingList, StartRecording, TimelineEntry};

/// What of a file's request and answer crosses.
const FILE: Crossing = Crossing {
    asked: &["range", "if-range", "if-none-match"],
    answered: &[
        "accept-ranges",
        "content-disposition",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "last-modified",
    ],
    sized: true,
};

/// The routes of recordings.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start, list))
        .routes(routes!(record, delete))
        .routes(routes!(stop))
        .routes(routes!(video))
        .routes(routes!(timeline))
}

/// Begins to record a screen as a video, with a timeline of what is done on it. One recording at a time per screen
/// (409 `already_recording`); 409 `no_encoder` where the computer has no ffmpeg. All recordings of a computer take at
/// most 1 GiB of its disk: the oldest that have ended are removed first.
#[utoipa::path(post, path = "/computers/{id}/recordings", tag = "recordings", params(("id" = String, Path)),
    request_body = StartRecording, responses((status = 201, description = "It records", body = Recording)))]
async fn start(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(body): Body<StartRecording>,
) -> Result<(StatusCode, Json<Recording>)> {
    let made = forward(&app, &caller, &id, Method::POST, "/recordings", (), Some(&body), QUICK).await?;
    Ok((StatusCode::CREATED, made))
}

/// The recordings of a computer's screens.
#[utoipa::path(get, path = "/computers/{id}/recordings", tag = "recordings", params(("id" = String, Path)),
    responses((status = 200, description = "Oldest first", body = RecordingList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<RecordingList>> {
    forward(&app, &caller, &id, Method::GET, "/recordings", (), None::<&()>, QUICK).await
}

/// How a recording is.
#[utoipa::path(get, path = "/computers/{id}/recordings/{recording_id}", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)),
    responses((status = 200, description = "Its record", body = Recording)))]
async fn record(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, recording)): Path<(String, String)>,
) -> Result<Json<Recording>> {
    forward(&app, &caller, &id, Method::GET, &path(&recording, ""), (), None::<&()>, QUICK).await
}

/// Ends a recording. One that has ended stays as it is.
#[utoipa::path(post, path = "/computers/{id}/recordings/{recording_id}/stop", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)),
    responses((status = 200, description = "It has ended", body = Recording)))]
async fn stop(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, recording)): Path<(String, String)>,
) -> Result<Json<Recording>> {
    forward(&app, &caller, &id, Method::POST, &path(&recording, "/stop"), (), None::<&()>, QUICK).await
}

/// Ends a recording if it goes on, and removes it.
#[utoipa::path(delete, path = "/computers/{id}/recordings/{recording_id}", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn delete(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, recording)): Path<(String, String)>,
) -> Result<Json<Done>> {
    forward(&app, &caller, &id, Method::DELETE, &path(&recording, ""), (), None::<&()>, QUICK).await
}

/// The video: H.264 in MP4, all of it or one range. Of one that goes on, what is written so far.
#[utoipa::path(get, path = "/computers/{id}/recordings/{recording_id}/video", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)), responses(
        (status = 200, description = "The video", body = String, content_type = "video/mp4"),
        (status = 206, description = "The range", body = String, content_type = "video/mp4"),
        (status = 304, description = "It is what `If-None-Match` names"),
        (status = 416, description = "The video ends before the range", body = ErrorBody)))]
async fn video(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, recording)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, &path(&recording, "/video"), FILE, request).await
}

/// What was done on the screen while it was recorded: a `TimelineEntry` a line.
#[utoipa::path(get, path = "/computers/{id}/recordings/{recording_id}/timeline", tag = "recordings",
    params(("id" = String, Path), ("recording_id" = String, Path)), responses(
        (status = 200, description = "The lines", body = TimelineEntry, content_type = "application/x-ndjson"),
        (status = 206, description = "The range", body = String, content_type = "application/x-ndjson"),
        (status = 304, description = "It is what `If-None-Match` names"),
        (status = 416, description = "The timeline ends before the range", body = ErrorBody)))]
async fn timeline(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, recording)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, &path(&recording, "/timeline"), FILE, request).await
}

fn path(recording: &str, rest: &str) -> String {
    format!("/recordings/{}{rest}", percent_encode(recording))
}
