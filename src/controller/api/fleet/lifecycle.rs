//! Start, stop, restart and ensure-running over HTTP (docs/lifecycle.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::web::origin::Origin;
use hotdesk_domain::computer::lifecycle::Command;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::computer::{Computer, Transition};

/// Returns the routes of the lifecycle.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(restart))
        .routes(routes!(ensure_running))
}

/// Starts a stopped computer, or resumes a suspended one with its memory.
///
/// The response comes when the change is stored; poll the computer for `running`.
#[utoipa::path(post, path = "/computers/{id}/start", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "In progress, or already in this state", body = Transition)))]
pub(crate) async fn start(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<String>,
) -> Result<Json<Transition>> {
    send_command(state, caller, path, Command::Start).await
}

/// Stops a running or suspended computer.
///
/// Its disk stays; the contents of its memory are lost.
#[utoipa::path(post, path = "/computers/{id}/stop", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "In progress, or already in this state", body = Transition)))]
pub(crate) async fn stop(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<String>,
) -> Result<Json<Transition>> {
    send_command(state, caller, path, Command::Stop).await
}

/// Restarts a running or suspended computer from its disk. Its password changes.
#[utoipa::path(post, path = "/computers/{id}/restart", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "In progress, or already in this state", body = Transition)))]
pub(crate) async fn restart(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<String>,
) -> Result<Json<Transition>> {
    send_command(state, caller, path, Command::Restart).await
}

/// Starts or resumes a computer if necessary.
///
/// The response comes when it is usable.
#[utoipa::path(post, path = "/computers/{id}/ensure-running", tag = "lifecycle",
    params(("id" = String, Path)),
    responses((status = 200, description = "The running computer", body = Computer)))]
pub(crate) async fn ensure_running(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Json<Computer>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let computer = app.fleet.ensure_running(&computer).await?;
    Ok(Json(app.directory.record_for(&caller, &computer, &origin).await))
}

async fn send_command(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    command: Command,
) -> Result<Json<Transition>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let status = app.fleet.command(&computer, command).await?.status;
    Ok(Json(Transition { success: true, status: status.name().to_owned() }))
}
