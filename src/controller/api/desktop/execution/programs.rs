//! Launch of graphical programs over HTTP.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::desktop::action::ScreenQuery;
use hotdesk_wire::programs::program::{Launch, LaunchResult};

/// Longest wait for a window, in seconds; the agent refuses more.
const MAX_WAIT: f64 = 60.0;

/// Returns the route of programs.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(launch))
}

/// Starts a program, or opens a URL in the browser, on a screen, and waits for its window.
///
/// The program continues after the request. Code `no_browser` with 409: no browser is installed for a URL.
#[utoipa::path(post, path = "/computers/{id}/launch", tag = "windows",
    params(("id" = String, Path), ScreenQuery),
    request_body = Launch,
    responses((status = 200, description = "The program was started", body = LaunchResult)))]
async fn launch(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Launch>,
) -> Result<Json<LaunchResult>> {
    let wait = body.wait_seconds.unwrap_or(MAX_WAIT).min(MAX_WAIT);
    let timeout = QUICK_TIMEOUT + Duration::try_from_secs_f64(wait).unwrap_or_default();
    forward(&app, &caller, &id, Method::POST, "/launch", screen, Some(&body), timeout).await
}
