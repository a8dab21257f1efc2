//! Clones, forks and moves over HTTP (docs/lifecycle.md#clone).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::snapshots;
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::web::origin::Origin;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::Error;
use hotdesk_domain::name::Name;
use hotdesk_domain::secret::may_use_account_secrets;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::fleet::copies::{Extent, NewCopy};
use hotdesk_wire::computer::Computer;
use hotdesk_wire::computer::clone::{CloneComputer, ComputerMoved, ForkComputer, MoveComputer};

/// Returns the routes of clones, forks and moves.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(clone)).routes(routes!(fork)).routes(routes!(move_to))
}

/// Clones a computer with its disk, without its memory.
///
/// The response comes when the clone is usable; a failed clone is removed. Every error has a `code`.
#[utoipa::path(post, path = "/computers/{id}/clone", tag = "computers", params(("id" = String, Path)),
    request_body = CloneComputer,
    responses((status = 201, description = "The clone: running, without auto-stop", body = Computer)))]
pub(crate) async fn clone(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<CloneComputer>,
) -> Result<(StatusCode, Json<Computer>)> {
    let source = app.directory.find_computer(&caller, &id).await?;
    let name = wanted.name.as_deref().map(Name::parse).transpose()?;
    let (workspace, owner) = match &wanted.target_project_id {
        Some(id) => {
            let target = app.directory.find_workspace(&caller, id).await?;
            (Some(target.id), target.account)
        }
        None => (None, source.owner),
    };
    // The copy must not get secrets of another account than its source did.
    let account_secrets = owner == source.owner && may_use_account_secrets(&caller, owner);
    let id = ComputerId::random();
    let (extent, plans) = (Extent::Clone, app.plans.clone());
    let encrypt = app.config.encryption.computers;
    let copy = NewCopy { id, source: source.id, extent, workspace, name, encrypt, account_secrets, plans };
    let made = app.fleet.clone_computer(&source, copy).await?;
    Ok((StatusCode::CREATED, Json(app.directory.record_for(&caller, &made, &origin).await)))
}

/// Forks a running computer with its disk and memory.
///
/// Processes and windows continue in both; connections to the source may end. With a snapshot the fork starts
/// from that, many can be created concurrently, and the source may be in any state. The response comes when
/// the fork is usable; a failed fork is removed. `NOT_FORKABLE`: the engine cannot copy memory, or the
/// snapshot has none. Every error has a `code`.
#[utoipa::path(post, path = "/computers/{id}/fork", tag = "computers", params(("id" = String, Path)),
    request_body = ForkComputer,
    responses((status = 201, description = "The fork: running, without auto-stop", body = Computer)))]
pub(crate) async fn fork(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<ForkComputer>,
) -> Result<(StatusCode, Json<Computer>)> {
    let source = app.directory.find_computer(&caller, &id).await?;
    let snapshot = wanted.snapshot_id.as_deref().map(snapshots::parse).transpose()?;
    let copy = NewCopy {
        id: ComputerId::random(),
        source: source.id,
        extent: Extent::Fork(snapshot),
        workspace: None,
        name: wanted.name.as_deref().map(Name::parse).transpose()?,
        encrypt: app.config.encryption.computers,
        account_secrets: may_use_account_secrets(&caller, source.owner),
        plans: app.plans.clone(),
    };
    let made = app.fleet.fork(&source, copy).await?;
    Ok((StatusCode::CREATED, Json(app.directory.record_for(&caller, &made, &origin).await)))
}

/// Moves a computer to another workspace of the same owner, without interrupting it.
///
/// Its password changes when some members or keys of the old workspace have no access to the new one.
#[utoipa::path(patch, path = "/computers/{id}/move", tag = "computers", params(("id" = String, Path)),
    request_body = MoveComputer,
    responses((status = 200, description = "The computer was moved", body = ComputerMoved)))]
pub(crate) async fn move_to(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<MoveComputer>,
) -> Result<Json<ComputerMoved>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let target = wanted.workspace_id.as_ref().or(wanted.project_id.as_ref());
    let target = target.ok_or_else(|| Error::invalid("workspace_id is missing"))?;
    let target = app.directory.find_workspace(&caller, target).await?;
    if target.account != computer.owner {
        // Otherwise the computer would count for another owner's plan, and its owner would lose it.
        return Err(Error::forbidden(
            "A computer moves between workspaces of one owner only; clone it instead",
        )
        .into());
    }
    let target = target.id;
    let account_secrets = may_use_account_secrets(&caller, computer.owner);
    if target == computer.workspace {
        return Err(Error::invalid("The computer is already in this workspace").into());
    }
    let streams = app.store.move_computer(computer.id, target, account_secrets).await?;
    app.streams.end(streams);
    Ok(Json(ComputerMoved {
        success: true,
        workspace_id: target.to_string(),
        project_id: target.to_string(),
    }))
}
