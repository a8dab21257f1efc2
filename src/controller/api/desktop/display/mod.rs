//! Routes of the screen: screenshots, screens, windows and accessible elements.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

pub mod elements;
pub mod screens;
pub mod screenshot;
pub mod windows;

/// Returns the routes of the screen.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(elements::router())
        .merge(screens::router())
        .merge(screenshot::router())
        .merge(windows::router())
}
