//! Snapshots and rollback over HTTP (docs/lifecycle.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_base::ids::SnapshotId;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::snapshot::SnapshotState as Stage;
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::name::Name;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_http::headers::image_headers::IfNoneMatch;
use hotdesk_http::untrusted_content::confine;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::snapshots::{NewSnapshot, Snapshot as SnapshotRow, snapshot_not_found};
use hotdesk_wire::computer::snapshot::{
    CreateSnapshot, RollBack, RollbackResult, Snapshot, SnapshotList, SnapshotListQuery,
};
use hotdesk_wire::desktop::action::Acknowledgement;

/// Most snapshots on one page of a list.
const MAX_PAGE: u32 = 1000;

/// Returns the routes of snapshots.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list, create))
        .routes(routes!(get, delete))
        .routes(routes!(snapshot_picture))
        .routes(routes!(roll_back))
}

/// Creates a snapshot of a computer: its disk, and with `memory` also its processes and windows, if its
/// engine can.
///
/// The computer continues to run. With memory, connections to it may end.
#[utoipa::path(post, path = "/computers/{id}/snapshots", tag = "snapshots", params(("id" = String, Path)),
    request_body = CreateSnapshot,
    responses((status = 201, description = "The snapshot is ready", body = Snapshot),
        (status = 202, description = "The snapshot is being created; poll it", body = Snapshot)))]
pub(crate) async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<CreateSnapshot>,
) -> Result<(StatusCode, Json<Snapshot>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let new = NewSnapshot {
        id: SnapshotId::random(),
        name: wanted.name.as_deref().map(Name::parse).transpose()?,
        memory: wanted.memory,
        allowance: app.billing.allowance(computer.owner).await?,
    };
    let made = app.fleet.snapshot(&computer, new).await?;
    let code = if made.state == Stage::Ready { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    Ok((code, Json(snapshot_record(made))))
}

/// Lists the snapshots of a computer.
#[utoipa::path(get, path = "/computers/{id}/snapshots", tag = "snapshots",
    params(("id" = String, Path), SnapshotListQuery),
    responses((status = 200, description = "A page of snapshots, oldest first", body = SnapshotList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<SnapshotListQuery>,
) -> Result<Json<SnapshotList>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let limit = query.limit.unwrap_or(MAX_PAGE);
    if limit == 0 || limit > MAX_PAGE {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let offset = query.offset.unwrap_or(0);
    // A computer has few snapshots, so all are read.
    let all = app.store.snapshots(computer.id).await?;
    let total = all.len() as u64;
    let page = all.into_iter().skip(offset as usize).take(limit as usize);
    let snapshots: Vec<Snapshot> = page.map(snapshot_record).collect();
    let next = u64::from(offset) + snapshots.len() as u64;
    let next_offset = (next < total && !snapshots.is_empty()).then_some(next);
    Ok(Json(SnapshotList { snapshots, total, next_offset }))
}

/// Returns a snapshot.
#[utoipa::path(get, path = "/computers/{id}/snapshots/{snapshot_id}", tag = "snapshots",
    params(("id" = String, Path), ("snapshot_id" = String, Path)),
    responses((status = 200, description = "The snapshot", body = Snapshot)))]
async fn get(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, snapshot)): Path<(String, String)>,
) -> Result<Json<Snapshot>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    Ok(Json(snapshot_record(app.store.snapshot(computer.id, parse(&snapshot)?).await?)))
}

/// Returns a small picture of the boot screen when the snapshot was taken.
///
/// A snapshot has one if the computer ran and its screen answered in time. 404 `no_picture` otherwise, for
/// encrypted computers, and when newer pictures took the place. The
/// picture never changes: a client that sends its entity tag in `If-None-Match` gets 304.
#[utoipa::path(get, path = "/computers/{id}/snapshots/{snapshot_id}/picture", tag = "snapshots",
    params(("id" = String, Path), ("snapshot_id" = String, Path),
        ("If-None-Match" = Option<String>, Header,
            description = "Entity tags of pictures that the client has")),
    responses(
        (status = 200, description = "JPEG of at most 480 by 480 pixels", body = String,
            content_type = "image/jpeg",
            headers(("ETag" = String, description = "The entity tag of the picture"))),
        (status = 304, description = "The client has the picture")))]
async fn snapshot_picture(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, snapshot)): Path<(String, String)>,
    held: IfNoneMatch,
) -> Result<Response> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let missing = || Error::not_found("The snapshot has no picture").code(ErrorCode::NoPicture);
    let picture = app.store.snapshot(computer.id, parse(&snapshot)?).await?.picture.ok_or_else(missing)?;
    let name = picture.to_string();
    let mut response = if held.0.iter().any(|tag| **tag == *name) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let bytes = app.fleet.snapshot_pictures().read(picture).await?.ok_or_else(missing)?;
        ([(header::CONTENT_TYPE, "image/jpeg")], bytes).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::try_from(format!("\"{name}\"")).map_err(Error::internal)?);
    // A browser may keep it, and asks each time whether its reader still has access.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    confine(headers);
    Ok(response)
}

/// Deletes a snapshot. The computer is not affected.
#[utoipa::path(delete, path = "/computers/{id}/snapshots/{snapshot_id}", tag = "snapshots",
    params(("id" = String, Path), ("snapshot_id" = String, Path)),
    responses((status = 200, description = "The snapshot was deleted", body = Acknowledgement)))]
pub(crate) async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, snapshot)): Path<(String, String)>,
) -> Result<Json<Acknowledgement>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    app.fleet.remove_snapshot(&computer, parse(&snapshot)?).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Rolls a computer back to one of its snapshots.
///
/// Later changes are lost; the snapshot stays. A running computer is stopped and runs again afterwards: from
/// the snapshot's memory if it has any, otherwise by a boot. Any other computer is suspended or stopped
/// afterwards. The password of a running one changes. With memory, the computer gets the vCPUs and RAM of the
/// snapshot (409 `snapshot_too_large` when the account's limits do not allow them). A disk that has grown
/// keeps its size.
#[utoipa::path(post, path = "/computers/{id}/rollback", tag = "snapshots", params(("id" = String, Path)),
    request_body = RollBack,
    responses((status = 200, description = "The rollback is complete", body = RollbackResult),
        (status = 202, description = "The rollback is in progress; poll the computer",
        body = RollbackResult)))]
pub(crate) async fn roll_back(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<RollBack>,
) -> Result<(StatusCode, Json<RollbackResult>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let snapshot = parse(&wanted.snapshot_id)?;
    let (code, status) = roll_back_to(&app, &computer, snapshot).await?;
    let answer =
        RollbackResult { success: true, status: status.name().to_owned(), snapshot_id: snapshot.to_string() };
    Ok((code, Json(answer)))
}

/// Rolls a computer back. Returns its status, and that of the answer: 202 while the rollback is in progress.
pub(in crate::api) async fn roll_back_to(
    app: &AppState,
    computer: &Computer,
    snapshot: SnapshotId,
) -> Result<(StatusCode, Status)> {
    let allowance = app.billing.allowance(computer.owner).await?;
    let status = app.fleet.roll_back(computer, snapshot, allowance).await?;
    let is_settled = matches!(status, Status::Running | Status::Stopped | Status::Suspended);
    Ok((if is_settled { StatusCode::OK } else { StatusCode::ACCEPTED }, status))
}

/// Parses the id of a snapshot.
pub(super) fn parse(id: &str) -> Result<SnapshotId> {
    Ok(id.parse().map_err(|_| snapshot_not_found())?)
}

fn snapshot_record(stored: SnapshotRow) -> Snapshot {
    Snapshot {
        id: stored.id.to_string(),
        computer_id: stored.computer.to_string(),
        name: stored.name,
        state: stored.state.name().to_owned(),
        memory: stored.memory,
        has_picture: stored.picture.is_some(),
        size_bytes: (stored.state != Stage::Creating).then_some(stored.bytes),
        created_at: stored.created_at.iso8601(),
    }
}
