//! Screens over HTTP (wire.md 7).

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_domain::access::Caller;
use hotdesk_guest::{QUICK, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::action::{Done, Screen, ScreenList, ScreenSize};

/// How long a screen may take to come up or to end: the agent gives it 25 s and answers then.
const START_OR_END: Duration = Duration::from_secs(30);

/// The routes of screens.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(resize, delete))
}

/// The computer's screens.
#[utoipa::path(get, path = "/computers/{id}/screens", tag = "screens", params(("id" = String, Path)),
    responses((status = 200, description = "The boot screen first", body = ScreenList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<ScreenList>> {
    ask(&app, &caller, &id, Method::GET, "/screens", None::<&()>, QUICK).await.map(Json)
}

/// Adds a screen; at most four in all.
#[utoipa::path(post, path = "/computers/{id}/screens", tag = "screens", params(("id" = String, Path)),
    request_body = ScreenSize, responses((status = 201, description = "The new screen", body = Screen)))]
async fn create(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(size): Body<ScreenSize>,
) -> Result<(StatusCode, Json<Screen>)> {
    let screen = ask(&app, &caller, &id, Method::POST, "/screens", Some(&size), START_OR_END).await?;
    Ok((StatusCode::CREATED, Json(screen)))
}

/// Resizes a screen in place.
#[utoipa::path(patch, path = "/computers/{id}/screens/{screen_id}", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path)), request_body = ScreenSize,
    responses((status = 200, description = "The resized screen", body = Screen)))]
async fn resize(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, screen)): Path<(String, String)>,
    Body(size): Body<ScreenSize>,
) -> Result<Json<Screen>> {
    let path = format!("/screens/{}", percent_encode(&screen));
    ask(&app, &caller, &id, Method::PATCH, &path, Some(&size), QUICK).await.map(Json)
}

/// Removes a screen with everything on it; the boot screen stays.
#[utoipa::path(delete, path = "/computers/{id}/screens/{screen_id}", tag = "screens",
    params(("id" = String, Path), ("screen_id" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn delete(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, screen)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let path = format!("/screens/{}", percent_encode(&screen));
    ask(&app, &caller, &id, Method::DELETE, &path, None::<&()>, START_OR_END).await.map(Json)
}

async fn ask<Receive: DeserializeOwned>(
    app: &Shared,
    caller: &Caller,
    id: &str,
    method: Method,
    path: &str,
    body: Option<&(impl Serialize + Sync)>,
    patience: Duration,
) -> Result<Receive> {
    let computer = app.find_computer(caller, id).await?;
    let guest = app.guest_for(&method, &computer).await?;
    Ok(guest.call(method, path, (), body, patience).await?)
}
