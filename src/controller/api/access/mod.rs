//! For those who decide who may: keys, and the log of what was done with them.

use utoipa_axum::router::OpenApiRouter;

use crate::Shared;

pub mod audit;
pub mod keys;

/// Their routes.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(keys::router()).merge(audit::router())
}
