//! Download and upload of a single file of any size.

use crate::identity::auth::AuthenticatedCaller;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::relay::transfer::{TransferRules, transfer};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::error::ErrorBody;
use hotdesk_wire::files::guest_file::{FileWritten, PathQuery, PutQuery};

pub(super) fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(download, upload))
}

const UPLOAD: TransferRules = TransferRules {
    request_fields: &["content-length", "if-match"],
    response_fields: &["content-length", "content-type", "etag"],
    requires_length: false,
};

/// Returns a file of the computer, complete or one range (`Range`, `If-Range`).
///
/// `HEAD` returns its size and `ETag`.
#[utoipa::path(get, path = "/computers/{id}/files/content", tag = "computer files",
    params(("id" = String, Path), PathQuery,
        ("Range" = Option<String>, Header, description = "Part of the file, for example `bytes=0-99`")),
    responses(
        (status = 200, description = "The file", body = String, content_type = "*/*",
            headers(("ETag" = String, description = "The version of the file"))),
        (status = 206, description = "The range", body = String, content_type = "*/*"),
        (status = 304, description = "The client has the current version (`If-None-Match`)"),
        (status = 416, description = "The file ends before the range", body = ErrorBody)))]
async fn download(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/content", TransferRules::DOWNLOAD, request).await
}

/// Writes a file of any size on the computer, completely or not at all.
///
/// An existing file is only replaced on request, and with `If-Match` only the version that it names.
#[utoipa::path(put, path = "/computers/{id}/files/content", tag = "computer files",
    params(("id" = String, Path), PutQuery,
        ("If-Match" = Option<String>, Header,
            description = "`ETag` of the version that may be replaced, or `*` for any")),
    request_body(content = String, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "The file was written and synced to the disk", body = FileWritten,
            headers(("ETag" = String, description = "The version that was written"))),
        (status = 412, description = "`file_changed`: the file is another version, and nothing was written",
            body = ErrorBody)))]
async fn upload(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/content", UPLOAD, request).await
}
