//! Computers over HTTP: create, read, list, rename and delete (docs/api/computers.md).

use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::api::fleet::egress;
use crate::computers::templates::LaunchSource;
use crate::computers::templates::defaults::hardware;
use crate::computers::view;
use crate::web::origin::Origin;
use crate::{AppState, audit};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::ComputerRequest;
use hotdesk_domain::computer::lifecycle::{Command, Status};
use hotdesk_domain::computer::prepared::DesktopSpec;
use hotdesk_domain::computer::template::requested_template;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::{Caller, Role};
use hotdesk_domain::name::Name;
use hotdesk_domain::secret::LaunchSecrets;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_store::fleet::computers::{Computer as StoredComputer, NewComputer};
use hotdesk_store::fleet::find::ComputerFilter;
use hotdesk_store::identity::workspaces::Workspace;
use hotdesk_wire::computer::{
    Computer, ComputerList, ComputerListQuery, CreateComputer, UpdateComputer, VncPassword,
};
use hotdesk_wire::desktop::action::Acknowledgement;

/// Most computers on one page of a list.
const MAX_PAGE: u32 = 1000;

/// Returns the routes of computers.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list, create)).routes(routes!(get, update, delete)).routes(routes!(vnc_password))
}

/// Creates a computer.
///
/// The response comes when it is usable; a failed computer is removed.
#[utoipa::path(post, path = "/computers", tag = "computers", request_body = CreateComputer,
    responses((status = 201, description = "The new computer, running", body = Computer)))]
pub(crate) async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Body(wanted): Body<CreateComputer>,
) -> Result<(StatusCode, Json<Computer>)> {
    let workspace = wanted.workspace_id.as_ref().or(wanted.project_id.as_ref());
    let workspace = workspace.ok_or_else(|| Error::invalid("workspace_id is missing"))?;
    let workspace = app.directory.find_workspace(&caller, workspace).await?;
    let made = launch(&app, &caller, &workspace, &wanted, None).await?;
    let record = app.directory.record_for(&caller, &made, &origin).await;
    Ok((StatusCode::CREATED, Json(Computer { auto_stop: Some(app.auto_stop.record(&made)), ..record })))
}

/// Creates a computer in a workspace, and waits until it is usable. The service deletes it at `expires_at`.
///
/// # Errors
/// Those of `POST /computers`.
pub(crate) async fn launch(
    app: &AppState,
    caller: &Caller,
    workspace: &Workspace,
    wanted: &CreateComputer,
    expires_at: Option<UnixMillis>,
) -> hotdesk_domain::error::Result<StoredComputer> {
    let source = match requested_template(wanted.template_ref.as_deref(), wanted.image.as_deref())? {
        Some(reference) => Some(app.templates.launch_source(workspace.account, &reference).await?),
        None => None,
    };
    launch_from(app, caller, workspace, wanted, source, expires_at).await
}

/// Does the same from these layers of a template, or from the image alone. The request's own template is not looked at.
///
/// # Errors
/// Those of `POST /computers`.
pub(crate) async fn launch_from(
    app: &AppState,
    caller: &Caller,
    workspace: &Workspace,
    wanted: &CreateComputer,
    source: Option<LaunchSource>,
    expires_at: Option<UnixMillis>,
) -> hotdesk_domain::error::Result<StoredComputer> {
    let name = Name::parse(&wanted.name)?;
    let requested_policy = wanted.egress_policy.as_ref().map(egress::parse).transpose()?;
    let ports = source.as_ref().map(LaunchSource::ports).unwrap_or_default();
    let terminals = source.as_ref().map(LaunchSource::terminals).unwrap_or_default();
    let (template, layers, secrets, definition, policy) = match source {
        Some(source) => {
            let names = source.definition.secrets.iter().map(|secret| secret.name.as_str());
            let secrets = app.secrets.for_launch(caller, workspace.id, workspace.account, names).await?;
            let policy = source.definition.egress()?;
            (Some(source.reference.to_string()), source.layers, secrets, Some(source.definition), policy)
        }
        None => (None, Vec::new(), LaunchSecrets::default(), None, None),
    };
    let defaults = definition.as_ref().map(|it| it.hardware.clone()).unwrap_or_default();
    let egress = requested_policy.or(policy);
    let allowance = app.billing.allowance(workspace.account).await?;
    let auto_stop_minutes = wanted.auto_stop_minutes.or(defaults.auto_stop_minutes.map(u64::cast_signed));
    let order = ComputerRequest {
        cpu: wanted.cpu,
        ram: wanted.ram,
        disk_gb: wanted.disk_size_gb,
        resolution: wanted.resolution.as_deref(),
        os: wanted.os.as_deref(),
        gpu: wanted.gpu.as_deref(),
        auto_stop_minutes,
    };
    let hardware = hardware(order, &defaults, &allowance)?;
    let isolation = app.fleet.choose_isolation(wanted.isolation.as_deref(), workspace)?;
    let replicate_minutes = match &wanted.replicate {
        Some(replication) => app.fleet.check_replication(replication.interval_minutes, isolation)?,
        None => 0,
    };
    // Why they start at the launch, the log of the template's build tells.
    let services = definition.map(|it| it.service_start(isolation, egress.is_some()).unwrap_or_default());
    let services = services.unwrap_or_default();
    let spec = DesktopSpec { isolation, hardware, layers, services };
    let new = NewComputer {
        id: app.fleet.id_for(&spec),
        workspace: workspace.id,
        name,
        hardware,
        isolation,
        template,
        secrets,
        layers: spec.layers,
        egress,
        ports,
        terminals,
        auto_stop_minutes: auto_stop_minutes.unwrap_or(0),
        replicate_minutes,
        expires_at,
        deliver_files: wanted.deliver_files,
        encrypt: app.config.encryption.computers,
        plans: app.plans.clone(),
    };
    audit::set_computer(new.id);
    app.fleet.create(new, services, wanted.spread).await
}

/// Lists the computers to which the key has access.
#[utoipa::path(get, path = "/computers", tag = "computers", params(ComputerListQuery),
    responses((status = 200, description = "A page of computers, oldest first", body = ComputerList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Query(query): Query<ComputerListQuery>,
) -> Result<Json<ComputerList>> {
    let requested_workspace = match query.workspace_id.as_ref().or(query.project_id.as_ref()) {
        Some(id) => Some(app.directory.find_workspace(&caller, id).await?.id),
        None => None,
    };
    let status = match query.status.as_deref() {
        None => None,
        Some(name) => {
            Some(Status::parse(name).ok_or_else(|| Error::invalid(format!("unknown status: {name:?}")))?)
        }
    };
    if query.limit.is_some_and(|limit| limit == 0 || limit > MAX_PAGE) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let offset = query.offset.unwrap_or(0);
    let filter = ComputerFilter {
        workspace: requested_workspace.or(caller.scope.as_ref().map(|(id, _)| *id)),
        status,
        name_contains: query.name,
        limit: query.limit,
        offset,
    };
    let (page, total) = app.store.computers(caller.account, &filter).await?;
    let next = u64::from(offset) + page.len() as u64;
    let computers: Vec<Computer> = page
        .iter()
        .map(|computer| view::listed_record(computer, app.fleet.live_details(computer.id), &origin))
        .collect();
    let next_offset = (next < total && !computers.is_empty()).then_some(next);
    Ok(Json(ComputerList { desktops: computers.clone(), computers, total, next_offset }))
}

/// Returns a computer with its connection details.
#[utoipa::path(get, path = "/computers/{id}", tag = "computers", params(("id" = String, Path)),
    responses((status = 200, description = "The computer", body = Computer)))]
pub(crate) async fn get(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Json<Computer>> {
    let (computer, role) = app.directory.find_computer_as(&caller, &id).await?;
    let auto_stop = Some(app.auto_stop.record(&computer));
    let billing = Some(view::billing_record(&computer));
    let record = match role {
        // The password allows to control the screens.
        Role::Viewer => view::listed_record,
        Role::Member | Role::Admin | Role::Owner => view::full_record,
    };
    Ok(Json(Computer {
        auto_stop,
        billing,
        ..record(&computer, app.fleet.live_details(computer.id), &origin)
    }))
}

/// Renames a computer, changes its replication, or changes the isolation of a stopped one.
///
/// Another isolation takes effect at the next start. A virtual machine stays one.
#[utoipa::path(patch, path = "/computers/{id}", tag = "computers", params(("id" = String, Path)),
    request_body = UpdateComputer,
    responses((status = 200, description = "The changed computer", body = Computer)))]
async fn update(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<UpdateComputer>,
) -> Result<Json<Computer>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let name = wanted.name.as_deref().map(Name::parse).transpose()?;
    let isolation = wanted.isolation.as_deref().map(|name| app.fleet.parse_offered(name)).transpose()?;
    let replication = wanted.replicate.map(|replication| {
        app.fleet.check_replication(replication.interval_minutes, isolation.unwrap_or(computer.isolation))
    });
    let replication = replication.transpose()?;
    if let Some(isolation) = isolation {
        app.fleet.change_isolation(&computer, isolation).await?;
    }
    if let Some(minutes) = replication {
        app.store.set_replication(computer.id, minutes).await?;
    }
    let computer = match name {
        Some(name) => app.store.rename_computer(computer.id, &name).await?,
        None => app.directory.find_computer(&caller, &id).await?,
    };
    Ok(Json(app.directory.record_for(&caller, &computer, &origin).await))
}

/// Deletes a computer and everything on it.
#[utoipa::path(delete, path = "/computers/{id}", tag = "computers", params(("id" = String, Path)),
    responses((status = 200, description = "The computer was deleted", body = Acknowledgement)))]
pub(crate) async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    app.fleet.command(&computer, Command::Delete).await?.finish().await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Returns the password of the computer's screens and sockets.
///
/// Viewers are refused.
#[utoipa::path(get, path = "/computers/{id}/vnc-password", tag = "computers", params(("id" = String, Path)),
    responses((status = 200, description = "The password", body = VncPassword)))]
async fn vnc_password(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<VncPassword>> {
    let computer = app.directory.find_computer(&caller.for_change(), &id).await?;
    Ok(Json(VncPassword { password: computer.vnc_password.reveal().to_owned() }))
}
