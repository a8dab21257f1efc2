//! For those who run many desktops: workspaces, computers, lifecycle, files.

use utoipa_axum::router::OpenApiRouter;

use crate::Shared;

pub mod clone;
mod coded;
pub mod computers;
pub mod connections;
pub mod files;
pub mod lifecycle;
pub mod resize;
pub mod snapshots;
pub mod storage;
pub mod suspension;
pub mod workspaces;

/// The fleet's routes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(workspaces::router())
        .merge(computers::router())
        .merge(lifecycle::router())
        .merge(clone::router())
        .merge(resize::router())
        .merge(suspension::router())
        .merge(snapshots::router())
        .merge(files::router())
        .merge(connections::router())
}
