//! Start, stop, restart, ensure-running over HTTP (wire.md 5.2).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::origin::Origin;
use hotdesk_domain::lifecycle::Command;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::computer::{Computer, Transition};

/// The routes of the lifecycle.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(restart))
        .routes(routes!(ensure_running))
}

/// Starts a stopped computer, and wakes a suspended one with what was in its memory. The answer
/// comes when the change is stored; poll the computer for `running`.
#[utoipa::path(post, path = "/computers/{id}/start", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "Under way, or so already", body = Transition)))]
pub(crate) async fn start(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<String>,
) -> Result<Json<Transition>> {
    hand_over(state, caller, path, Command::Start).await
}

/// Stops a running or suspended computer; its disk is kept, what was in its memory is gone.
#[utoipa::path(post, path = "/computers/{id}/stop", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "Under way, or so already", body = Transition)))]
pub(crate) async fn stop(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<String>,
) -> Result<Json<Transition>> {
    hand_over(state, caller, path, Command::Stop).await
}

/// Restarts a running or suspended computer from its disk; its password changes.
#[utoipa::path(post, path = "/computers/{id}/restart", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "Under way, or so already", body = Transition)))]
async fn restart(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<String>,
) -> Result<Json<Transition>> {
    hand_over(state, caller, path, Command::Restart).await
}

/// Brings a computer up if it is not, and answers when it is usable.
#[utoipa::path(post, path = "/computers/{id}/ensure-running", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "The running computer", body = Computer)))]
async fn ensure_running(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Json<Computer>> {
    let computer = app.find_computer(&caller, &id).await?;
    let computer = app.fleet.ensure_running(&computer).await?;
    Ok(Json(app.told(&caller, &computer, &origin).await))
}

async fn hand_over(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    command: Command,
) -> Result<Json<Transition>> {
    let computer = app.find_computer(&caller, &id).await?;
    let status = app.fleet.command(&computer, command).await?.status;
    Ok(Json(Transition { success: true, status: status.name().to_owned() }))
}
