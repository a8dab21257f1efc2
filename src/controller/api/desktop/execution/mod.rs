//! Routes that run things: commands, processes and graphical programs.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

pub mod exec;
pub mod processes;
pub mod programs;
pub mod services;
pub mod triggers;

/// Returns the routes that run things.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(exec::router())
        .merge(processes::router())
        .merge(programs::router())
        .merge(services::router())
        .merge(triggers::router())
}
