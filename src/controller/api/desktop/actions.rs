//! Input and wait actions over HTTP (docs/api/actions.md). The computer's agent validates and performs them.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::AppState;
use crate::api::desktop::timeouts;
use hotdesk_guest::{ActionReply, QUICK_TIMEOUT};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{AnyJson, Json as Body, Path, Query};
use hotdesk_http::idempotency::{IdempotencyHeader, IdempotencyKey};
use hotdesk_wire::desktop::action::{
    Click, CursorPosition, Drag, KeyPress, Move, PointerButton, ScreenQuery, Scroll, Type, Wait, WaitChange,
    WaitStable,
};
use hotdesk_wire::desktop::batch::{Action, Batch, BatchResult};
use hotdesk_wire::desktop::effect::ActionResult;

/// Returns the routes of actions.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(click))
        .routes(routes!(pointer_move))
        .routes(routes!(mouse_down))
        .routes(routes!(mouse_up))
        .routes(routes!(drag))
        .routes(routes!(scroll))
        .routes(routes!(type_text))
        .routes(routes!(key))
        .routes(routes!(key_down))
        .routes(routes!(key_up))
        .routes(routes!(wait_stable))
        .routes(routes!(wait_change))
        .routes(routes!(cursor_position))
        .routes(routes!(actions))
        .routes(routes!(wait))
}

/// Clicks once, twice or three times, optionally with modifiers held.
#[utoipa::path(post, path = "/computers/{id}/click", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Click,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
pub(crate) async fn click(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Click>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::Click(body.clone()));
    act(state, caller, id, "/click", screen, &body, key, timeout).await
}

/// Moves the pointer.
#[utoipa::path(post, path = "/computers/{id}/move", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Move,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
async fn pointer_move(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Move>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::Move(body.clone()));
    act(state, caller, id, "/move", screen, &body, key, timeout).await
}

/// Presses a mouse button and holds it.
#[utoipa::path(post, path = "/computers/{id}/mouse_down", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = PointerButton,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
async fn mouse_down(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<PointerButton>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::MouseDown(body.clone()));
    act(state, caller, id, "/mouse_down", screen, &body, key, timeout).await
}

/// Releases a mouse button.
#[utoipa::path(post, path = "/computers/{id}/mouse_up", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = PointerButton,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
async fn mouse_up(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<PointerButton>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::MouseUp(body.clone()));
    act(state, caller, id, "/mouse_up", screen, &body, key, timeout).await
}

/// Drags from one point to another, or along a path.
#[utoipa::path(post, path = "/computers/{id}/drag", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Drag,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
async fn drag(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Drag>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::Drag(body.clone()));
    act(state, caller, id, "/drag", screen, &body, key, timeout).await
}

/// Scrolls.
#[utoipa::path(post, path = "/computers/{id}/scroll", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Scroll,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
async fn scroll(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Scroll>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::Scroll(body.clone()));
    act(state, caller, id, "/scroll", screen, &body, key, timeout).await
}

/// Types a text.
#[utoipa::path(post, path = "/computers/{id}/type", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Type,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
pub(crate) async fn type_text(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Type>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::Type(body.clone()));
    act(state, caller, id, "/type", screen, &body, key, timeout).await
}

/// Presses a key, a combination, or a sequence of them.
#[utoipa::path(post, path = "/computers/{id}/key", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = KeyPress,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
pub(crate) async fn key(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<KeyPress>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::Key(body.clone()));
    act(state, caller, id, "/key", screen, &body, key, timeout).await
}

/// Presses a key and holds it.
#[utoipa::path(post, path = "/computers/{id}/key_down", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = KeyPress,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
async fn key_down(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<KeyPress>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::KeyDown(body.clone()));
    act(state, caller, id, "/key_down", screen, &body, key, timeout).await
}

/// Releases a key.
#[utoipa::path(post, path = "/computers/{id}/key_up", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = KeyPress,
    responses((status = 200, description = "The input was delivered", body = ActionResult)))]
async fn key_up(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<KeyPress>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::KeyUp(body.clone()));
    act(state, caller, id, "/key_up", screen, &body, key, timeout).await
}

/// Waits until the screen stops changing.
#[utoipa::path(post, path = "/computers/{id}/wait_stable", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = WaitStable,
    responses((status = 200, description = "The wait has ended", body = ActionResult)))]
async fn wait_stable(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<WaitStable>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::WaitStable(body.clone()));
    act(state, caller, id, "/wait_stable", screen, &body, key, timeout).await
}

/// Waits until something on the screen changes.
#[utoipa::path(post, path = "/computers/{id}/wait_change", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = WaitChange,
    responses((status = 200, description = "The wait has ended", body = ActionResult)))]
async fn wait_change(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<WaitChange>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::WaitChange(body.clone()));
    act(state, caller, id, "/wait_change", screen, &body, key, timeout).await
}

/// Returns the pointer's position, and the pressed buttons and modifiers.
#[utoipa::path(get, path = "/computers/{id}/cursor_position", tag = "actions",
    params(("id" = String, Path), ScreenQuery),
    responses((status = 200, description = "The pointer's state", body = CursorPosition)))]
async fn cursor_position(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(screen): Query<ScreenQuery>,
) -> Result<Json<CursorPosition>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest_to_read(&computer).await?;
    Ok(Json(guest.call(Method::GET, "/cursor_position", screen, None::<&()>, QUICK_TIMEOUT).await?))
}

/// Performs a list of actions in order on one screen, without other input between them.
///
/// By default it ends at the first failed action. The response has the result of each action.
#[utoipa::path(post, path = "/computers/{id}/actions", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Batch,
    responses((status = 200, description = "The result of each action", body = BatchResult)))]
async fn actions(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    AnyJson(actions): AnyJson<Batch>,
) -> Result<ActionReply<BatchResult>> {
    let timeout = timeouts::for_list(&actions.actions);
    act(state, caller, id, "/actions", screen, &actions, key, timeout).await
}

/// Waits for a duration.
#[utoipa::path(post, path = "/computers/{id}/wait", tag = "actions",
    params(("id" = String, Path), IdempotencyHeader), request_body = Wait,
    responses((status = 200, description = "The wait has ended", body = ActionResult)))]
async fn wait(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Body(body): Body<Wait>,
) -> Result<ActionReply<ActionResult>> {
    let timeout = timeouts::for_action(&Action::Wait(body.clone()));
    act(state, caller, id, "/wait", (), &body, key, timeout).await
}

#[allow(clippy::too_many_arguments)] // a request's parts, taken apart by the extractors
pub(super) async fn act<Send: Serialize + Sync, Receive: DeserializeOwned>(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    path: &str,
    query: impl Serialize,
    body: &Send,
    IdempotencyKey(key): IdempotencyKey,
    timeout: Duration,
) -> Result<ActionReply<Receive>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest(&computer).await?;
    Ok(guest.act(path, query, body, key, timeout).await?)
}
