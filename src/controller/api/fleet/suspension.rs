//! Suspend, suspension, resume and auto-stop over HTTP (docs/lifecycle.md#suspend).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_domain::computer::check_auto_stop;
use hotdesk_domain::computer::lifecycle::{self, Status};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::computer::suspension::{
    AutoStopChanged, AutoStopSetting, ResumeResult, SavingCopy, SetAutoStop, SuspendResult, Suspension,
};

/// Usual longest duration of a resume, in seconds (docs/api/limits.md: about one minute).
const EXPECTED_SECONDS: u32 = 60;

/// Returns the routes of suspension.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(suspend))
        .routes(routes!(suspension))
        .routes(routes!(resume))
        .routes(routes!(auto_stop, set_auto_stop))
}

/// Suspends a running computer.
///
/// Memory and disk are saved; windows and processes continue when it resumes.
#[utoipa::path(post, path = "/computers/{id}/suspend", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "The computer is suspended", body = SuspendResult),
        (status = 202, description = "The memory is being saved; poll the suspension",
        body = SuspendResult)))]
pub(crate) async fn suspend(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<SuspendResult>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let status = app.fleet.suspend(&computer).await?;
    let code = if status == Status::Suspending { StatusCode::ACCEPTED } else { StatusCode::OK };
    let storage = saving_copy(&app, &computer, status).await?;
    Ok((code, Json(SuspendResult { success: true, status: status.name().to_owned(), storage })))
}

/// Returns the state of a copy to object storage that is in progress.
async fn saving_copy(app: &AppState, computer: &Computer, status: Status) -> Result<Option<SavingCopy>> {
    let saving = app.fleet.is_saving(computer.id, status).await?;
    let region = app.fleet.state_archive().and_then(|archive| archive.region().map(str::to_owned));
    Ok(saving.then(|| SavingCopy { state: "saving".to_owned(), region }))
}

/// Returns the state of a computer's suspension.
///
/// 409 when the computer is not suspended.
#[utoipa::path(get, path = "/computers/{id}/suspension", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "The state of the suspension", body = Suspension)))]
async fn suspension(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Suspension>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let status = lifecycle::suspension(computer.status)?;
    let storage = saving_copy(&app, &computer, status).await?;
    Ok(Json(Suspension { status: status.name().to_owned(), storage }))
}

/// Resumes a suspended computer with its memory. Its password changes.
#[utoipa::path(post, path = "/computers/{id}/resume", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "The computer runs", body = ResumeResult),
        (status = 202, description = "The computer is resuming, possibly from object storage; poll it",
        body = ResumeResult)))]
pub(crate) async fn resume(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<ResumeResult>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let (status, from_storage) = app.fleet.resume(&computer).await?;
    let waking = from_storage || status != Status::Running;
    let answer = ResumeResult {
        success: true,
        status: status.name().to_owned(),
        waking,
        pending: waking,
        expected_seconds: if waking { EXPECTED_SECONDS } else { 0 },
    };
    Ok((if waking { StatusCode::ACCEPTED } else { StatusCode::OK }, Json(answer)))
}

/// Returns the idle minutes after which a computer suspends itself, or stops where memory cannot be saved.
#[utoipa::path(get, path = "/computers/{id}/auto-stop", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "The setting", body = AutoStopSetting)))]
async fn auto_stop(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<AutoStopSetting>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    Ok(Json(AutoStopSetting {
        auto_stop_minutes: computer.auto_stop_minutes,
        configurable: true,
        keeps_memory: app.auto_stop.keeps_memory(&computer),
    }))
}

/// Sets the idle minutes after which a computer suspends itself; 0 is never.
#[utoipa::path(patch, path = "/computers/{id}/auto-stop", tag = "lifecycle", params(("id" = String, Path)),
    request_body = SetAutoStop,
    responses((status = 200, description = "The new setting", body = AutoStopChanged)))]
async fn set_auto_stop(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<SetAutoStop>,
) -> Result<Json<AutoStopChanged>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let minutes = wanted.auto_stop_minutes.or(wanted.minutes);
    let minutes = minutes.ok_or_else(|| Error::invalid("auto_stop_minutes is missing"))?;
    let minutes = check_auto_stop(minutes)?;
    app.store.set_auto_stop(computer.id, minutes).await?;
    let auto_suspend_after = if minutes == 0 { "0s".to_owned() } else { format!("{minutes}m") };
    let keeps_memory = app.auto_stop.keeps_memory(&computer);
    Ok(Json(AutoStopChanged { auto_stop_minutes: minutes, auto_suspend_after, keeps_memory }))
}
