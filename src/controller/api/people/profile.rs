//! Profile of the account over HTTP (docs/api/authentication.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_wire::identity::profile::Profile;

/// Returns the route of the profile.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(get))
}

/// Returns the account of the key.
#[utoipa::path(get, path = "/user/profile", tag = "account",
    responses((status = 200, description = "The account", body = Profile)))]
async fn get(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<Profile>> {
    let account = app.store.account(caller.account).await?;
    let account = account.ok_or_else(|| Error::internal("a key without an account"))?;
    Ok(Json(Profile {
        id: account.id.to_string(),
        email: account.email,
        email_verified: account.email_verified,
        full_name: account.full_name,
    }))
}
