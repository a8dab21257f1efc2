//! Background processes over HTTP: started, read, fed, signalled and ended by the computer's agent.

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::patience::seconds;
use crate::Shared;
use hotdesk_domain::access::Caller;
use hotdesk_domain::limits::MAX_STDIN;
use hotdesk_guest::{Guest, QUICK, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Read, Path, Query};
use hotdesk_wire::action::Done;
use hotdesk_wire::process::{
    LOST, OFFSET, OutputQuery, Process, ProcessList, SendSignal, Signalled, StartProcess, StdinQuery, Written,
};

/// The most seconds that a reader may ask the agent to wait.
const MAX_WAIT_SECONDS: f64 = 300.0;
/// Most bytes of one answer: a follower of a guest that never stops writing asks again after a gigabyte.
const MAX_OUTPUT: usize = 1024 * 1024 * 1024;
/// How long they may take: the slowest line that is worth waiting for sends 16 MiB in five minutes.
const STDIN_TIMEOUT: Duration = Duration::from_secs(300);

/// The routes of background processes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start, list))
        .routes(routes!(record, end))
        .routes(routes!(output))
        .routes(routes!(stdin))
        .routes(routes!(signal))
}

/// Starts a program in the background. It ends with the agent: none outlives a restart of the computer.
#[utoipa::path(post, path = "/computers/{id}/processes", tag = "execution", params(("id" = String, Path)),
    request_body = StartProcess, responses((status = 201, description = "It runs", body = Process)))]
async fn start(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Read(body): Read<StartProcess>,
) -> Result<(StatusCode, Json<Process>)> {
    let guest = find(&app, &caller, &id, &Method::POST).await?;
    let process = guest.call(Method::POST, "/processes", (), Some(&body), QUICK).await?;
    Ok((StatusCode::CREATED, Json(process)))
}

/// The background processes, and the last ones that ended.
#[utoipa::path(get, path = "/computers/{id}/processes", tag = "execution", params(("id" = String, Path)),
    responses((status = 200, description = "Oldest first", body = ProcessList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<ProcessList>> {
    let guest = find(&app, &caller, &id, &Method::GET).await?;
    Ok(Json(guest.call(Method::GET, "/processes", (), None::<&()>, QUICK).await?))
}

/// How a background process is.
#[utoipa::path(get, path = "/computers/{id}/processes/{process_id}", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path)),
    responses((status = 200, description = "Its record", body = Process)))]
async fn record(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(ids): Path<(String, String)>,
) -> Result<Json<Process>> {
    ask(&app, &caller, &ids, Method::GET, "", None::<&()>).await
}

/// Kills a background process with everything that it started, and forgets it.
#[utoipa::path(delete, path = "/computers/{id}/processes/{process_id}", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn end(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(ids): Path<(String, String)>,
) -> Result<Json<Done>> {
    ask(&app, &caller, &ids, Method::DELETE, "", None::<&()>).await
}

/// What a background process has written: its last bytes, or all that come from now on (`follow`).
#[utoipa::path(get, path = "/computers/{id}/processes/{process_id}/output", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path), OutputQuery),
    responses((status = 200, description = "The bytes", body = String, content_type = "application/octet-stream",
        headers(("X-Hotdesk-Offset" = u64, description = "The offset of the first byte"),
            ("X-Hotdesk-Lost" = u64, description = "Bytes that were asked for and are no longer kept")))))]
async fn output(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(ids): Path<(String, String)>,
    Query(query): Query<OutputQuery>,
) -> Result<Response> {
    let guest = find(&app, &caller, &ids.0, &Method::GET).await?;
    let wait = if query.follow == Some(true) { 0.0 } else { query.wait_seconds.unwrap_or(0.0) };
    let patience = QUICK + seconds(wait, MAX_WAIT_SECONDS);
    let answer = guest.open(&path(&ids.1, "/output"), &query, patience).await?;
    let (answered, content) = answer.into_parts();
    let mut response = Body::new(Limited::new(content.map_err(axum::Error::new), MAX_OUTPUT)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for name in [OFFSET, LOST] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(number(&answered.headers, name)));
    }
    Ok(response)
}

/// A guest's number; a guest that names none is taken at 0.
fn number(headers: &HeaderMap, name: &str) -> u64 {
    headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// Writes to a background process's standard input, which must have been started as a pipe.
#[utoipa::path(post, path = "/computers/{id}/processes/{process_id}/stdin", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path), StdinQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, description = "Written", body = Written)))]
async fn stdin(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(ids): Path<(String, String)>,
    Query(query): Query<StdinQuery>,
    body: Body,
) -> Result<Json<Written>> {
    let guest = find(&app, &caller, &ids.0, &Method::POST).await?;
    let body = Body::new(Limited::new(body, MAX_STDIN));
    Ok(Json(guest.send_bytes(&path(&ids.1, "/stdin"), &query, body, STDIN_TIMEOUT).await?))
}

/// Sends a signal to a background process and, unless told otherwise, to everything that it started.
#[utoipa::path(post, path = "/computers/{id}/processes/{process_id}/signal", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path)), request_body = SendSignal,
    responses((status = 200, description = "Sent", body = Signalled)))]
async fn signal(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(ids): Path<(String, String)>,
    Read(body): Read<SendSignal>,
) -> Result<Json<Signalled>> {
    ask(&app, &caller, &ids, Method::POST, "/signal", Some(&body)).await
}

async fn ask<Receive: DeserializeOwned>(
    app: &Shared,
    caller: &Caller,
    (id, process): &(String, String),
    method: Method,
    rest: &str,
    body: Option<&(impl Serialize + Sync)>,
) -> Result<Json<Receive>> {
    let guest = find(app, caller, id, &method).await?;
    Ok(Json(guest.call(method, &path(process, rest), (), body, QUICK).await?))
}

async fn find(app: &Shared, caller: &Caller, id: &str, method: &Method) -> Result<Guest> {
    let computer = app.find_computer(caller, id).await?;
    Ok(app.guest_for(method, &computer).await?)
}

fn path(process: &str, rest: &str) -> String {
    format!("/processes/{}{rest}", percent_encode(process))
}
