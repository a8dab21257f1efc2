//! Routes of the screen: screenshots, screens, their control, timelines, windows and accessible elements.

use crate::api::api_router::ApiRouter;

pub mod control;
pub mod elements;
pub mod screens;
pub mod screenshot;
pub mod timeline;
pub mod windows;

/// Returns the routes of the screen.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(control::router())
        .merge(elements::router())
        .merge(screens::router())
        .merge(screenshot::router())
        .merge(timeline::router())
        .merge(windows::router())
}
