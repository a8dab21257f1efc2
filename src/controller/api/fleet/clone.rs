//! Clones, forks and moves over HTTP (interface.md "Clone", wire.md 5.2).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::coded::coded;
use super::snapshots;
use crate::Shared;
use crate::origin::Origin;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::Error;
use hotdesk_domain::name::Name;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::copies::{Extent, NewCopy};
use hotdesk_wire::clone::{CloneComputer, ComputerMoved, ForkComputer, MoveComputer};
use hotdesk_wire::computer::Computer;

/// The routes of clones, forks and moves.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(clone))
        .route_layer(map_response(|it: Response| async { coded(it, "CLONE_FAILED") }))
        .merge(forks())
        .routes(routes!(move_to))
}

fn forks() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(fork))
        .route_layer(map_response(|it: Response| async { coded(it, "FORK_FAILED") }))
}

/// Makes a copy of a computer with all that is on its disk; memory is not copied. The answer comes when the clone is
/// usable; a failure leaves nothing behind. Every error has a `code`.
#[utoipa::path(post, path = "/computers/{id}/clone", tag = "computers", params(("id" = String, Path)),
    request_body = CloneComputer,
    responses((status = 201, description = "The clone, running and always-on", body = Computer)))]
async fn clone(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<CloneComputer>,
) -> Result<(StatusCode, Json<Computer>)> {
    let source = app.find_computer(&caller, &id).await?;
    let name = wanted.name.as_deref().map(Name::parse).transpose()?;
    let workspace = match &wanted.target_project_id {
        Some(id) => Some(app.find_workspace(&caller, id).await?.id),
        None => None,
    };
    let id = ComputerId::random();
    let (extent, plans) = (Extent::Clone, app.plans.clone());
    let copy = NewCopy { id, source: source.id, extent, workspace, name, plans };
    let made = app.fleet.clone_computer(&source, copy).await?;
    Ok((StatusCode::CREATED, Json(app.told(&caller, &made, &origin).await)))
}

/// Makes a copy of a running computer with all that is on its disk and in its memory: its processes and windows go on in
/// both, and connections to the source may end. With a snapshot the copy goes on from that, many at once, and the
/// source may be in any state. The answer comes when the fork is usable; a failure leaves nothing behind. `NOT_FORKABLE`
/// where the engine copies no memory, or the snapshot holds none. Every error has a `code`.
#[utoipa::path(post, path = "/computers/{id}/fork", tag = "computers", params(("id" = String, Path)),
    request_body = ForkComputer,
    responses((status = 201, description = "The fork, running and always-on", body = Computer)))]
async fn fork(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<ForkComputer>,
) -> Result<(StatusCode, Json<Computer>)> {
    let source = app.find_computer(&caller, &id).await?;
    let snapshot = wanted.snapshot_id.as_deref().map(snapshots::parse).transpose()?;
    let copy = NewCopy {
        id: ComputerId::random(),
        source: source.id,
        extent: Extent::Fork(snapshot),
        workspace: None,
        name: wanted.name.as_deref().map(Name::parse).transpose()?,
        plans: app.plans.clone(),
    };
    let made = app.fleet.fork(&source, copy).await?;
    Ok((StatusCode::CREATED, Json(app.told(&caller, &made, &origin).await)))
}

/// Gives a computer to another workspace of the same owner; it goes on as it is. It gets another password where a member or
/// a key of the workspace before does not reach the other one.
#[utoipa::path(patch, path = "/computers/{id}/move", tag = "computers", params(("id" = String, Path)),
    request_body = MoveComputer, responses((status = 200, description = "It has moved", body = ComputerMoved)))]
async fn move_to(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<MoveComputer>,
) -> Result<Json<ComputerMoved>> {
    let computer = app.find_computer(&caller, &id).await?;
    let target = wanted.workspace_id.as_ref().or(wanted.project_id.as_ref());
    let target = target.ok_or_else(|| Error::invalid("workspace_id is missing"))?;
    let target = app.find_workspace(&caller, target).await?;
    if target.account != computer.owner {
        // It would leave its owner's plan for another's, and its owner without it.
        return Err(Error::forbidden(
            "A computer moves between workspaces of one owner only; clone it instead",
        )
        .into());
    }
    let target = target.id;
    if target == computer.workspace {
        return Err(Error::invalid("The computer is in this workspace already").into());
    }
    let streams = app.store.move_computer(computer.id, target).await?;
    app.end_streams(streams);
    Ok(Json(ComputerMoved {
        success: true,
        workspace_id: target.to_string(),
        project_id: target.to_string(),
    }))
}
