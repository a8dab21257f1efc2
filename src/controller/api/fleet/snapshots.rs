//! Snapshots and rollback over HTTP. The specification names the verbs and no shapes: those of computers are followed.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::coded::coded;
use crate::Shared;
use hotdesk_base::clock::iso8601;
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::error::Error;
use hotdesk_domain::lifecycle::Status;
use hotdesk_domain::name::Name;
use hotdesk_domain::snapshot::State as Stage;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_store::snapshots::{NewSnapshot, Snapshot as Stored, no_snapshot};
use hotdesk_wire::action::Done;
use hotdesk_wire::snapshot::{
    CreateSnapshot, RollBack, RolledBack, Snapshot, SnapshotList, SnapshotListQuery,
};

/// Most snapshots on one page of a list.
const MAX_PAGE: u32 = 1000;

/// The routes of snapshots.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, delete))
        .routes(routes!(roll_back))
        .route_layer(map_response(|it: Response| async { coded(it, "SNAPSHOT_FAILED") }))
}

/// Keeps a computer as it is at one moment: its disk, and with `memory` its processes and windows too, where its engine
/// can. The computer goes on. With memory, connections to the computer may end.
#[utoipa::path(post, path = "/computers/{id}/snapshots", tag = "snapshots", params(("id" = String, Path)),
    request_body = CreateSnapshot,
    responses((status = 201, description = "It is ready", body = Snapshot),
        (status = 202, description = "It is still being made; poll it", body = Snapshot)))]
async fn create(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<CreateSnapshot>,
) -> Result<(StatusCode, Json<Snapshot>)> {
    let computer = app.find_computer(&caller, &id).await?;
    let new = NewSnapshot {
        id: SnapshotId::random(),
        name: wanted.name.as_deref().map(Name::parse).transpose()?,
        memory: wanted.memory,
        allowance: app.allowance(computer.owner).await?,
    };
    let made = app.fleet.snapshot(&computer, new).await?;
    let code = if made.state == Stage::Ready { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    Ok((code, Json(shown(made))))
}

/// The snapshots of a computer.
#[utoipa::path(get, path = "/computers/{id}/snapshots", tag = "snapshots",
    params(("id" = String, Path), SnapshotListQuery),
    responses((status = 200, description = "A page of them, oldest first", body = SnapshotList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(query): Query<SnapshotListQuery>,
) -> Result<Json<SnapshotList>> {
    let computer = app.find_computer(&caller, &id).await?;
    let limit = query.limit.unwrap_or(MAX_PAGE);
    if limit == 0 || limit > MAX_PAGE {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let offset = query.offset.unwrap_or(0);
    // A computer has few: they are read at once.
    let all = app.store.snapshots(computer.id).await?;
    let total = all.len() as u64;
    let page = all.into_iter().skip(offset as usize).take(limit as usize);
    let snapshots: Vec<Snapshot> = page.map(shown).collect();
    let next = u64::from(offset) + snapshots.len() as u64;
    let next_offset = (next < total && !snapshots.is_empty()).then_some(next);
    Ok(Json(SnapshotList { snapshots, total, next_offset }))
}

/// One snapshot.
#[utoipa::path(get, path = "/computers/{id}/snapshots/{snapshot_id}", tag = "snapshots",
    params(("id" = String, Path), ("snapshot_id" = String, Path)),
    responses((status = 200, description = "The snapshot", body = Snapshot)))]
async fn get(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, snapshot)): Path<(String, String)>,
) -> Result<Json<Snapshot>> {
    let computer = app.find_computer(&caller, &id).await?;
    Ok(Json(shown(app.store.snapshot(computer.id, parse(&snapshot)?).await?)))
}

/// Removes a snapshot; the computer goes on.
#[utoipa::path(delete, path = "/computers/{id}/snapshots/{snapshot_id}", tag = "snapshots",
    params(("id" = String, Path), ("snapshot_id" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn delete(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, snapshot)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let computer = app.find_computer(&caller, &id).await?;
    app.fleet.remove_snapshot(&computer, parse(&snapshot)?).await?;
    Ok(Json(Done { success: true }))
}

/// Brings a computer back to one of its snapshots; what was done since is lost, and the snapshot stays. A running computer
/// is stopped and runs again afterwards: from the memory of the snapshot if that holds any, else by a boot. Any other is
/// suspended or stopped afterwards. The password of one that runs changes. With memory come the vCPUs and the RAM of that
/// time (409 `snapshot_too_large` where the account has no room for them); a disk that has grown stays as large.
#[utoipa::path(post, path = "/computers/{id}/rollback", tag = "snapshots", params(("id" = String, Path)),
    request_body = RollBack,
    responses((status = 200, description = "It is done", body = RolledBack),
        (status = 202, description = "It is under way; poll the computer", body = RolledBack)))]
async fn roll_back(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<RollBack>,
) -> Result<(StatusCode, Json<RolledBack>)> {
    let computer = app.find_computer(&caller, &id).await?;
    let snapshot = parse(&wanted.snapshot_id)?;
    let status = app.fleet.roll_back(&computer, snapshot, app.allowance(computer.owner).await?).await?;
    let at_rest = matches!(status, Status::Running | Status::Stopped | Status::Suspended);
    let code = if at_rest { StatusCode::OK } else { StatusCode::ACCEPTED };
    let answer =
        RolledBack { success: true, status: status.name().to_owned(), snapshot_id: snapshot.to_string() };
    Ok((code, Json(answer)))
}

/// The id of a snapshot that a client names.
pub(super) fn parse(id: &str) -> Result<SnapshotId> {
    Ok(id.parse().map_err(|_| no_snapshot())?)
}

fn shown(stored: Stored) -> Snapshot {
    Snapshot {
        id: stored.id.to_string(),
        computer_id: stored.computer.to_string(),
        name: stored.name,
        state: stored.state.name().to_owned(),
        memory: stored.memory,
        size_bytes: (stored.state != Stage::Creating).then_some(stored.bytes),
        created_at: iso8601(stored.created_at),
    }
}
