//! For those who act on a desktop: screenshots, pointer, keyboard, commands, screens.

use utoipa_axum::router::OpenApiRouter;

use crate::controller::Shared;

pub mod actions;
pub mod elements;
pub mod screens;
pub mod screenshot;

/// The desktop's routes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(actions::router())
        .merge(elements::router())
        .merge(screens::router())
        .merge(screenshot::router())
}
