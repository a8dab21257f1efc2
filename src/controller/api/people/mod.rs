//! Members, invitations, the profile, browser sessions, sign-in links and device approval over HTTP.

use crate::api::api_router::ApiRouter;

pub mod devices;
pub mod members;
pub mod profile;
pub mod sessions;
pub mod sign_in_links;

/// Returns the routes of people.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .merge(members::router())
        .merge(profile::router())
        .merge(sessions::router())
        .merge(sign_in_links::router())
        .merge(devices::router())
}
