//! Clones and moves over HTTP (interface.md "Clone", wire.md 5.2).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::base::ids::ComputerId;
use crate::controller::Shared;
use crate::controller::computers::view;
use crate::controller::origin::Origin;
use crate::domain::access::Caller;
use crate::domain::error::{Error, Kind, Result};
use crate::domain::name::Name;
use crate::http::extract::{Json as Body, Path};
use crate::http::refuse::Carried;
use crate::store::copies::NewCopy;
use crate::wire::clone::{CloneComputer, ComputerMoved, MoveComputer};
use crate::wire::computer::Computer;

/// The routes of clones and moves.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(clone))
        .route_layer(axum::middleware::map_response(coded))
        .routes(routes!(move_to))
}

/// Makes a copy of a computer with all that is on its disk; memory is not copied. The answer comes when the clone is
/// usable; a failure leaves nothing behind. Every error has a `code`.
#[utoipa::path(post, path = "/computers/{id}/clone", tag = "computers", params(("id" = String, Path)),
    request_body = CloneComputer,
    responses((status = 201, description = "The clone, running and always-on", body = Computer)))]
async fn clone(
    State(app): State<Shared>,
    caller: Caller,
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
    let copy = NewCopy { id, source: source.id, workspace, name, allowance: app.config.limits.allowance() };
    let made = app.fleet.clone_computer(&source, copy).await?;
    Ok((StatusCode::CREATED, Json(view::full(&made, app.fleet.live(made.id), &origin))))
}

/// interface.md "Clone" rule 6: every error body carries a `code`, also those that have none elsewhere.
async fn coded(mut response: Response) -> Response {
    if let Some(Carried(error)) = response.extensions_mut().get_mut::<Carried>()
        && error.code.is_none()
    {
        Arc::make_mut(error).code = Some(code(error.kind));
    }
    response
}

fn code(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid | Kind::TooLarge | Kind::UnsupportedMedia => "INVALID_REQUEST",
        Kind::Unauthenticated => "UNAUTHENTICATED",
        Kind::Forbidden => "ACCESS_DENIED",
        Kind::NotFound => "NOT_FOUND",
        Kind::Conflict => "CONFLICT",
        Kind::RateLimited => "RATE_LIMITED",
        Kind::Internal => "CLONE_FAILED",
        Kind::Unavailable => "UNAVAILABLE",
        Kind::TimedOut => "TIMED_OUT",
    }
}

/// Gives a computer to another workspace; it goes on as it is.
#[utoipa::path(patch, path = "/computers/{id}/move", tag = "computers", params(("id" = String, Path)),
    request_body = MoveComputer, responses((status = 200, description = "It has moved", body = ComputerMoved)))]
async fn move_to(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Body(wanted): Body<MoveComputer>,
) -> Result<Json<ComputerMoved>> {
    let computer = app.find_computer(&caller, &id).await?;
    let target = wanted.workspace_id.as_ref().or(wanted.project_id.as_ref());
    let target = target.ok_or_else(|| Error::invalid("workspace_id is missing"))?;
    let target = app.find_workspace(&caller, target).await?.id;
    if target == computer.workspace {
        return Err(Error::invalid("The computer is in this workspace already"));
    }
    app.store.move_computer(computer.id, target).await?;
    Ok(Json(ComputerMoved {
        success: true,
        workspace_id: target.to_string(),
        project_id: target.to_string(),
    }))
}
