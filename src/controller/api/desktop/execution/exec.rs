//! Shell commands and Python over HTTP (docs/api/actions.md). The computer's agent runs them.

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::actions::act;
use crate::api::desktop::timeouts;
use hotdesk_guest::{ActionReply, QUICK_TIMEOUT, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_http::idempotency::{IdempotencyHeader, IdempotencyKey};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::bash::Bash;
use hotdesk_wire::programs::exec::{BashResult, Exec, ExecResult, SessionList};

/// Returns the routes of commands and Python sessions.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(bash))
        .routes(routes!(exec))
        .routes(routes!(sessions))
        .routes(routes!(end_session))
}

/// Runs a shell command.
#[utoipa::path(post, path = "/computers/{id}/bash", tag = "actions",
    params(("id" = String, Path), IdempotencyHeader), request_body = Bash,
    responses((status = 200, description = "The command ended, with any exit code", body = BashResult)))]
pub(crate) async fn bash(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Body(body): Body<Bash>,
) -> Result<ActionReply<BashResult>> {
    act(state, caller, id, "/bash", (), &body, key, timeouts::for_command(body.timeout)).await
}

/// Runs Python code.
#[utoipa::path(post, path = "/computers/{id}/exec", tag = "actions",
    params(("id" = String, Path), IdempotencyHeader), request_body = Exec,
    responses((status = 200, description = "The code ended, with or without an error", body = ExecResult)))]
pub(crate) async fn exec(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    id: Path<String>,
    Body(body): Body<Exec>,
) -> Result<ActionReply<ExecResult>> {
    act(state, caller, id, "/exec", (), &body, key, timeouts::for_command(body.timeout)).await
}

/// Lists the Python sessions.
///
/// `exec` starts a session by naming it.
#[utoipa::path(get, path = "/computers/{id}/sessions", tag = "execution", params(("id" = String, Path)),
    responses((status = 200, description = "The sessions, sorted by name", body = SessionList)))]
async fn sessions(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<SessionList>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest_to_read(&computer).await?;
    Ok(Json(guest.call(Method::GET, "/sessions", (), None::<&()>, QUICK_TIMEOUT).await?))
}

/// Ends a Python session with everything that it started.
#[utoipa::path(delete, path = "/computers/{id}/sessions/{session_name}", tag = "execution",
    params(("id" = String, Path), ("session_name" = String, Path)),
    responses((status = 200, description = "The session has ended", body = Acknowledgement)))]
async fn end_session(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<Acknowledgement>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest(&computer).await?;
    let path = format!("/sessions/{}", percent_encode(&name));
    Ok(Json(guest.call(Method::DELETE, &path, (), None::<&()>, QUICK_TIMEOUT).await?))
}
