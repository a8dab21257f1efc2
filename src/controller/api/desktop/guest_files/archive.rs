//! A folder of the computer as a tar.

use crate::auth::Authenticated;
use axum::extract::{Request, State};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::relay::transfer::{Crossing, transfer};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::guest_file::{PathQuery, UnpackQuery, Unpacked};

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(pack, unpack))
}

const PACK: Crossing =
    Crossing { asked: &[], answered: &["content-disposition", "content-type"], sized: false };
const UNPACK: Crossing =
    Crossing { asked: &["content-length"], answered: &["content-length", "content-type"], sized: false };

/// A folder as a tar stream. Links are stored as links; sockets, FIFOs, devices and other file systems inside are left
/// out. A stream that is not whole ends as a broken transfer.
#[utoipa::path(get, path = "/computers/{id}/files/archive", tag = "computer files",
    params(("id" = String, Path), PathQuery), responses(
        (status = 200, description = "The folder", body = String, content_type = "application/x-tar")))]
async fn pack(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/archive", PACK, request).await
}

/// Unpacks a tar into a folder, which is made when it is missing: all of it or nothing. An archive with hard links,
/// devices, sparse files, or paths that lead elsewhere is refused.
#[utoipa::path(put, path = "/computers/{id}/files/archive", tag = "computer files",
    params(("id" = String, Path), UnpackQuery),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, description = "What was unpacked", body = Unpacked)))]
async fn unpack(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/archive", UNPACK, request).await
}
