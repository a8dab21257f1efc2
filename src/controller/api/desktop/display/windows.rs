//! Windows over HTTP.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::Method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forward;
use crate::Shared;
use hotdesk_guest::{QUICK, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::action::ScreenQuery;
use hotdesk_wire::window::{CloseWindow, Window, WindowClosed, WindowList, WindowPlace};

/// The routes of windows.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(place))
        .routes(routes!(focus))
        .routes(routes!(maximize))
        .routes(routes!(minimize))
        .routes(routes!(restore))
        .routes(routes!(close))
}

/// Lists a screen's windows, the topmost first.
#[utoipa::path(get, path = "/computers/{id}/windows", tag = "windows",
    params(("id" = String, Path), ScreenQuery),
    responses((status = 200, description = "What the window manager manages", body = WindowList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(screen): Query<ScreenQuery>,
) -> Result<Json<WindowList>> {
    forward(&app, &caller, &id, Method::GET, "/windows", screen, None::<&()>, QUICK).await
}

/// Moves and resizes a window; one that is maximized, minimized or fullscreen becomes a normal window first.
#[utoipa::path(patch, path = "/computers/{id}/windows/{window_id}", tag = "windows",
    params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery), request_body = WindowPlace,
    responses((status = 200, description = "The window as it became", body = Window)))]
async fn place(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, window)): Path<(String, String)>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<WindowPlace>,
) -> Result<Json<Window>> {
    forward(&app, &caller, &id, Method::PATCH, &path(&window, ""), screen, Some(&body), QUICK).await
}

/// Brings a window to the front and gives it the keyboard.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/focus",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window as it became", body = Window)))]
async fn focus(
    app: State<Shared>,
    caller: Authenticated,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/focus").await
}

/// Maximizes a window.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/maximize",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window as it became", body = Window)))]
async fn maximize(
    app: State<Shared>,
    caller: Authenticated,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/maximize").await
}

/// Minimizes a window.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/minimize",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window as it became", body = Window)))]
async fn minimize(
    app: State<Shared>,
    caller: Authenticated,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/minimize").await
}

/// Makes a window neither minimized, maximized nor fullscreen.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/restore",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window as it became", body = Window)))]
async fn restore(
    app: State<Shared>,
    caller: Authenticated,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/restore").await
}

/// Closes a window as its close button does; a program that asks first keeps it open.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/close",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    request_body = CloseWindow, responses((status = 200, description = "Whether it is gone", body = WindowClosed)))]
async fn close(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, window)): Path<(String, String)>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<CloseWindow>,
) -> Result<Json<WindowClosed>> {
    forward(&app, &caller, &id, Method::POST, &path(&window, "/close"), screen, Some(&body), QUICK).await
}

async fn change(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, window)): Path<(String, String)>,
    Query(screen): Query<ScreenQuery>,
    verb: &str,
) -> Result<Json<Window>> {
    forward(&app, &caller, &id, Method::POST, &path(&window, verb), screen, None::<&()>, QUICK).await
}

fn path(window: &str, verb: &str) -> String {
    format!("/windows/{}{verb}", percent_encode(window))
}
