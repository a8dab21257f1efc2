//! Routes of the screens and of everything on them.

use axum::Router;
use axum::middleware;

use super::idempotent::{self, IdempotencyLayer};
use crate::actions::ActionRunner;
use crate::display::Displays;
use crate::media::recording::Recordings;
use crate::media::timeline::Timelines;
use crate::programs::Programs;

mod actions;
mod clipboard;
mod control;
mod desktop;
mod elements;
mod programs;
mod recordings;
mod screenshot;
pub(super) mod streaming;
pub(super) mod template;
mod timeline;
mod windows;

/// Routes of the screens.
pub fn router(
    displays: Displays,
    programs: Programs,
    recordings: Recordings,
    timelines: Timelines,
    idempotency: IdempotencyLayer,
) -> Router {
    let tasks = idempotency.tasks.clone();
    let runner = ActionRunner::new(displays.clone(), recordings.clone(), timelines.clone(), tasks);
    actions::router(runner.clone())
        .merge(programs::router(programs))
        .merge(elements::router(displays.clone(), recordings.clone(), timelines.clone()))
        .layer(middleware::from_fn_with_state(idempotency, idempotent::pass))
        .merge(control::router(runner))
        .merge(windows::router(displays.clone()))
        .merge(clipboard::router(displays.clone()))
        .merge(recordings::router(recordings))
        .merge(timeline::router(timelines))
        .merge(desktop::router(displays))
}
