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
use hotdesk_wire::desktop::action::{self, Action, CursorPosition, ScreenQuery, Wait};
use hotdesk_wire::desktop::batch::{Batch, BatchResult};
use hotdesk_wire::desktop::effect::ActionResult;

/// Returns the routes of actions.
pub fn router() -> OpenApiRouter<AppState> {
    single().routes(routes!(cursor_position)).routes(routes!(actions)).routes(routes!(wait))
}

macro_rules! action_routes {
    ($($(#[$doc:meta])* $variant:ident($body:ident) = $name:tt
        $({ handler: $handler:ident, summary: $summary:tt, answer: $answer:tt, })?,)*) => {
        /// Routes of single actions.
        fn single() -> OpenApiRouter<AppState> {
            OpenApiRouter::new()$($(.routes(routes!($handler)))?)*
        }

        $($(#[utoipa::path(post, path = concat!("/computers/{id}/", $name), tag = "actions", summary = $summary,
            params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = action::$body,
            responses((status = 200, description = $answer, body = ActionResult)))]
        async fn $handler(
            state: State<AppState>,
            caller: AuthenticatedCaller,
            key: IdempotencyKey,
            id: Path<String>,
            Query(screen): Query<ScreenQuery>,
            Body(body): Body<action::$body>,
        ) -> Result<ActionReply<ActionResult>> {
            perform(state, caller, id, screen, Action::$variant(body), key).await
        })?)*
    };
}

hotdesk_wire::for_each_action!(action_routes);

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
    perform(state, caller, id, (), Action::Wait(body), key).await
}

/// Performs one action on a computer.
///
/// # Errors
/// `NotFound` or `Forbidden` for the computer; the errors of `Fleet::guest` when it does not run; the agent's
/// own error; `TimedOut` after the action's longest duration and a margin.
pub(crate) async fn perform(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    id: Path<String>,
    query: impl Serialize,
    action: Action,
    key: IdempotencyKey,
) -> Result<ActionReply<ActionResult>> {
    let (path, timeout) = (format!("/{}", action.name()), timeouts::for_action(&action));
    act(state, caller, id, &path, query, &action.fields(), key, timeout).await
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
