//! Routes that run things: commands, processes and graphical programs.

use crate::api::api_router::ApiRouter;

pub mod exec;
pub mod processes;
pub mod programs;
pub mod services;
pub mod triggers;

/// Returns the routes that run things.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(exec::router())
        .merge(processes::router())
        .merge(programs::router())
        .merge(services::router())
        .merge(triggers::router())
}
