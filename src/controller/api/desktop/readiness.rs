//! Readiness and resources of a computer over HTTP (docs/api/computers.md#readiness).

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::agent::Health;

/// Returns the route of the readiness.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(readiness))
}

/// Returns whether a computer's desktop is usable, and what its programs use.
///
/// The figures come from the computer, whose root can invent them.
#[utoipa::path(get, path = "/computers/{id}/readiness", tag = "computers", params(("id" = String, Path)),
    responses((status = 200, description = "The readiness", body = Health)))]
async fn readiness(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Health>> {
    forward(&app, &caller, &id, Method::GET, "/health", (), None::<&()>, QUICK_TIMEOUT).await
}
