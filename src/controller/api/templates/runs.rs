//! Throw-away computers of templates: launch and stop.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::published::{check_author, check_builder};
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::fleet::computers::{launch, launch_from};
use crate::computers::templates::debug::FailedBuild;
use crate::identity::auth::AuthenticatedCaller;
use crate::web::origin::Origin;
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::lifecycle::Command;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::bounds::RUN_TIME;
use hotdesk_domain::computer::template::build::BuildStep;
use hotdesk_domain::error::{Error, Result as DomainResult};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Caller;
use hotdesk_domain::name::Name;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_store::identity::workspaces::Workspace;
use hotdesk_wire::computer::CreateComputer;
use hotdesk_wire::computer::template::{RunTemplate, StopRunQuery, TemplateDebug, TemplateRun, TemplateStep};
use hotdesk_wire::desktop::action::Acknowledgement;

/// Name of the workspace of an account's throw-away computers. It is made for the first one.
const RUN_WORKSPACE: &str = "template-runs";
/// Status of a new workspace, as the API's default.
const ACTIVE: &str = "active";
/// Characters of a random id that make the name of a run unique in its workspace: 32 bits for a few computers.
const ID_CHARACTERS: usize = 8;
/// Seconds after which a run that the plan's number of computers refuses may be asked for again: others end meanwhile.
const RETRY_SECONDS: u32 = 60;

/// Returns the routes of throw-away computers.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(run, stop)).routes(routes!(debug))
}

/// Launches a throw-away computer of a template.
///
/// It is an ordinary computer in the workspace of the key, or else in the account's workspace `template-runs`. The
/// service deletes it after an hour.
#[utoipa::path(post, path = "/templates/run", tag = "templates", request_body = RunTemplate,
    responses((status = 200, description = "The computer, running", body = TemplateRun)))]
async fn run(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Body(wanted): Body<RunTemplate>,
) -> Result<Json<TemplateRun>> {
    let reference = TemplateRef::parse(&wanted.reference)
        .ok_or_else(|| Error::invalid("ref must have the form namespace/name@version"))?;
    let workspace = run_workspace(&app, &caller).await?;
    let order = CreateComputer {
        name: unique_name(&reference.name),
        template_ref: Some(reference.to_string()),
        ..CreateComputer::default()
    };
    let expires_at = clock::now().plus(RUN_TIME);
    let made = launch(&app, &caller, &workspace, &order, Some(expires_at)).await.map_err(at_the_limit)?;
    Ok(Json(TemplateRun {
        id: made.id.to_string(),
        desktop_id: made.id.to_string(),
        status: made.status.name().to_owned(),
        vnc_password: made.vnc_password.reveal().to_owned(),
        public_host: origin.host().to_owned(),
        resolution: made.hardware.resolution.to_string(),
        expires_at: expires_at.iso8601(),
    }))
}

/// Opens a failed build as a throw-away computer.
///
/// Its disk has what the finished steps of the build wrote; the answer has the steps that are left. It is a computer as those
/// of `POST /templates/run`.
#[utoipa::path(post, path = "/templates/{namespace}/{name}/{version}/debug", tag = "templates",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    responses((status = 201, description = "The computer, running, and the steps", body = TemplateDebug)))]
async fn debug(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<(StatusCode, Json<TemplateDebug>)> {
    check_author(&app, &caller).await?;
    let template = app.templates.find(caller.account, &TemplateRef { namespace, name, version }).await?;
    check_builder(&caller, &template)?;
    let FailedBuild { source, finished, left } = app.templates.failed_build(&template).await?;
    let workspace = run_workspace(&app, &caller).await?;
    let order = CreateComputer { name: unique_name(&template.reference.name), ..CreateComputer::default() };
    let expires_at = clock::now().plus(RUN_TIME);
    let made = launch_from(&app, &caller, &workspace, &order, Some(source), Some(expires_at)).await;
    let made = made.map_err(at_the_limit)?;
    let steps = left.into_iter().map(|BuildStep { field, script, .. }| TemplateStep { field, script });
    let answer = TemplateDebug {
        id: made.id.to_string(),
        name: made.name.to_string(),
        expires_at: expires_at.iso8601(),
        finished,
        steps: steps.collect(),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Deletes a throw-away computer.
///
/// Other computers are not found here: they have `DELETE /computers/{id}`.
#[utoipa::path(delete, path = "/templates/run", tag = "templates", params(StopRunQuery),
    responses((status = 200, description = "The computer was deleted", body = Acknowledgement)))]
async fn stop(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<StopRunQuery>,
) -> Result<Json<Acknowledgement>> {
    let computer = app.directory.find_computer(&caller, &query.id).await?;
    if computer.expires_at.is_none() {
        let message = format!(
            "{} was not launched by POST /templates/run: delete it by DELETE /computers/{}",
            computer.name, computer.id
        );
        return Err(Error::not_found(message).into());
    }
    app.fleet.command(&computer, Command::Delete).await?.finish().await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// A name for a throw-away computer that no other computer of its workspace has.
fn unique_name(template: &str) -> String {
    let id = ComputerId::random().to_string();
    format!("{template}-{}", id.get(..ID_CHARACTERS).unwrap_or_default())
}

/// The workspace of a caller's runs: the one of its key, or the account's own for runs.
async fn run_workspace(app: &AppState, caller: &Caller) -> DomainResult<Workspace> {
    if let Some((id, _)) = &caller.scope {
        return app.directory.find_workspace(caller, &id.to_string()).await;
    }
    if let Some(found) = own_workspace(app, caller).await? {
        return Ok(found);
    }
    match app.workspaces.create(caller, RUN_WORKSPACE, None, ACTIVE).await {
        // Another request made it meanwhile.
        Err(error) if error.code == Some(ErrorCode::NameTaken) => {
            own_workspace(app, caller).await?.ok_or(error)
        }
        made => made,
    }
}

async fn own_workspace(app: &AppState, caller: &Caller) -> DomainResult<Option<Workspace>> {
    let folded = Name::parse(RUN_WORKSPACE)?.folded();
    let found = app.store.workspace_named(caller.account, &folded).await?;
    match found.filter(|workspace| workspace.account == caller.account) {
        Some(own) => app.directory.find_workspace(caller, &own.id.to_string()).await.map(Some),
        None => Ok(None),
    }
}

/// The plan's number of computers is a limit that passes: another run ends within the hour.
fn at_the_limit(error: Error) -> Error {
    match error.code {
        Some(code @ (ErrorCode::DesktopLimit | ErrorCode::VmSlotAddon)) => {
            let refused = Error::rate_limited(RETRY_SECONDS).code(code);
            Error { message: error.message, fields: error.fields, ..refused }
        }
        _ => error,
    }
}
