//! For those who let others in: members, invitations, whose key it is, and programs that ask for one.

use utoipa_axum::router::OpenApiRouter;

use crate::Shared;

pub mod devices;
pub mod members;
pub mod profile;

/// The routes of people.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(members::router()).merge(profile::router()).merge(devices::router())
}
