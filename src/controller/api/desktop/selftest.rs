//! Self-test over HTTP.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_domain::limits::MAX_SELFTEST_SECONDS;
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::agent::selftest::SelfTest;

/// Returns the route of the self-test.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(run))
}

/// Tests the computer's parts on a hidden screen and measures them.
///
/// It takes seconds, on a busy machine up to 75. The status is 200 also when a check fails. It is 409 when
/// another self-test runs, or when the computer cannot have another screen.
#[utoipa::path(get, path = "/computers/{id}/selftest", tag = "selftest", params(("id" = String, Path)),
    responses((status = 200, description = "The results", body = SelfTest)))]
async fn run(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<SelfTest>> {
    let timeout = QUICK_TIMEOUT + Duration::from_secs_f64(MAX_SELFTEST_SECONDS);
    forward(&app, &caller, &id, Method::GET, "/selftest", (), None::<&()>, timeout).await
}
