//! Routes of the screen: screenshots, screens, their control, timelines, windows and accessible elements.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

pub mod control;
pub mod elements;
pub mod screens;
pub mod screenshot;
pub mod timeline;
pub mod windows;

/// Returns the routes of the screen.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(control::router())
        .merge(elements::router())
        .merge(screens::router())
        .merge(screenshot::router())
        .merge(timeline::router())
        .merge(windows::router())
}
