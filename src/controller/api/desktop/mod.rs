//! Routes of a desktop: screenshots, input, windows, commands, files, screens.

use std::time::Duration;

use axum::Json;
use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::AppState;
use crate::api::api_router::ApiRouter;
use hotdesk_domain::identity::access::Caller;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::Guest;
use hotdesk_http::error_response::Result;

pub mod actions;
pub mod clipboard;
pub mod display;
pub mod events;
pub mod execution;
pub mod guest_files;
pub mod media;
pub mod ports;
pub mod readiness;
pub mod selftest;
pub mod ssh;
pub mod tickets;
mod timeouts;

/// Returns the routes of desktops.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(actions::router())
        .merge(clipboard::router())
        .merge(display::router())
        .merge(events::router())
        .merge(guest_files::router())
        .merge(execution::router())
        .merge(media::router())
        .merge(ports::router())
        .merge(readiness::router())
        .merge(selftest::router())
        .merge(ssh::router())
        .merge(tickets::router())
}

/// Forwards a request to a computer's agent and parses its response.
#[allow(clippy::too_many_arguments)] // caller, target, request and timeout of one call
async fn forward<Send: Serialize + Sync, Receive: DeserializeOwned>(
    app: &AppState,
    caller: &Caller,
    id: &str,
    method: Method,
    path: &str,
    query: impl Serialize,
    body: Option<&Send>,
    timeout: Duration,
) -> Result<Json<Receive>> {
    let guest = guest_of(app, caller, id, &method).await?;
    Ok(Json(guest.call(method, path, query, body, timeout).await?))
}

/// Returns the client of a computer's agent that acts for a caller. It is no part of [`forward`], whose code exists
/// for each type of an answer.
async fn guest_of(app: &AppState, caller: &Caller, id: &str, method: &Method) -> Result<Guest> {
    let computer = app.directory.find_computer(caller, id).await?;
    Ok(app.directory.guest_for(method, &computer).await?.acting_as(Actor::of(caller)))
}
