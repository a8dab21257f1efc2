//! Templates over HTTP (docs/api/templates.md).

use crate::api::api_router::ApiRouter;

pub mod builds;
mod definitions;
mod image_builds;
pub mod published;
mod runs;
mod saved;
mod stars;

/// Returns the routes of templates.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(definitions::router())
        .merge(published::router())
        .merge(builds::router())
        .merge(runs::router())
        .merge(saved::router())
        .merge(stars::router())
        .merge(image_builds::router())
}
