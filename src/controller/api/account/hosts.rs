//! Hosts of computers over HTTP, for the operator's account (docs/hosts.md).

use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::audit;
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_base::ids::ComputerRef;
use hotdesk_domain::error::Error;
use hotdesk_domain::host::drain::HostStatus;
use hotdesk_domain::host::placement::unknown_host;
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::billing::host::HostReport;
use hotdesk_wire::billing::hosts::{Host, HostList, MoveToHost, MovedToHost};

/// Bytes in a MB of a record.
const MB: u64 = 1024 * 1024;
/// Name of the host where the service runs all computers itself.
const OWN_HOST: &str = "localhost";

/// Returns the routes of hosts.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list_hosts))
        .routes(routes!(drain_host))
        .routes(routes!(restore_host))
        .routes(routes!(move_to_host))
}

async fn check(app: &AppState, caller: &Caller) -> Result<()> {
    app.operator.check(caller, "manage the hosts of the service").await?;
    Ok(())
}

/// Lists the hosts of computers with their free resources.
///
/// For the operator's account: others get 403 `ACCESS_DENIED`. A service that runs computers itself has one host.
#[utoipa::path(get, path = "/operator/hosts", tag = "account",
    responses((status = 200, description = "The hosts", body = HostList)))]
async fn list_hosts(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<HostList>> {
    check(&app, &caller).await?;
    let mut hosts = app.computer_hosts.records().await?;
    if hosts.is_empty() {
        hosts.push(own_host(&app.host_reports.get(false).await?));
    }
    Ok(Json(HostList { hosts }))
}

/// Returns the record of the host on which the service runs all computers.
fn own_host(report: &HostReport) -> Host {
    let (resources, capacity) = (&report.resources, &report.capacity);
    Host {
        name: OWN_HOST.to_owned(),
        status: HostStatus::Online.name().to_owned(),
        engine: report.engines.first().map(|engine| engine.engine.clone()).unwrap_or_default(),
        cpus: resources.cores,
        memory_mb: resources.memory_bytes / MB,
        memory_free_mb: resources.memory_available_bytes / MB,
        disk_mb: resources.disk_bytes / MB,
        disk_free_mb: resources.disk_free_bytes / MB,
        computers: capacity.computers,
        running: capacity.running,
        // Computers boot from the folder of the image.
        image_present: true,
        message: String::new(),
    }
}

/// Moves all computers of a host to other hosts, one after another.
///
/// The answer comes at once; `GET /operator/hosts` shows `drained` at the end. The host takes no new computers until it is
/// restored. 409 when no other host takes computers.
#[utoipa::path(post, path = "/operator/hosts/{name}/drain", tag = "account", params(("name" = String, Path)),
    responses((status = 200, description = "The host, which is being drained", body = Host)))]
async fn drain_host(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
) -> Result<Json<Host>> {
    check(&app, &caller).await?;
    Ok(Json(app.computer_hosts.drain(&name).await?))
}

/// Lets a host take new computers again, and ends its drain.
///
/// Computers that were moved away stay where they are.
#[utoipa::path(post, path = "/operator/hosts/{name}/restore", tag = "account", params(("name" = String, Path)),
    responses((status = 200, description = "The host", body = Host)))]
async fn restore_host(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
) -> Result<Json<Host>> {
    check(&app, &caller).await?;
    Ok(Json(app.computer_hosts.restore(&name).await?))
}

/// Moves a computer of any account to another host.
///
/// A running one is suspended and resumed, or stopped and started where its memory cannot be saved. Meanwhile its commands
/// get 409 `migrating`. The answer comes at the end, or after 45 seconds with `moving`.
#[utoipa::path(post, path = "/operator/computers/{id}/move", tag = "account", params(("id" = String, Path)),
    request_body = MoveToHost,
    responses((status = 200, description = "The computer", body = MovedToHost)))]
async fn move_to_host(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<MoveToHost>,
) -> Result<Json<MovedToHost>> {
    check(&app, &caller).await?;
    let unknown = || Error::not_found("Desktop not found");
    let reference: ComputerRef = id.parse().map_err(|()| unknown())?;
    let computer = app.store.computer(&reference).await?.ok_or_else(unknown)?;
    audit::set_computer(computer.id);
    if wanted.host.as_deref() == Some("") {
        return Err(unknown_host().into());
    }
    let moved = app.computer_hosts.move_computer(&computer, wanted.host.as_deref()).await?;
    Ok(Json(MovedToHost {
        id: moved.id.to_string(),
        status: moved.status.name().to_owned(),
        moving: moved.move_to.is_some(),
        host: moved.host,
    }))
}
