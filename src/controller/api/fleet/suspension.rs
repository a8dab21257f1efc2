//! Suspend, suspension, resume, auto-stop over HTTP (interface.md "Suspend", wire.md 5.2).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_domain::computer::check_auto_stop;
use hotdesk_domain::error::Error;
use hotdesk_domain::lifecycle::{self, Status};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::computers::Computer;
use hotdesk_wire::suspension::{
    AutoStopSet, AutoStopSetting, Resumed, SavingCopy, SetAutoStop, Suspended, Suspension,
};

/// How long a wake takes at most, as a rule, in seconds (interface.md "Limits": about one minute).
const EXPECTED_SECONDS: u32 = 60;

/// The routes of suspension.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(suspend))
        .routes(routes!(suspension))
        .routes(routes!(resume))
        .routes(routes!(auto_stop, set_auto_stop))
}

/// Suspends a running computer: memory and disk are saved, windows and processes go on when it wakes.
#[utoipa::path(post, path = "/computers/{id}/suspend", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "It is suspended", body = Suspended),
        (status = 202, description = "Its memory is still being saved; poll the suspension", body = Suspended)))]
pub(crate) async fn suspend(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Suspended>)> {
    let computer = app.find_computer(&caller, &id).await?;
    let status = app.fleet.suspend(&computer).await?;
    let code = if status == Status::Suspending { StatusCode::ACCEPTED } else { StatusCode::OK };
    let storage = saving(&app, &computer, status).await?;
    Ok((code, Json(Suspended { success: true, status: status.name().to_owned(), storage })))
}

/// What is told of a copy that is on its way to storage.
async fn saving(app: &Shared, computer: &Computer, status: Status) -> Result<Option<SavingCopy>> {
    let saving = app.fleet.is_saving(computer.id, status).await?;
    let region = app.fleet.keeper().and_then(|keeper| keeper.region().map(str::to_owned));
    Ok(saving.then(|| SavingCopy { state: "saving".to_owned(), region }))
}

/// How the suspension of a computer stands; 409 for one that is not suspended.
#[utoipa::path(get, path = "/computers/{id}/suspension", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "How it stands", body = Suspension)))]
async fn suspension(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<Suspension>> {
    let computer = app.find_computer(&caller, &id).await?;
    let status = lifecycle::suspension(computer.status)?;
    let storage = saving(&app, &computer, status).await?;
    Ok(Json(Suspension { status: status.name().to_owned(), storage }))
}

/// Wakes a suspended computer with what was in its memory. Its password changes.
#[utoipa::path(post, path = "/computers/{id}/resume", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "It runs", body = Resumed),
        (status = 202, description = "It is waking, from storage perhaps; poll the computer", body = Resumed)))]
pub(crate) async fn resume(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Resumed>)> {
    let computer = app.find_computer(&caller, &id).await?;
    let (status, from_storage) = app.fleet.resume(&computer).await?;
    let waking = from_storage || status != Status::Running;
    let answer = Resumed {
        success: true,
        status: status.name().to_owned(),
        waking,
        pending: waking,
        expected_seconds: if waking { EXPECTED_SECONDS } else { 0 },
    };
    Ok((if waking { StatusCode::ACCEPTED } else { StatusCode::OK }, Json(answer)))
}

/// After how many idle minutes a computer suspends itself.
#[utoipa::path(get, path = "/computers/{id}/auto-stop", tag = "lifecycle", params(("id" = String, Path)),
    responses((status = 200, description = "The setting", body = AutoStopSetting)))]
async fn auto_stop(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<AutoStopSetting>> {
    let computer = app.find_computer(&caller, &id).await?;
    Ok(Json(AutoStopSetting { auto_stop_minutes: computer.auto_stop_minutes, configurable: true }))
}

/// Sets after how many idle minutes a computer suspends itself; 0 is never.
#[utoipa::path(patch, path = "/computers/{id}/auto-stop", tag = "lifecycle", params(("id" = String, Path)),
    request_body = SetAutoStop, responses((status = 200, description = "The new setting", body = AutoStopSet)))]
async fn set_auto_stop(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<SetAutoStop>,
) -> Result<Json<AutoStopSet>> {
    let computer = app.find_computer(&caller, &id).await?;
    let minutes = wanted.auto_stop_minutes.or(wanted.minutes);
    let minutes = minutes.ok_or_else(|| Error::invalid("auto_stop_minutes is missing"))?;
    let minutes = check_auto_stop(minutes)?;
    app.store.set_auto_stop(computer.id, minutes).await?;
    let auto_suspend_after = if minutes == 0 { "0s".to_owned() } else { format!("{minutes}m") };
    Ok(Json(AutoStopSet { auto_stop_minutes: minutes, auto_suspend_after }))
}
