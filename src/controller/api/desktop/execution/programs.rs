//! Starting programs over HTTP.

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forward;
use crate::Shared;
use hotdesk_guest::QUICK;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::action::ScreenQuery;
use hotdesk_wire::program::{Launch, Launched};

/// Longest wait for a window, in seconds; the agent refuses more.
const MAX_WAIT: f64 = 60.0;

/// The route of programs.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(launch))
}

/// Starts a program, or opens a URL in the browser, on a screen and waits for its window. It runs on when the request
/// has ended. Code `no_browser` with 409 when a URL finds no browser installed.
#[utoipa::path(post, path = "/computers/{id}/launch", tag = "windows", params(("id" = String, Path), ScreenQuery),
    request_body = Launch, responses((status = 200, description = "Started", body = Launched)))]
async fn launch(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Launch>,
) -> Result<Json<Launched>> {
    let wait = body.wait_seconds.unwrap_or(MAX_WAIT).min(MAX_WAIT);
    let patience = QUICK + Duration::try_from_secs_f64(wait).unwrap_or_default();
    forward(&app, &caller, &id, Method::POST, "/launch", screen, Some(&body), patience).await
}
