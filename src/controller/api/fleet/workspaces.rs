//! Workspaces over HTTP (docs/api/workspaces.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use crate::AppState;
use crate::api::OlderName;
use crate::api::api_router::{ApiRouter, routes};
use crate::computers::view;
use crate::web::origin::Origin;
use hotdesk_domain::computer::lifecycle::{self, Command};
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{self, Caller, Role};
use hotdesk_domain::name::{self, Name};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::fleet::find::ComputerFilter;
use hotdesk_store::identity::workspaces::{Workspace, WorkspaceChange};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::workspace::{
    ComputerStatus, CreateWorkspace, UpdateWorkspace, Workspace as Record, WorkspaceList, WorkspaceTransition,
};

/// Longest icon URL in bytes; browsers and proxies accept no longer ones.
const MAX_URL: usize = 2048;

/// Returns the routes of workspaces.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(delete_by_post))
        .routes(routes!(by_name))
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(restart))
}

/// Lists the workspaces to which the key has access.
#[utoipa::path(get, path = "/workspaces", tag = "workspaces",
    responses((status = 200, description = "All workspaces, oldest first", body = WorkspaceList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
) -> Result<Json<WorkspaceList>> {
    let mut records = Vec::new();
    for workspace in app.store.workspaces(caller.account).await? {
        if caller.scope.as_ref().is_none_or(|(id, _)| *id == workspace.id) {
            records.push(record(&app, &caller, workspace, &origin).await?);
        }
    }
    Ok(Json(WorkspaceList { workspaces: records.clone(), projects: records }))
}

/// Creates a workspace.
///
/// More than the account's plan allows: 403 `PLAN_LIMIT`.
#[utoipa::path(post, path = "/workspaces", tag = "workspaces", request_body = CreateWorkspace,
    responses((status = 201, description = "The new workspace", body = Record)))]
pub(crate) async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    older: Option<Extension<OlderName>>,
    Body(wanted): Body<CreateWorkspace>,
) -> Result<(StatusCode, Json<Record>)> {
    // The client `orgo` sends `POST /projects` after a refused create of a computer, then repeats that create
    // and shows its error (docs/api/compatibility.md#the-orgo-package).
    if older.is_some()
        && let Some(existing) = find_named(&app, &caller, wanted.name.trim()).await?
    {
        return Ok((StatusCode::OK, Json(record(&app, &caller, existing, &origin).await?)));
    }
    access::check_create_workspace(&caller)?;
    let icon_url = wanted.icon_url.as_deref().filter(|url| !url.is_empty());
    check_icon(icon_url)?;
    let status = wanted.status.as_deref().unwrap_or("active");
    check_status(status)?;
    let workspace = app.workspaces.create(&caller, &wanted.name, icon_url, status).await?;
    Ok((StatusCode::CREATED, Json(record(&app, &caller, workspace, &origin).await?)))
}

/// Returns a workspace with its computers.
#[utoipa::path(get, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path)),
    responses((status = 200, description = "The workspace", body = Record)))]
pub(crate) async fn get(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Json<Record>> {
    let workspace = app.directory.find_workspace(&caller, &id).await?;
    Ok(Json(record(&app, &caller, workspace, &origin).await?))
}

/// Returns a workspace by its name, ignoring case.
#[utoipa::path(get, path = "/workspaces/by-name/{name}", tag = "workspaces", params(("name" = String, Path)),
    responses((status = 200, description = "The workspace", body = Record)))]
pub(crate) async fn by_name(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(wanted): Path<String>,
) -> Result<Json<Record>> {
    let found = find_named(&app, &caller, &wanted).await?;
    let workspace = found.ok_or_else(|| Error::not_found("Workspace not found"))?;
    Ok(Json(record(&app, &caller, workspace, &origin).await?))
}

/// Finds a workspace by its name, ignoring case, and checks that the caller may use it.
async fn find_named(app: &AppState, caller: &Caller, wanted: &str) -> Result<Option<Workspace>> {
    match app.store.workspace_named(caller.account, &name::fold(wanted)).await? {
        None => Ok(None),
        Some(found) => Ok(Some(app.directory.find_workspace(caller, &found.id.to_string()).await?)),
    }
}

/// Changes a workspace.
///
/// Only for its admins and its owner. Omitted fields stay unchanged.
#[utoipa::path(patch, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path)),
    request_body = UpdateWorkspace,
    responses((status = 200, description = "The changed workspace", body = Record)))]
async fn update(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<UpdateWorkspace>,
) -> Result<Json<Record>> {
    let (workspace, _) = app.directory.find_workspace_as(&caller, &id, Role::Admin).await?;
    if let Some(status) = &wanted.status {
        check_status(status)?;
    }
    check_icon(wanted.icon_url.as_deref().filter(|url| !url.is_empty()))?;
    let change = WorkspaceChange {
        name: wanted.name.as_deref().map(Name::parse).transpose()?,
        icon_url: wanted.icon_url.map(|url| Some(url).filter(|url| !url.is_empty())),
        status: wanted.status,
        viewers_read_files: wanted.viewers_read_files,
        isolation: match wanted.isolation.as_deref() {
            None => None,
            Some("") => Some(None),
            Some(name) => Some(Some(app.fleet.parse_offered(name)?)),
        },
    };
    let changed = app.store.change_workspace(workspace.id, &change).await?;
    Ok(Json(record(&app, &caller, changed, &origin).await?))
}

/// Deletes a workspace with its computers and files.
///
/// Only for its owner.
#[utoipa::path(delete, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path)),
    responses((status = 200, description = "The workspace was deleted", body = Acknowledgement)))]
pub(crate) async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    remove(&app, &caller, &id).await
}

/// Does the same as `DELETE /workspaces/{id}`, for clients that can only send POST.
#[utoipa::path(post, path = "/workspaces/{id}/delete", tag = "workspaces", params(("id" = String, Path)),
    responses((status = 200, description = "The workspace was deleted", body = Acknowledgement)))]
async fn delete_by_post(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    remove(&app, &caller, &id).await
}

/// Starts every computer of a workspace that is not running.
#[utoipa::path(post, path = "/workspaces/{id}/start", tag = "workspaces",
    params(("id" = String, Path)),
    responses((status = 200, description = "The computers' states", body = WorkspaceTransition)))]
async fn start(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<String>,
) -> Result<Json<WorkspaceTransition>> {
    command_all(state, caller, path, Command::Start).await
}

/// Stops every computer of a workspace that is running.
#[utoipa::path(post, path = "/workspaces/{id}/stop", tag = "workspaces",
    params(("id" = String, Path)),
    responses((status = 200, description = "The computers' states", body = WorkspaceTransition)))]
async fn stop(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<String>,
) -> Result<Json<WorkspaceTransition>> {
    command_all(state, caller, path, Command::Stop).await
}

/// Restarts every computer of a workspace that is running.
#[utoipa::path(post, path = "/workspaces/{id}/restart", tag = "workspaces",
    params(("id" = String, Path)),
    responses((status = 200, description = "The computers' states", body = WorkspaceTransition)))]
async fn restart(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<String>,
) -> Result<Json<WorkspaceTransition>> {
    command_all(state, caller, path, Command::Restart).await
}

/// Sends one command to all computers. A computer whose status forbids it is left unchanged, and the response
/// shows that.
async fn command_all(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    command: Command,
) -> Result<Json<WorkspaceTransition>> {
    let workspace = app.directory.find_workspace(&caller, &id).await?;
    let filter = ComputerFilter { workspace: Some(workspace.id), ..ComputerFilter::default() };
    for computer in &app.store.computers(workspace.account, &filter).await?.0 {
        // Stopping a suspended computer discards its memory, so that needs a request for each.
        if command != Command::Start && lifecycle::suspension(computer.status).is_ok() {
            continue;
        }
        match app.fleet.command(computer, command).await {
            // The state or billing of one computer does not affect the others.
            Err(error) if !matches!(error.kind, Kind::Conflict | Kind::NotFound | Kind::PaymentRequired) => {
                return Err(error.into());
            }
            Ok(_) | Err(_) => {}
        }
    }
    let (computers, _) = app.store.computers(workspace.account, &filter).await?;
    let computers = computers.iter().map(|computer| ComputerStatus {
        id: computer.id.to_string(),
        name: computer.name.clone(),
        status: computer.status.name().to_owned(),
    });
    Ok(Json(WorkspaceTransition { success: true, computers: computers.collect() }))
}

async fn remove(app: &AppState, caller: &Caller, id: &str) -> Result<Json<Acknowledgement>> {
    let (workspace, _) = app.directory.find_workspace_as(caller, id, Role::Owner).await?;
    if let Some(client) = app.store.client_of(workspace.id).await? {
        let text =
            format!("This workspace belongs to the client {:?} and is deleted with it", client.external_id);
        return Err(Error::conflict(text).code(ErrorCode::ClientWorkspace).into());
    }
    app.workspaces.remove(&workspace).await?;
    Ok(Json(Acknowledgement { success: true }))
}

async fn record(app: &AppState, caller: &Caller, workspace: Workspace, origin: &Origin) -> Result<Record> {
    let role =
        app.directory.admit_to(&caller.for_read(), workspace.id, &workspace.name, workspace.account).await?;
    let filter = ComputerFilter { workspace: Some(workspace.id), ..ComputerFilter::default() };
    let (computers, total) = app.store.computers(workspace.account, &filter).await?;
    Ok(Record {
        id: workspace.id.to_string(),
        name: workspace.name,
        user_id: workspace.account.to_string(),
        status: workspace.status,
        icon_url: workspace.icon_url,
        viewers_read_files: workspace.viewers_read_files,
        isolation: workspace.isolation.map(|isolation| isolation.name().to_owned()),
        created_at: workspace.created_at.iso8601(),
        updated_at: workspace.updated_at.iso8601(),
        role: role.name().to_owned(),
        member_count: app.store.member_count(workspace.id).await?,
        computer_count: u32::try_from(total).unwrap_or(u32::MAX),
        desktops: computers
            .iter()
            .map(|computer| view::listed_record(computer, app.fleet.live_details(computer.id), origin))
            .collect(),
    })
}

fn check_status(status: &str) -> Result<()> {
    if matches!(status, "active" | "inactive") {
        Ok(())
    } else {
        Err(Error::invalid("status must be active or inactive").into())
    }
}

fn check_icon(url: Option<&str>) -> Result<()> {
    match url {
        Some(url) if url.len() > MAX_URL || !(url.starts_with("https://") || url.starts_with("http://")) => {
            Err(Error::invalid("icon_url must be an http or https address of at most 2048 bytes").into())
        }
        _ => Ok(()),
    }
}
