//! Resizes over HTTP (interface.md "Resize" and "Resize ceilings", wire.md 5.3).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::computers::resize::{Attempt, Order, Report};
use hotdesk_domain::error::Error;
use hotdesk_domain::lifecycle::{Status, not_running};
use hotdesk_domain::resize::{Wish, ceilings};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::computers::Computer;
use hotdesk_wire::resize::{ResizeCeilings, ResizeComputer, ResizeRefused, ResizeResult, Resized};

/// The routes of resizes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(resize, resize_by_patch, headroom))
}

/// Changes the hardware of a running computer, live where its engine can, else with one restart.
#[utoipa::path(post, path = "/computers/{id}/resize", tag = "resize", params(("id" = String, Path)),
    request_body = ResizeComputer, responses(
        (status = 200, description = "Everything asked for is so", body = Resized),
        (status = 207, description = "Some dimensions changed, some did not", body = Resized),
        (status = 422, description = "No dimension changed", body = ResizeRefused)))]
async fn resize(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<ResizeComputer>,
) -> Result<(StatusCode, Json<Resized>)> {
    let computer = app.find_computer(&caller, &id).await?;
    let ResizeComputer { vcpus, mem_gb, disk_size_gb, bandwidth_limit_mbps, auto_stop_minutes } = wanted;
    let wish = Wish { vcpus, mem_gb, disk_size_gb, bandwidth_limit_mbps };
    if wish.is_empty() && auto_stop_minutes.is_none() {
        return Err(Error::invalid(
            "one of vcpus, mem_gb, disk_size_gb, bandwidth_limit_mbps and auto_stop_minutes is needed",
        )
        .into());
    }
    let order = Order { wish, auto_stop_minutes, allowance: app.allowance(computer.owner).await? };
    let report = app.fleet.resize(&computer, order).await?;
    Ok(told(&order, report))
}

/// As `POST /computers/{id}/resize`, for the clients that patch.
#[utoipa::path(patch, path = "/computers/{id}/resize", tag = "resize", params(("id" = String, Path)),
    request_body = ResizeComputer, responses(
        (status = 200, description = "Everything asked for is so", body = Resized),
        (status = 207, description = "Some dimensions changed, some did not", body = Resized),
        (status = 422, description = "No dimension changed", body = ResizeRefused)))]
async fn resize_by_patch(
    state: State<Shared>,
    caller: Authenticated,
    id: Path<String>,
    body: Body<ResizeComputer>,
) -> Result<(StatusCode, Json<Resized>)> {
    resize(state, caller, id, body).await
}

/// How far a computer can be resized.
#[utoipa::path(get, path = "/computers/{id}/resize", tag = "resize", params(("id" = String, Path)),
    responses((status = 200, description = "The ceilings", body = ResizeCeilings)))]
async fn headroom(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<ResizeCeilings>> {
    let computer = app.find_computer(&caller, &id).await?;
    let hardware = &computer.hardware;
    if matches!(computer.status, Status::Error | Status::Deleting) {
        return Ok(Json(fixed(&computer)));
    }
    let others = app.store.used_beside(&computer).await?;
    let most = ceilings(hardware, &app.allowance(computer.owner).await?, &others);
    let running = computer.status == Status::Running;
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
        mem_gb_live: running.then(|| app.fleet.engine().capabilities().live_ram),
    }))
}

/// The ceilings of a computer that cannot be resized: what it has.
fn fixed(computer: &Computer) -> ResizeCeilings {
    let hardware = &computer.hardware;
    ResizeCeilings {
        resizable: false,
        reason: Some(not_running(computer.status).message),
        code: Some("NOT_RESIZABLE".to_owned()),
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

fn told(order: &Order, report: Report) -> (StatusCode, Json<Resized>) {
    let failed = report.attempts.iter().filter(|attempt| attempt.error.is_some()).count();
    let status = match failed {
        0 => StatusCode::OK,
        all if all == report.attempts.len() => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::MULTI_STATUS,
    };
    let refused = status == StatusCode::UNPROCESSABLE_ENTITY;
    let hardware = report.computer.hardware;
    let has_hardware = !order.wish.is_empty();
    let body = Resized {
        vcpus: hardware.cpu,
        mem_gb: hardware.ram_gb,
        disk_size_gb: hardware.disk_gb,
        bandwidth_limit_mbps: hardware.bandwidth_mbps,
        auto_stop_minutes: order.auto_stop_minutes,
        connection_changed: !report.changed.is_empty(),
        restarted: report.restarted,
        changed: report.changed.into_iter().map(str::to_owned).collect(),
        results: has_hardware.then(|| report.attempts.iter().map(result).collect()),
        partial: has_hardware.then_some(failed > 0),
        error: refused.then(|| "Nothing of the computer's hardware could be changed".to_owned()),
    };
    (status, Json(body))
}

fn result(attempt: &Attempt) -> ResizeResult {
    ResizeResult {
        dimension: attempt.dimension.name().to_owned(),
        requested: attempt.requested,
        applied: attempt.applied,
        ok: attempt.error.is_none(),
        error: attempt.error.map(str::to_owned),
    }
}
