//! Input and wait actions over HTTP (docs/api/actions.md). The computer's agent validates and performs them.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::timeouts;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::{ActionReply, QUICK_TIMEOUT};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{AnyJson, Json as Body, Path, Query};
use hotdesk_http::idempotency::{IdempotencyHeader, IdempotencyKey, digest_header};
use hotdesk_wire::desktop::action::{self, Action, CursorPosition, ScreenQuery, Wait};
use hotdesk_wire::desktop::batch::{ActionList, Batch, BatchResult};
use hotdesk_wire::desktop::effect::ActionResult;

/// Returns the routes of actions.
pub fn router<R: ApiRouter>() -> R {
    single::<R>().routes(routes!(cursor_position)).routes(routes!(actions)).routes(routes!(wait))
}

macro_rules! action_routes {
    ($($(#[$doc:meta])* $variant:ident($body:ident) = $name:tt
        $({ handler: $handler:ident, summary: $summary:tt, answer: $answer:tt, })?,)*) => {
        /// Routes of single actions.
        fn single<R: ApiRouter>() -> R {
            R::new()$($(.routes(routes!($handler)))?)*
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
/// `{{secret:NAME}}` in a text types the value of a secret.
///
/// With `format`, the actions are those of a model's vocabulary: inputs of Anthropic's `computer` tool, or
/// actions of OpenAI's `computer_call`. The response then ends with a screenshot of the settled screen.
#[utoipa::path(post, path = "/computers/{id}/actions", tag = "actions",
    params(("id" = String, Path), ScreenQuery, IdempotencyHeader), request_body = ActionList,
    responses((status = 200, description = "The result of each action", body = BatchResult)))]
async fn actions(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<String>,
    Query(screen): Query<ScreenQuery>,
    AnyJson(mut batch): AnyJson<Batch>,
) -> Result<ActionReply<BatchResult>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let digest = digest_for(key.as_ref(), &batch)?;
    app.secrets.fill(&caller, &computer, &mut batch.actions).await?;
    let timeout = timeouts::for_list(&batch);
    let guest = app.fleet.guest(&computer).await?.acting_as(Actor::of(&caller));
    Ok(guest.act("/actions", screen, &batch, key, digest, timeout).await?)
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

/// Performs one action on a computer. Secrets in its text are filled in.
///
/// # Errors
/// `NotFound` or `Forbidden` for the computer; those of
/// [`Secrets::fill`](crate::identity::secrets::Secrets::fill); the errors of `Fleet::guest` when it does not
/// run; the agent's own error; `TimedOut` after the action's longest duration and a margin.
pub(crate) async fn perform(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    query: impl Serialize,
    mut action: Action,
    IdempotencyKey(key): IdempotencyKey,
) -> Result<ActionReply<ActionResult>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let digest = digest_for(key.as_ref(), &action.fields())?;
    app.secrets.fill(&caller, &computer, std::slice::from_mut(&mut action)).await?;
    let (path, timeout) = (format!("/{}", action.name()), timeouts::for_action(&action));
    let guest = app.fleet.guest(&computer).await?.acting_as(Actor::of(&caller));
    Ok(guest.act(&path, query, &action.fields(), key, digest, timeout).await?)
}

/// Returns the digest of a keyed request for its agent: of the body before secrets are filled in.
fn digest_for(key: Option<&HeaderValue>, body: &impl Serialize) -> Result<Option<HeaderValue>> {
    if key.is_none() {
        return Ok(None);
    }
    let body = serde_json::to_vec(body).map_err(Error::internal)?;
    Ok(Some(digest_header(&body)?))
}

/// Sends a command to a computer.
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
    let guest = app.fleet.guest(&computer).await?.acting_as(Actor::of(&caller));
    Ok(guest.act(path, query, body, key, None, timeout).await?)
}
