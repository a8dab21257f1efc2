//! Resizes over HTTP (docs/lifecycle.md#resize).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::computers::resize::{DimensionResult, ResizeOutcome, ResizeParams};
use hotdesk_domain::computer::lifecycle::{Status, not_running};
use hotdesk_domain::computer::resize::{ResizeRequest, ceilings};
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::computer::resize::{
    ResizeCeilings, ResizeComputer, ResizeErrorBody, ResizeReport, ResizeResult,
};

/// Returns the routes of resizes.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(resize, resize_by_patch, headroom))
}

/// Changes the hardware of a running computer: live if its engine can, otherwise with one restart.
#[utoipa::path(post, path = "/computers/{id}/resize", tag = "resize", params(("id" = String, Path)),
    request_body = ResizeComputer, responses(
        (status = 200, description = "Every requested value is applied", body = ResizeReport),
        (status = 207, description = "Some dimensions changed, others did not", body = ResizeReport),
        (status = 422, description = "No dimension changed", body = ResizeErrorBody)))]
pub(crate) async fn resize(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<ResizeComputer>,
) -> Result<(StatusCode, Json<ResizeReport>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let ResizeComputer { vcpus, mem_gb, disk_size_gb, bandwidth_limit_mbps, auto_stop_minutes, .. } = wanted;
    let wish = ResizeRequest { vcpus, mem_gb, disk_size_gb, bandwidth_limit_mbps };
    if wish.is_empty() && auto_stop_minutes.is_none() {
        return Err(Error::invalid(
            "one of vcpus, mem_gb, disk_size_gb, bandwidth_limit_mbps and auto_stop_minutes is needed",
        )
        .into());
    }
    let params =
        ResizeParams { wish, auto_stop_minutes, allowance: app.billing.allowance(computer.owner).await? };
    let outcome = app.fleet.resize(&computer, params).await?;
    let keeps_memory = auto_stop_minutes.map(|_| app.auto_stop.keeps_memory(&outcome.computer));
    Ok(response(&params, outcome, keeps_memory))
}

/// Does the same as `POST /computers/{id}/resize`, for clients that send PATCH.
#[utoipa::path(patch, path = "/computers/{id}/resize", tag = "resize", params(("id" = String, Path)),
    request_body = ResizeComputer, responses(
        (status = 200, description = "Every requested value is applied", body = ResizeReport),
        (status = 207, description = "Some dimensions changed, others did not", body = ResizeReport),
        (status = 422, description = "No dimension changed", body = ResizeErrorBody)))]
async fn resize_by_patch(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    id: Path<String>,
    body: Body<ResizeComputer>,
) -> Result<(StatusCode, Json<ResizeReport>)> {
    resize(state, caller, id, body).await
}

/// Returns how far a computer can be resized.
#[utoipa::path(get, path = "/computers/{id}/resize", tag = "resize", params(("id" = String, Path)),
    responses((status = 200, description = "The ceilings", body = ResizeCeilings)))]
async fn headroom(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<ResizeCeilings>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let hardware = &computer.hardware;
    if computer.status != Status::Running {
        return Ok(Json(fixed(&computer)));
    }
    let others = app.store.resource_use_besides(&computer).await?;
    let most = ceilings(hardware, &app.billing.allowance(computer.owner).await?, &others);
    Ok(Json(ResizeCeilings {
        resizable: true,
        reason: None,
        code: None,
        current_disk_gb: hardware.disk_gb,
        max_disk_gb: most.disk_gb,
        max_ram_gb: most.ram_gb,
        max_cpu: most.cpu,
        disk_size_gb: Some(most.disk_gb),
        mem_gb: Some(most.ram_gb),
        vcpus: Some(most.cpu),
        bandwidth_limit_mbps: Some(most.bandwidth_mbps),
        mem_gb_live: Some(app.fleet.engine().offers().capabilities(computer.isolation).live_ram),
    }))
}

/// Returns the ceilings of a computer that cannot be resized: its current hardware.
fn fixed(computer: &Computer) -> ResizeCeilings {
    let hardware = &computer.hardware;
    ResizeCeilings {
        resizable: false,
        reason: Some(not_running(computer.status).message),
        code: Some(ErrorCode::NotResizable.as_str().to_owned()),
        current_disk_gb: hardware.disk_gb,
        max_disk_gb: hardware.disk_gb,
        max_ram_gb: hardware.ram_gb,
        max_cpu: hardware.cpu,
        disk_size_gb: None,
        mem_gb: None,
        vcpus: None,
        bandwidth_limit_mbps: None,
        mem_gb_live: None,
    }
}

fn response(
    params: &ResizeParams,
    outcome: ResizeOutcome,
    keeps_memory: Option<bool>,
) -> (StatusCode, Json<ResizeReport>) {
    let failed = outcome.attempts.iter().filter(|result| result.error.is_some()).count();
    let status = match failed {
        0 => StatusCode::OK,
        all if all == outcome.attempts.len() => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::MULTI_STATUS,
    };
    let refused = status == StatusCode::UNPROCESSABLE_ENTITY;
    let hardware = outcome.computer.hardware;
    let has_hardware = !params.wish.is_empty();
    let body = ResizeReport {
        vcpus: hardware.cpu,
        mem_gb: hardware.ram_gb,
        disk_size_gb: hardware.disk_gb,
        bandwidth_limit_mbps: hardware.bandwidth_mbps,
        auto_stop_minutes: params.auto_stop_minutes,
        keeps_memory,
        connection_changed: !outcome.changed.is_empty(),
        restarted: outcome.restarted,
        changed: outcome.changed.into_iter().map(str::to_owned).collect(),
        results: has_hardware.then(|| outcome.attempts.iter().map(result_record).collect()),
        partial: has_hardware.then_some(failed > 0),
        error: refused.then(|| "None of the computer's hardware could be changed".to_owned()),
    };
    (status, Json(body))
}

fn result_record(result: &DimensionResult) -> ResizeResult {
    ResizeResult {
        dimension: result.dimension.name().to_owned(),
        requested: result.requested,
        applied: result.applied,
        ok: result.error.is_none(),
        error: result.error.clone(),
    }
}
