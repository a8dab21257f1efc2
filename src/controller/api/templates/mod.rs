//! Templates over HTTP (docs/api/templates.md).

mod builds;
mod definitions;
mod published;

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

/// Returns the routes of templates.
pub fn router() -> OpenApiRouter<AppState> {
    definitions::router().merge(published::router()).merge(builds::router())
}
