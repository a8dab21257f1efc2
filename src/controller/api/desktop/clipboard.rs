//! The clipboard over HTTP.

use crate::auth::Authenticated;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Method;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forward;
use crate::Shared;
use hotdesk_guest::QUICK;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, Query, parse_object, read_body};
use hotdesk_wire::action::Done;
use hotdesk_wire::clipboard::{Clipboard, ClipboardQuery, MAX_BODY_BYTES, SetClipboard};

/// The routes of the clipboard.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(read, set))
}

/// Reads a screen's clipboard: text where there is text, else a PNG image.
#[utoipa::path(get, path = "/computers/{id}/clipboard", tag = "clipboard",
    params(("id" = String, Path), ClipboardQuery),
    responses((status = 200, description = "What is on it; `mime_type` is null when it is empty", body = Clipboard)))]
async fn read(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(query): Query<ClipboardQuery>,
) -> Result<Json<Clipboard>> {
    forward(&app, &caller, &id, Method::GET, "/clipboard", query, None::<&()>, QUICK).await
}

/// Puts text or an image on a screen's clipboard.
#[utoipa::path(put, path = "/computers/{id}/clipboard", tag = "clipboard",
    params(("id" = String, Path), ClipboardQuery), request_body = SetClipboard,
    responses((status = 200, description = "It is on the clipboard", body = Done)))]
async fn set(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(query): Query<ClipboardQuery>,
    body: Body,
) -> Result<Json<Done>> {
    // An image is larger than what other bodies may be.
    let body: SetClipboard = parse_object(&read_body(body, MAX_BODY_BYTES).await?)?;
    forward(&app, &caller, &id, Method::PUT, "/clipboard", query, Some(&body), QUICK).await
}
