//! For those who act on a desktop: screenshots, input, windows, commands, files, screens.

use std::time::Duration;

use axum::Json;
use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;

use crate::Shared;
use hotdesk_domain::access::Caller;
use hotdesk_http::error_response::Result;

pub mod actions;
pub mod clipboard;
pub mod elements;
pub mod events;
pub mod exec;
pub mod guest_files;
mod patience;
pub mod processes;
pub mod programs;
pub mod recordings;
pub mod screens;
pub mod screenshot;
pub mod selftest;
pub mod stream;
pub mod tickets;
pub mod windows;

/// The desktop's routes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(actions::router())
        .merge(clipboard::router())
        .merge(elements::router())
        .merge(events::router())
        .merge(exec::router())
        .merge(guest_files::router())
        .merge(processes::router())
        .merge(programs::router())
        .merge(recordings::router())
        .merge(screens::router())
        .merge(screenshot::router())
        .merge(selftest::router())
        .merge(stream::router())
        .merge(tickets::router())
        .merge(windows::router())
}

/// Has a computer's agent do it and passes on its answer, read as what it must be.
#[allow(clippy::too_many_arguments)] // who, where, what and how long: all of one call
async fn forward<Send: Serialize + Sync, Receive: DeserializeOwned>(
    app: &Shared,
    caller: &Caller,
    id: &str,
    method: Method,
    path: &str,
    query: impl Serialize,
    body: Option<&Send>,
    patience: Duration,
) -> Result<Json<Receive>> {
    let computer = app.find_computer(caller, id).await?;
    let guest = app.guest_for(&method, &computer).await?;
    Ok(Json(guest.call(method, path, query, body, patience).await?))
}
