//! Members, invitations, the profile and device approval over HTTP.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

pub mod devices;
pub mod members;
pub mod profile;

/// Returns the routes of people.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().merge(members::router()).merge(profile::router()).merge(devices::router())
}
