//! Services and hooks that a computer has from its template.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::api::desktop::forward;
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Read, Path, Query};
use hotdesk_wire::programs::service::{ServiceAction, ServiceList, ServiceLog, ServiceLogQuery};

/// Timeout of an action: the agent gives a service 20 s, and lists all of them afterwards.
const ACTION_TIMEOUT: Duration = Duration::from_secs(40);

/// Returns the routes of services.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(services))
        .routes(routes!(service_action))
        .routes(routes!(service_log))
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

/// Returns the end of a service's output.
#[utoipa::path(get, path = "/computers/{id}/services/{service}/log", tag = "execution",
    params(("id" = String, Path), ("service" = String, Path), ServiceLogQuery),
    responses((status = 200, description = "The text", body = ServiceLog)))]
async fn service_log(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, service)): Path<(String, String)>,
    Query(query): Query<ServiceLogQuery>,
) -> Result<Json<ServiceLog>> {
    let path = format!("/services/{}/log", percent_encode(&service));
    forward(&app, &caller, &id, Method::GET, &path, query, None::<&()>, QUICK_TIMEOUT).await
}
