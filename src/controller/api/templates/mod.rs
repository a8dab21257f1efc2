//! Templates over HTTP (docs/api/templates.md).

pub mod builds;
mod definitions;
mod image_builds;
pub mod published;
mod runs;
mod saved;
mod stars;

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

/// Returns the routes of templates.
pub fn router() -> OpenApiRouter<AppState> {
    definitions::router()
        .merge(published::router())
        .merge(builds::router())
        .merge(runs::router())
        .merge(saved::router())
        .merge(stars::router())
        .merge(image_builds::router())
}
