//! Workspaces over HTTP (wire.md 3).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::computers::view;
use crate::origin::Origin;
use hotdesk_base::clock::iso8601;
use hotdesk_domain::access::{self, Caller, Role};
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::lifecycle::{self, Command};
use hotdesk_domain::name::{self, Name};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::find::Filter;
use hotdesk_store::workspaces::{Change, Workspace};
use hotdesk_wire::action::Done;
use hotdesk_wire::workspace::{
    ComputerStatus, CreateWorkspace, UpdateWorkspace, Workspace as Record, WorkspaceList, WorkspaceTransition,
};

/// Longest picture address in bytes; browsers and proxies take no longer ones.
const MAX_URL: usize = 2048;

/// The routes of workspaces.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(delete_by_post))
        .routes(routes!(by_name))
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(restart))
}

/// The workspaces available to the key.
#[utoipa::path(get, path = "/workspaces", tag = "workspaces",
    responses((status = 200, description = "All of them, oldest first", body = WorkspaceList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
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

/// Makes a workspace. One more than the account's plan gives: 403 `PLAN_LIMIT`.
#[utoipa::path(post, path = "/workspaces", tag = "workspaces", request_body = CreateWorkspace,
    responses((status = 201, description = "The new workspace", body = Record)))]
async fn create(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Body(wanted): Body<CreateWorkspace>,
) -> Result<(StatusCode, Json<Record>)> {
    access::check_create_workspace(&caller)?;
    let icon_url = wanted.icon_url.as_deref().filter(|url| !url.is_empty());
    check_icon(icon_url)?;
    let status = wanted.status.as_deref().unwrap_or("active");
    check_status(status)?;
    let workspace = app.make_workspace(&caller, &wanted.name, icon_url, status).await?;
    Ok((StatusCode::CREATED, Json(record(&app, &caller, workspace, &origin).await?)))
}

/// One workspace with its computers.
#[utoipa::path(get, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path)),
    responses((status = 200, description = "The workspace", body = Record)))]
async fn get(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Json<Record>> {
    let workspace = app.find_workspace(&caller, &id).await?;
    Ok(Json(record(&app, &caller, workspace, &origin).await?))
}

/// One workspace by its name, whatever the case.
#[utoipa::path(get, path = "/workspaces/by-name/{name}", tag = "workspaces", params(("name" = String, Path)),
    responses((status = 200, description = "The workspace", body = Record)))]
async fn by_name(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(wanted): Path<String>,
) -> Result<Json<Record>> {
    let found = app.store.workspace_named(caller.account, &name::fold(&wanted)).await?;
    let workspace = found.ok_or_else(|| Error::not_found("Workspace not found"))?;
    let workspace = app.find_workspace(&caller, &workspace.id.to_string()).await?;
    Ok(Json(record(&app, &caller, workspace, &origin).await?))
}

/// Changes a workspace, for its admins and its owner; omitted fields stay.
#[utoipa::path(patch, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path)),
    request_body = UpdateWorkspace, responses((status = 200, description = "The changed workspace", body = Record)))]
async fn update(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<UpdateWorkspace>,
) -> Result<Json<Record>> {
    let (workspace, _) = app.find_workspace_as(&caller, &id, Role::Admin).await?;
    if let Some(status) = &wanted.status {
        check_status(status)?;
    }
    check_icon(wanted.icon_url.as_deref().filter(|url| !url.is_empty()))?;
    let change = Change {
        name: wanted.name.as_deref().map(Name::parse).transpose()?,
        icon_url: wanted.icon_url.map(|url| Some(url).filter(|url| !url.is_empty())),
        status: wanted.status,
    };
    let changed = app.store.change_workspace(workspace.id, &change).await?;
    Ok(Json(record(&app, &caller, changed, &origin).await?))
}

/// Removes a workspace with its computers and files, for its owner.
#[utoipa::path(delete, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn delete(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<Done>> {
    remove(&app, &caller, &id).await
}

/// As `DELETE /workspaces/{id}`, for clients that can only post.
#[utoipa::path(post, path = "/workspaces/{id}/delete", tag = "workspaces", params(("id" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn delete_by_post(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<Done>> {
    remove(&app, &caller, &id).await
}

/// Starts every computer of a workspace that is not running.
#[utoipa::path(post, path = "/workspaces/{id}/start", tag = "workspaces",
    params(("id" = String, Path)), responses((status = 200, description = "Under way", body = WorkspaceTransition)))]
async fn start(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<String>,
) -> Result<Json<WorkspaceTransition>> {
    command_all(state, caller, path, Command::Start).await
}

/// Stops every computer of a workspace that is running.
#[utoipa::path(post, path = "/workspaces/{id}/stop", tag = "workspaces",
    params(("id" = String, Path)), responses((status = 200, description = "Under way", body = WorkspaceTransition)))]
async fn stop(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<String>,
) -> Result<Json<WorkspaceTransition>> {
    command_all(state, caller, path, Command::Stop).await
}

/// Restarts every computer of a workspace that is running.
#[utoipa::path(post, path = "/workspaces/{id}/restart", tag = "workspaces",
    params(("id" = String, Path)), responses((status = 200, description = "Under way", body = WorkspaceTransition)))]
async fn restart(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<String>,
) -> Result<Json<WorkspaceTransition>> {
    command_all(state, caller, path, Command::Restart).await
}

/// Gives one command to all; a computer whose status blocks it is left as it is, and the answer shows it.
async fn command_all(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    command: Command,
) -> Result<Json<WorkspaceTransition>> {
    let workspace = app.find_workspace(&caller, &id).await?;
    let filter = Filter { workspace: Some(workspace.id), ..Filter::default() };
    for computer in &app.store.computers(workspace.account, &filter).await?.0 {
        // To stop what sleeps is to throw its memory away: that is asked for each computer.
        if command != Command::Start && lifecycle::suspension(computer.status).is_ok() {
            continue;
        }
        match app.fleet.command(computer, command).await {
            // What its state or its payment keeps from it is no matter of the others.
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

async fn remove(app: &Shared, caller: &Caller, id: &str) -> Result<Json<Done>> {
    let (workspace, _) = app.find_workspace_as(caller, id, Role::Owner).await?;
    if let Some(client) = app.store.client_of(workspace.id).await? {
        let text = format!("This workspace is that of the client {:?} and goes with it", client.external_id);
        return Err(Error::conflict(text).code("CLIENT_WORKSPACE").into());
    }
    app.remove_computers(workspace.account, workspace.id).await?;
    let files = app.store.remove_workspace(workspace.id).await?;
    app.storage.forget(&files).await;
    Ok(Json(Done { success: true }))
}

async fn record(app: &Shared, caller: &Caller, workspace: Workspace, origin: &Origin) -> Result<Record> {
    let role = app.admit_to(&caller.looking(), workspace.id, &workspace.name, workspace.account).await?;
    let filter = Filter { workspace: Some(workspace.id), ..Filter::default() };
    let (computers, total) = app.store.computers(workspace.account, &filter).await?;
    Ok(Record {
        id: workspace.id.to_string(),
        name: workspace.name,
        user_id: workspace.account.to_string(),
        status: workspace.status,
        icon_url: workspace.icon_url,
        created_at: iso8601(workspace.created_at),
        updated_at: iso8601(workspace.updated_at),
        role: role.name().to_owned(),
        member_count: app.store.member_count(workspace.id).await?,
        computer_count: u32::try_from(total).unwrap_or(u32::MAX),
        desktops: computers
            .iter()
            .map(|computer| view::listed(computer, app.fleet.live(computer.id), origin))
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
