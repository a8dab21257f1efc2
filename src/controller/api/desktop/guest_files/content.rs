//! One file in, one file out, of any size.

use crate::auth::Authenticated;
use axum::extract::{Request, State};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::relay::transfer::{Crossing, transfer};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::error::ErrorBody;
use hotdesk_wire::guest_file::{PathQuery, PutQuery, Written};

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(download, upload))
}

const DOWNLOAD: Crossing = Crossing {
    asked: &["range", "if-range", "if-none-match"],
    answered: &[
        "accept-ranges",
        "content-disposition",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "last-modified",
    ],
    sized: true,
};
const UPLOAD: Crossing =
    Crossing { asked: &["content-length"], answered: &["content-length", "content-type"], sized: false };

/// Reads a file of the computer, all of it or one range (`Range`, `If-Range`). `HEAD` tells its size and `ETag`.
#[utoipa::path(get, path = "/computers/{id}/files/content", tag = "computer files",
    params(("id" = String, Path), PathQuery), responses(
        (status = 200, description = "The file", body = String, content_type = "*/*"),
        (status = 206, description = "The range", body = String, content_type = "*/*"),
        (status = 304, description = "It is what `If-None-Match` names"),
        (status = 416, description = "The file ends before the range", body = ErrorBody)))]
async fn download(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/content", DOWNLOAD, request).await
}

/// Writes a file of any size on the computer: whole or not at all, over another only if asked to.
#[utoipa::path(put, path = "/computers/{id}/files/content", tag = "computer files",
    params(("id" = String, Path), PutQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, description = "It is there, and on the disk", body = Written)))]
async fn upload(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/content", UPLOAD, request).await
}
