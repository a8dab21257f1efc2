//! Workspaces, computers, their lifecycle, and workspace files over HTTP.

use crate::api::api_router::ApiRouter;

pub mod clone;
pub mod clone_errors;
pub mod computers;
pub mod egress;
pub mod files;
pub mod lifecycle;
pub mod resize;
pub mod snapshots;
pub mod storage;
pub mod stream_connections;
pub mod suspension;
pub mod workspaces;

/// Returns the routes of the fleet.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(workspaces::router())
        .merge(computers::router())
        .merge(egress::router())
        .merge(lifecycle::router())
        .merge(clone::router())
        .merge(resize::router())
        .merge(suspension::router())
        .merge(snapshots::router())
        .merge(files::router())
        .merge(stream_connections::router())
}
