//! Services and hooks that a computer has from its template.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use crate::identity::auth::AuthenticatedCaller;
use crate::relay::bounded_body::{BoundedBody, Progress};
use hotdesk_domain::error::Error;
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Read, Path, Query};
use hotdesk_http::serve::KEEP_ALIVE;
use hotdesk_http::untrusted_content::{confine, forbid_caching};
use hotdesk_wire::programs::service::{
    ServiceAction, ServiceList, ServiceLog, ServiceLogEntry, ServiceLogQuery,
};

/// Timeout of an action: the agent gives a service 20 s, and lists all of them afterwards.
const ACTION_TIMEOUT: Duration = Duration::from_secs(40);
/// Longest silence of an agent whose log is followed: it sends a comment in each [`KEEP_ALIVE`].
const SILENCE_TIMEOUT: Duration = KEEP_ALIVE.saturating_mul(4);
/// Most bytes of a log that is followed, like a transfer of files: a bound for an agent that was replaced.
const MAX_FOLLOWED: u64 = 1 << 40;
/// Media type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// Returns the routes of services.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(services)).routes(routes!(service_action)).routes(routes!(service_log))
}

/// Lists the services that a computer has from its template, and its hooks.
#[utoipa::path(get, path = "/computers/{id}/services", tag = "execution", params(("id" = String, Path)),
    responses((status = 200, description = "The services and hooks; none without a template", body = ServiceList)))]
async fn services(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<ServiceList>> {
    forward(&app, &caller, &id, Method::GET, "/services", (), None::<&()>, QUICK_TIMEOUT).await
}

/// Starts, stops or restarts a service, and waits for it.
#[utoipa::path(post, path = "/computers/{id}/services/{service}", tag = "execution",
    params(("id" = String, Path), ("service" = String, Path)), request_body = ServiceAction,
    responses((status = 200, description = "The services afterwards", body = ServiceList)))]
async fn service_action(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, service)): Path<(String, String)>,
    Read(body): Read<ServiceAction>,
) -> Result<Json<ServiceList>> {
    let path = format!("/services/{}", percent_encode(&service));
    forward(&app, &caller, &id, Method::POST, &path, (), Some(&body), ACTION_TIMEOUT).await
}

/// Returns the end of a service's output, or with `follow` its lines as they are written.
///
/// The lines are server-sent events; each `data` is a `ServiceLogEntry`. The stream ends when the file is removed or the
/// computer stops.
#[utoipa::path(get, path = "/computers/{id}/services/{service}/log", tag = "execution",
    params(("id" = String, Path), ("service" = String, Path), ServiceLogQuery),
    responses((status = 200, description = "The text, or the lines",
        content((ServiceLog = "application/json"), (ServiceLogEntry = "text/event-stream")))))]
async fn service_log(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, service)): Path<(String, String)>,
    Query(query): Query<ServiceLogQuery>,
) -> Result<Response> {
    let path = format!("/services/{}/log", percent_encode(&service));
    if query.follow != Some(true) {
        let log: Json<ServiceLog> =
            forward(&app, &caller, &id, Method::GET, &path, query, None::<&()>, QUICK_TIMEOUT).await?;
        return Ok(log.into_response());
    }
    let computer = app.directory.find_computer(&caller, &id).await?;
    let guest = app.directory.guest_for(&Method::GET, &computer).await?;
    let answer = guest.open(&path, query, QUICK_TIMEOUT).await?;
    if answer.headers().get(header::CONTENT_TYPE).is_none_or(|content| content != EVENTS) {
        let error = Error::conflict("The agent of this computer cannot follow logs: restart the computer");
        return Err(error.into());
    }
    let content = Body::new(answer.into_body());
    let content = BoundedBody::new(content, MAX_FOLLOWED, SILENCE_TIMEOUT, Progress::starting());
    let mut response = Body::new(content).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    confine(headers);
    forbid_caching(headers);
    app.output_readers.let_pause(computer.id, caller.account, &mut response);
    Ok(response)
}
