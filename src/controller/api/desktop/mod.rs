//! For those who act on a desktop: screenshots, pointer, keyboard, commands, screens.

use utoipa_axum::router::OpenApiRouter;

use crate::controller::Shared;

pub mod actions;
pub mod guest_files;
pub mod exec;
pub mod processes;
mod patience;
pub mod screens;
pub mod screenshot;

/// The desktop's routes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(actions::router())
        .merge(exec::router())
        .merge(processes::router())
        .merge(screens::router())
        .merge(screenshot::router())
        .merge(guest_files::router())
}
