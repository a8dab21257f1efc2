//! Sign-in links over HTTP (docs/api/authentication.md).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::api::NO_STORE;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use crate::web::origin::Origin;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json as Body;
use hotdesk_wire::identity::sign_in_link::{CreateSignInLink, SignInLink};

/// Returns the route of the links.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(create_sign_in_link))
}

/// Creates a link that signs one browser in to the key's account, once, within 15 minutes.
///
/// The link leads to the desktop of a computer, or to the console. It and the session that it begins end when
/// the key is deleted.
#[utoipa::path(post, path = "/user/sign-in-links", tag = "account", request_body = CreateSignInLink,
    responses((status = 201, description = "The link, which is not available later", body = SignInLink)))]
async fn create_sign_in_link(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Body(wanted): Body<CreateSignInLink>,
) -> Result<Response> {
    let link = app.sign_in_links.create(&caller, wanted.computer_id.as_deref()).await?;
    let answer = SignInLink { url: link.url(&origin), expires_at: link.expires_at.iso8601() };
    Ok((StatusCode::CREATED, NO_STORE, Json(answer)).into_response())
}
