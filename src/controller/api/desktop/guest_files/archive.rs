//! Folders of a computer as tar archives.

use crate::identity::auth::AuthenticatedCaller;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::relay::transfer::{TransferRules, transfer};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::files::guest_file::{ArchiveQuery, UnpackQuery, UnpackResult};

pub(super) fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(pack, unpack))
}

const PACK: TransferRules = TransferRules {
    request_fields: &["if-match"],
    response_fields: &["content-disposition", "content-type"],
    requires_length: false,
};
const UNPACK: TransferRules = TransferRules {
    request_fields: &["content-length"],
    response_fields: &["content-length", "content-type"],
    requires_length: false,
};

/// Returns a folder as a tar stream.
///
/// Links are stored as links. Sockets, FIFOs, devices and other file systems inside are omitted. A folder is
/// followed by its content, and names are sorted by their bytes. An incomplete stream ends as a broken transfer;
/// `after` continues it.
#[utoipa::path(get, path = "/computers/{id}/files/archive", tag = "computer files",
    params(("id" = String, Path), ArchiveQuery), responses(
        (status = 200, description = "The folder", body = String, content_type = "application/x-tar")))]
async fn pack(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/archive", PACK, request).await
}

/// Unpacks a tar archive into a folder, completely or not at all.
///
/// A missing folder is created. Archives with hard links, devices, sparse files, or paths that lead outside
/// are refused.
#[utoipa::path(put, path = "/computers/{id}/files/archive", tag = "computer files",
    params(("id" = String, Path), UnpackQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, description = "What was unpacked", body = UnpackResult)))]
async fn unpack(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/archive", UNPACK, request).await
}
