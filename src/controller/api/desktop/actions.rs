//! Actions over HTTP (wire.md 6): each is handed to the computer's agent, which checks and does it.

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::patience;
use crate::Shared;
use hotdesk_guest::{Acted, QUICK};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query, Shaped};
use hotdesk_http::idempotency::{IdempotencyHeader, IdempotencyKey};
use hotdesk_wire::action::{
    Click, CursorPosition, Drag, Key, Move, PointerButton, ScreenQuery, Scroll, Type, Wait, WaitChange,
    WaitStable,
};
use hotdesk_wire::batch::{Action, Batch, BatchResult};
use hotdesk_wire::effect::ActionResult;

/// The routes of actions.
pub fn router() -> OpenApiRouter<Shared> {
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

/// Clicks: once, twice or three times, with modifiers held if asked.
#[utoipa::path(post, path = "/computers/{id}/click", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Click,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
pub(crate) async fn click(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Click>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::Click(body.clone()));
    act(state, caller, id, "/click", screen, &body, key, patience).await
}

/// Moves the pointer.
#[utoipa::path(post, path = "/computers/{id}/move", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Move,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn pointer_move(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Move>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::Move(body.clone()));
    act(state, caller, id, "/move", screen, &body, key, patience).await
}

/// Presses a button and leaves it down.
#[utoipa::path(post, path = "/computers/{id}/mouse_down", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = PointerButton,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn mouse_down(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<PointerButton>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::MouseDown(body.clone()));
    act(state, caller, id, "/mouse_down", screen, &body, key, patience).await
}

/// Lets a button come up.
#[utoipa::path(post, path = "/computers/{id}/mouse_up", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = PointerButton,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn mouse_up(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<PointerButton>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::MouseUp(body.clone()));
    act(state, caller, id, "/mouse_up", screen, &body, key, patience).await
}

/// Drags from one point to another, or along a path.
#[utoipa::path(post, path = "/computers/{id}/drag", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Drag,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn drag(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Drag>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::Drag(body.clone()));
    act(state, caller, id, "/drag", screen, &body, key, patience).await
}

/// Turns the wheel.
#[utoipa::path(post, path = "/computers/{id}/scroll", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Scroll,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn scroll(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Scroll>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::Scroll(body.clone()));
    act(state, caller, id, "/scroll", screen, &body, key, patience).await
}

/// Types a text.
#[utoipa::path(post, path = "/computers/{id}/type", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Type,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
pub(crate) async fn type_text(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Type>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::Type(body.clone()));
    act(state, caller, id, "/type", screen, &body, key, patience).await
}

/// Presses a key, a combination, or a sequence of them.
#[utoipa::path(post, path = "/computers/{id}/key", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Key,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
pub(crate) async fn key(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Key>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::Key(body.clone()));
    act(state, caller, id, "/key", screen, &body, key, patience).await
}

/// Presses a key and leaves it down.
#[utoipa::path(post, path = "/computers/{id}/key_down", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Key,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn key_down(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Key>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::KeyDown(body.clone()));
    act(state, caller, id, "/key_down", screen, &body, key, patience).await
}

/// Lets a key come up.
#[utoipa::path(post, path = "/computers/{id}/key_up", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Key,
    responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn key_up(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Key>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::KeyUp(body.clone()));
    act(state, caller, id, "/key_up", screen, &body, key, patience).await
}

/// Waits until the screen is quiet.
#[utoipa::path(post, path = "/computers/{id}/wait_stable", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = WaitStable,
    responses((status = 200, description = "Waited", body = ActionResult)))]
async fn wait_stable(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<WaitStable>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::WaitStable(body.clone()));
    act(state, caller, id, "/wait_stable", screen, &body, key, patience).await
}

/// Waits until something on the screen changes.
#[utoipa::path(post, path = "/computers/{id}/wait_change", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = WaitChange,
    responses((status = 200, description = "Waited", body = ActionResult)))]
async fn wait_change(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<WaitChange>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::WaitChange(body.clone()));
    act(state, caller, id, "/wait_change", screen, &body, key, patience).await
}

/// Where the pointer is, and which buttons and modifiers are down.
#[utoipa::path(get, path = "/computers/{id}/cursor_position", tag = "actions",
    params(("id" = String, Path), ScreenQuery),
    responses((status = 200, description = "Read from the screen", body = CursorPosition)))]
async fn cursor_position(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(screen): Query<ScreenQuery>,
) -> Result<Json<CursorPosition>> {
    let computer = app.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest_to_read(&computer).await?;
    Ok(Json(guest.call(Method::GET, "/cursor_position", screen, None::<&()>, QUICK).await?))
}

/// Does a list of actions in order on one screen, with nobody else's between them. It ends at the first that fails,
/// unless told otherwise, and answers each result.
#[utoipa::path(post, path = "/computers/{id}/actions", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = Batch,
    responses((status = 200, description = "Each action's result", body = BatchResult)))]
async fn actions(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Shaped(actions): Shaped<Batch>,
) -> Result<Acted<BatchResult>> {
    let patience = patience::list(&actions.actions);
    act(state, caller, id, "/actions", screen, &actions, key, patience).await
}

/// Waits.
#[utoipa::path(post, path = "/computers/{id}/wait", tag = "actions",
    params(("id" = String, Path), IdempotencyHeader), request_body = Wait,
    responses((status = 200, description = "Waited", body = ActionResult)))]
async fn wait(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Body(body): Body<Wait>,
) -> Result<Acted<ActionResult>> {
    let patience = patience::of(&Action::Wait(body.clone()));
    act(state, caller, id, "/wait", (), &body, key, patience).await
}

#[allow(clippy::too_many_arguments)] // a request's parts, taken apart by the extractors
pub(super) async fn act<Send: Serialize + Sync, Receive: DeserializeOwned>(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    path: &str,
    query: impl Serialize,
    body: &Send,
    IdempotencyKey(key): IdempotencyKey,
    patience: Duration,
) -> Result<Acted<Receive>> {
    let computer = app.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest(&computer).await?;
    Ok(guest.act(path, query, body, key, patience).await?)
}
