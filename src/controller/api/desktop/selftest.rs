//! The self-test over HTTP.

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forward;
use crate::Shared;
use hotdesk_domain::limits::MAX_SELFTEST_SECONDS;
use hotdesk_guest::QUICK;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::selftest::SelfTest;

/// The route of the self-test.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(run))
}

/// Tries the computer's parts on a hidden screen and measures them; takes seconds, on a busy machine up to 75. It is
/// answered with 200 also when a check failed; 409 when another self-test runs, or the computer has no place for one
/// more screen.
#[utoipa::path(get, path = "/computers/{id}/selftest", tag = "selftest", params(("id" = String, Path)),
    responses((status = 200, description = "What was found", body = SelfTest)))]
async fn run(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<SelfTest>> {
    let patience = QUICK + Duration::from_secs_f64(MAX_SELFTEST_SECONDS);
    forward(&app, &caller, &id, Method::GET, "/selftest", (), None::<&()>, patience).await
}
