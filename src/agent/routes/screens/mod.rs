//! Routes of the screens and of everything on them.

use axum::Router;
use axum::middleware;

use super::idempotent::{self, IdempotencyLayer};
use crate::actions::ActionRunner;
use crate::display::Displays;
use crate::media::recording::Recordings;
use crate::programs::Programs;

mod actions;
mod clipboard;
mod desktop;
mod elements;
mod programs;
mod recordings;
mod screenshot;
pub(super) mod streaming;
pub(super) mod template;
mod windows;

/// Routes of the screens.
pub fn router(
    displays: Displays,
    programs: Programs,
    recordings: Recordings,
    idempotency: IdempotencyLayer,
) -> Router {
    let runner = ActionRunner::new(displays.clone(), recordings.clone(), idempotency.tasks.clone());
    actions::router(runner)
        .merge(programs::router(programs))
        .merge(elements::router(displays.clone()))
        .layer(middleware::from_fn_with_state(idempotency, idempotent::pass))
        .merge(windows::router(displays.clone()))
        .merge(clipboard::router(displays.clone()))
        .merge(recordings::router(recordings))
        .merge(desktop::router(displays))
}
