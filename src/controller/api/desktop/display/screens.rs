//! Screens over HTTP (docs/api/screens.md).

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::desktop::action::{Acknowledgement, ResizeScreen, Screen, ScreenList, ScreenSize};

/// Longest start or end of a screen: the agent allows 25 s and then responds.
const START_OR_END_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the routes of screens.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list, create)).routes(routes!(resize, delete))
}

/// Lists the computer's screens.
#[utoipa::path(get, path = "/computers/{id}/screens", tag = "screens", params(("id" = String, Path)),
    responses((status = 200, description = "The screens, the boot screen first", body = ScreenList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<ScreenList>> {
    forward(&app, &caller, &id, Method::GET, "/screens", (), None::<&()>, QUICK_TIMEOUT).await
}

/// Adds a screen. A computer has at most four.
#[utoipa::path(post, path = "/computers/{id}/screens", tag = "screens", params(("id" = String, Path)),
    request_body = ScreenSize, responses((status = 201, description = "The new screen", body = Screen)))]
pub(crate) async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(size): Body<ScreenSize>,
) -> Result<(StatusCode, Json<Screen>)> {
    let screen =
        forward(&app, &caller, &id, Method::POST, "/screens", (), Some(&size), START_OR_END_TIMEOUT).await?;
    Ok((StatusCode::CREATED, screen))
}

/// Resizes a screen.
///
/// The size of the boot screen becomes the computer's resolution.
#[utoipa::path(patch, path = "/computers/{id}/screens/{screen_id}", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path)), request_body = ResizeScreen,
    responses((status = 200, description = "The resized screen", body = Screen)))]
async fn resize(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, screen)): Path<(String, String)>,
    Body(size): Body<ResizeScreen>,
) -> Result<Json<Screen>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    Ok(Json(app.fleet.resize_screen(&computer, &screen, size, Actor::of(&caller)).await?))
}

/// Removes a screen with everything on it.
///
/// The boot screen cannot be removed.
#[utoipa::path(delete, path = "/computers/{id}/screens/{screen_id}", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path)),
    responses((status = 200, description = "The screen was removed", body = Acknowledgement)))]
pub(crate) async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, screen)): Path<(String, String)>,
) -> Result<Json<Acknowledgement>> {
    let path = format!("/screens/{}", percent_encode(&screen));
    forward(&app, &caller, &id, Method::DELETE, &path, (), None::<&()>, START_OR_END_TIMEOUT).await
}
