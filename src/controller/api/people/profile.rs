//! Whose key is it? (wire.md 13)

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_wire::profile::Profile;

/// The route of the profile.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(get))
}

/// The account that the key belongs to.
#[utoipa::path(get, path = "/user/profile", tag = "account",
    responses((status = 200, description = "The account", body = Profile)))]
async fn get(State(app): State<Shared>, Authenticated(caller): Authenticated) -> Result<Json<Profile>> {
    let account = app.store.account(caller.account).await?;
    let account = account.ok_or_else(|| Error::internal("a key without an account"))?;
    Ok(Json(Profile { id: account.id.to_string(), email: account.email, full_name: account.full_name }))
}
