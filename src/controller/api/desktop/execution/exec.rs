//! Commands and Python over HTTP (wire.md 6): handed to the computer's agent, which checks and runs them.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::Method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::actions::act;
use super::patience;
use crate::Shared;
use hotdesk_guest::{Acted, QUICK, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_http::idempotency::{IdempotencyHeader, IdempotencyKey};
use hotdesk_wire::action::Done;
use hotdesk_wire::exec::{Bash, BashResult, Exec, ExecResult, SessionList};

/// The routes of commands and Python sessions.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(bash))
        .routes(routes!(exec))
        .routes(routes!(sessions))
        .routes(routes!(end_session))
}

/// Runs a shell command.
#[utoipa::path(post, path = "/computers/{id}/bash", tag = "actions",
    params(("id" = String, Path), IdempotencyHeader), request_body = Bash,
    responses((status = 200, description = "Run, whatever its exit code", body = BashResult)))]
pub(crate) async fn bash(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Body(body): Body<Bash>,
) -> Result<Acted<BashResult>> {
    act(state, caller, id, "/bash", (), &body, key, patience::command(body.timeout)).await
}

/// Runs Python code.
#[utoipa::path(post, path = "/computers/{id}/exec", tag = "actions",
    params(("id" = String, Path), IdempotencyHeader), request_body = Exec,
    responses((status = 200, description = "Run, whatever came of it", body = ExecResult)))]
async fn exec(
    state: State<Shared>,
    caller: Authenticated,
    key: IdempotencyKey,
    id: Path<String>,
    Body(body): Body<Exec>,
) -> Result<Acted<ExecResult>> {
    act(state, caller, id, "/exec", (), &body, key, patience::command(body.timeout)).await
}

/// The Python sessions, which `exec` starts by naming one.
#[utoipa::path(get, path = "/computers/{id}/sessions", tag = "execution", params(("id" = String, Path)),
    responses((status = 200, description = "By name", body = SessionList)))]
async fn sessions(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<SessionList>> {
    let computer = app.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest_to_read(&computer).await?;
    Ok(Json(guest.call(Method::GET, "/sessions", (), None::<&()>, QUICK).await?))
}

/// Ends a Python session with everything that it started.
#[utoipa::path(delete, path = "/computers/{id}/sessions/{session_name}", tag = "execution",
    params(("id" = String, Path), ("session_name" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn end_session(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let computer = app.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest(&computer).await?;
    let path = format!("/sessions/{}", percent_encode(&name));
    Ok(Json(guest.call(Method::DELETE, &path, (), None::<&()>, QUICK).await?))
}
