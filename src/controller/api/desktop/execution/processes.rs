//! Background processes over HTTP: start, read, write, signal and end.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_domain::identity::access::Caller;
use hotdesk_domain::limits::{MAX_STDIN, bounded_seconds};
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Read, Path, Query};
use hotdesk_http::untrusted_content::{confine, forbid_caching};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::programs::process::{
    LOST_HEADER, OFFSET_HEADER, OutputQuery, Process, ProcessList, SendSignal, SignalResult, StartProcess,
    StdinQuery, StdinWritten,
};

/// Most seconds that a reader may ask the agent to wait.
const MAX_WAIT_SECONDS: f64 = 300.0;
/// Most bytes of one response, like a transfer of files. The output of an attached process is read once, so a client
/// cannot reconnect at a lower bound.
const MAX_OUTPUT: usize = 1 << 40;
/// Longest write to standard input: 16 MiB in five minutes is the slowest acceptable rate.
const STDIN_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns the routes of background processes.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(start, list))
        .routes(routes!(record, end))
        .routes(routes!(output))
        .routes(routes!(stdin))
        .routes(routes!(signal))
}

/// Starts a program in the background.
///
/// It ends with the agent; no process survives a restart of the computer.
#[utoipa::path(post, path = "/computers/{id}/processes", tag = "execution", params(("id" = String, Path)),
    request_body = StartProcess, responses((status = 201, description = "The process runs", body = Process)))]
async fn start(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Read(body): Read<StartProcess>,
) -> Result<(StatusCode, Json<Process>)> {
    let process =
        forward(&app, &caller, &id, Method::POST, "/processes", (), Some(&body), QUICK_TIMEOUT).await?;
    Ok((StatusCode::CREATED, process))
}

/// Lists the background processes, and the last ones that ended.
#[utoipa::path(get, path = "/computers/{id}/processes", tag = "execution", params(("id" = String, Path)),
    responses((status = 200, description = "The processes, oldest first", body = ProcessList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<ProcessList>> {
    forward(&app, &caller, &id, Method::GET, "/processes", (), None::<&()>, QUICK_TIMEOUT).await
}

/// Returns a background process.
#[utoipa::path(get, path = "/computers/{id}/processes/{process_id}", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path)),
    responses((status = 200, description = "The process", body = Process)))]
async fn record(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(ids): Path<(String, String)>,
) -> Result<Json<Process>> {
    call_agent(&app, &caller, &ids, Method::GET, "", None::<&()>).await
}

/// Kills a background process with everything that it started, and removes its record.
#[utoipa::path(delete, path = "/computers/{id}/processes/{process_id}", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path)),
    responses((status = 200, description = "The process was removed", body = Acknowledgement)))]
async fn end(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(ids): Path<(String, String)>,
) -> Result<Json<Acknowledgement>> {
    call_agent(&app, &caller, &ids, Method::DELETE, "", None::<&()>).await
}

/// Returns the output of a background process: its last bytes, or all future ones (`follow`).
#[utoipa::path(get, path = "/computers/{id}/processes/{process_id}/output", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path), OutputQuery),
    responses((status = 200, description = "The bytes",
        body = String, content_type = "application/octet-stream",
        headers(("X-Hotdesk-Offset" = u64, description = "The offset of the first byte"),
            ("X-Hotdesk-Lost" = u64, description = "Requested bytes that are no longer available")))))]
async fn output(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(ids): Path<(String, String)>,
    Query(query): Query<OutputQuery>,
) -> Result<Response> {
    let computer = app.directory.find_computer(&caller, &ids.0).await?;
    let guest = app.directory.guest_for(&Method::GET, &computer).await?;
    let wait = if query.follow == Some(true) { 0.0 } else { query.wait_seconds.unwrap_or(0.0) };
    let timeout = QUICK_TIMEOUT + bounded_seconds(wait, MAX_WAIT_SECONDS);
    let answer = guest.open(&path(&ids.1, "/output"), &query, timeout).await?;
    let (answered, content) = answer.into_parts();
    let mut response = Body::new(Limited::new(content.map_err(axum::Error::new), MAX_OUTPUT)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    confine(headers);
    forbid_caching(headers);
    for name in [OFFSET_HEADER, LOST_HEADER] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(number(&answered.headers, name)));
    }
    app.output_readers.let_pause(computer.id, caller.account, &mut response);
    Ok(response)
}

/// Parses a number from the guest; 0 if it is missing or invalid.
fn number(headers: &HeaderMap, name: &str) -> u64 {
    headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// Writes to a background process's standard input.
///
/// The process must have been started with a pipe.
#[utoipa::path(post, path = "/computers/{id}/processes/{process_id}/stdin", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path), StdinQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, description = "The bytes were written", body = StdinWritten)))]
async fn stdin(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(ids): Path<(String, String)>,
    Query(query): Query<StdinQuery>,
    body: Body,
) -> Result<Json<StdinWritten>> {
    let computer = app.directory.find_computer(&caller, &ids.0).await?;
    let guest = app.directory.guest_for(&Method::POST, &computer).await?;
    let body = Body::new(Limited::new(body, MAX_STDIN));
    Ok(Json(guest.send_bytes(&path(&ids.1, "/stdin"), &query, body, STDIN_TIMEOUT).await?))
}

/// Sends a signal to a background process.
///
/// By default everything that it started gets the signal too.
#[utoipa::path(post, path = "/computers/{id}/processes/{process_id}/signal", tag = "execution",
    params(("id" = String, Path), ("process_id" = String, Path)), request_body = SendSignal,
    responses((status = 200, description = "The signal was sent", body = SignalResult)))]
async fn signal(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(ids): Path<(String, String)>,
    Read(body): Read<SendSignal>,
) -> Result<Json<SignalResult>> {
    call_agent(&app, &caller, &ids, Method::POST, "/signal", Some(&body)).await
}

async fn call_agent<Receive: DeserializeOwned>(
    app: &AppState,
    caller: &Caller,
    (id, process): &(String, String),
    method: Method,
    rest: &str,
    body: Option<&(impl Serialize + Sync)>,
) -> Result<Json<Receive>> {
    forward(app, caller, id, method, &path(process, rest), (), body, QUICK_TIMEOUT).await
}

fn path(process: &str, rest: &str) -> String {
    format!("/processes/{}{rest}", percent_encode(process))
}
