//! Windows over HTTP.

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::desktop::action::ScreenQuery;
use hotdesk_wire::desktop::window::{CloseWindow, Window, WindowClosed, WindowList, WindowPlace};

/// Returns the routes of windows.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list))
        .routes(routes!(place))
        .routes(routes!(focus))
        .routes(routes!(maximize))
        .routes(routes!(minimize))
        .routes(routes!(restore))
        .routes(routes!(close))
}

/// Lists a screen's windows, topmost first.
#[utoipa::path(get, path = "/computers/{id}/windows", tag = "windows",
    params(("id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The windows of the window manager", body = WindowList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(screen): Query<ScreenQuery>,
) -> Result<Json<WindowList>> {
    forward(&app, &caller, &id, Method::GET, "/windows", screen, None::<&()>, QUICK_TIMEOUT).await
}

/// Moves and resizes a window.
///
/// A maximized, minimized or fullscreen window becomes a normal window first.
#[utoipa::path(patch, path = "/computers/{id}/windows/{window_id}", tag = "windows",
    params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery), request_body = WindowPlace,
    responses((status = 200, description = "The window afterwards", body = Window)))]
async fn place(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, window)): Path<(String, String)>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<WindowPlace>,
) -> Result<Json<Window>> {
    forward(&app, &caller, &id, Method::PATCH, &path(&window, ""), screen, Some(&body), QUICK_TIMEOUT).await
}

/// Raises a window and gives it the keyboard focus.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/focus",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window afterwards", body = Window)))]
async fn focus(
    app: State<AppState>,
    caller: AuthenticatedCaller,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/focus").await
}

/// Maximizes a window.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/maximize",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window afterwards", body = Window)))]
async fn maximize(
    app: State<AppState>,
    caller: AuthenticatedCaller,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/maximize").await
}

/// Minimizes a window.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/minimize",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window afterwards", body = Window)))]
async fn minimize(
    app: State<AppState>,
    caller: AuthenticatedCaller,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/minimize").await
}

/// Restores a window: it is neither minimized, maximized nor fullscreen afterwards.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/restore",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The window afterwards", body = Window)))]
async fn restore(
    app: State<AppState>,
    caller: AuthenticatedCaller,
    ids: Path<(String, String)>,
    screen: Query<ScreenQuery>,
) -> Result<Json<Window>> {
    change(app, caller, ids, screen, "/restore").await
}

/// Closes a window like its close button.
///
/// A program that asks for confirmation keeps it open.
#[utoipa::path(post, path = "/computers/{id}/windows/{window_id}/close",
    tag = "windows", params(("id" = String, Path), ("window_id" = String, Path), ScreenQuery),
    request_body = CloseWindow,
    responses((status = 200, description = "Whether the window is closed", body = WindowClosed)))]
async fn close(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, window)): Path<(String, String)>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<CloseWindow>,
) -> Result<Json<WindowClosed>> {
    forward(&app, &caller, &id, Method::POST, &path(&window, "/close"), screen, Some(&body), QUICK_TIMEOUT)
        .await
}

async fn change(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, window)): Path<(String, String)>,
    Query(screen): Query<ScreenQuery>,
    verb: &str,
) -> Result<Json<Window>> {
    forward(&app, &caller, &id, Method::POST, &path(&window, verb), screen, None::<&()>, QUICK_TIMEOUT).await
}

fn path(window: &str, verb: &str) -> String {
    format!("/windows/{}{verb}", percent_encode(window))
}
