//! Clipboard over HTTP.

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, Query, parse_object, read_body};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::clipboard::{Clipboard, ClipboardQuery, MAX_BODY_BYTES, SetClipboard};

/// Returns the routes of the clipboard.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(read, set))
}

/// Reads a screen's clipboard: text if there is any, otherwise a PNG image.
#[utoipa::path(get, path = "/computers/{id}/clipboard", tag = "clipboard",
    params(("id" = String, Path), ClipboardQuery),
    responses((status = 200, description = "The clipboard; `mime_type` is null when it is empty",
        body = Clipboard)))]
async fn read(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<ClipboardQuery>,
) -> Result<Json<Clipboard>> {
    forward(&app, &caller, &id, Method::GET, "/clipboard", query, None::<&()>, QUICK_TIMEOUT).await
}

/// Sets a screen's clipboard to a text or an image.
#[utoipa::path(put, path = "/computers/{id}/clipboard", tag = "clipboard",
    params(("id" = String, Path), ClipboardQuery), request_body = SetClipboard,
    responses((status = 200, description = "The clipboard was set", body = Acknowledgement)))]
async fn set(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<ClipboardQuery>,
    body: Body,
) -> Result<Json<Acknowledgement>> {
    // Images may be larger than other request bodies.
    let body: SetClipboard = parse_object(&read_body(body, MAX_BODY_BYTES).await?)?;
    forward(&app, &caller, &id, Method::PUT, "/clipboard", query, Some(&body), QUICK_TIMEOUT).await
}
