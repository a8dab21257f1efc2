//! Image builds of older clients (`Template` and `Forge` of the Python package): refused with what to do instead.
//!
//! These clients build an image with Docker and push it to a registry that the service names. No registry is part of this
//! service, so the answers say how a template is made here. A create asks for the last build first and, whatever the answer
//! to that, sends the text of the caller as `image`, which may be a reference.

use axum::routing::{get, post};

use crate::api::api_router::ApiRouter;
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;

const NO_IMAGES: &str = "This service pulls no images from a registry: write a definition file, run `hotdesk templates \
    publish FILE --build`, and create computers from the template default/NAME@VERSION";

/// Returns the routes of image builds. They are not in the OpenAPI document, because none of them ever succeeds. Bodies and
/// queries are not read.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .route("/builds/create", post(refuse))
        .route("/builds/update", post(refuse))
        .route("/builds/latest", get(find_none))
}

/// Refuses an image build, or the status of one that was never begun.
async fn refuse(_: AuthenticatedCaller) -> HttpError {
    Error::unprocessable(NO_IMAGES).into()
}

/// Finds no image build.
async fn find_none(_: AuthenticatedCaller) -> HttpError {
    Error::not_found(NO_IMAGES).into()
}
