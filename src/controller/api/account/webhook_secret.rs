//! The secret that signs the webhooks of an account's computers (docs/api/accounts.md).

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;

use crate::AppState;
use crate::api::NO_STORE;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::identity::access::check_account_wide;
use hotdesk_http::error_response::Result;
use hotdesk_wire::identity::webhook::WebhookSigningSecret;

/// Returns the routes of the secret.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(webhook_secret))
}

/// Returns the secret with which receivers check webhooks of the account's computers (Standard Webhooks).
#[utoipa::path(get, path = "/account/webhook-secret", tag = "account",
    responses((status = 200, description = "The secret", body = WebhookSigningSecret)))]
async fn webhook_secret(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<([(HeaderName, &'static str); 1], Json<WebhookSigningSecret>)> {
    check_account_wide(&caller, "read the secret of webhooks")?;
    let secret = app.webhooks.secret(caller.for_change().account)?.text();
    Ok((NO_STORE, Json(WebhookSigningSecret { secret })))
}
