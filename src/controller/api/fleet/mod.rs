//! For those who run many desktops: workspaces, computers, lifecycle, files.

use utoipa_axum::router::OpenApiRouter;

use crate::controller::Shared;

pub mod computers;
pub mod connections;
pub mod files;
pub mod lifecycle;
pub mod storage;
pub mod workspaces;

/// The fleet's routes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(workspaces::router())
        .merge(computers::router())
        .merge(lifecycle::router())
        .merge(files::router())
        .merge(connections::router())
}
