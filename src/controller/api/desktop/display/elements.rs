//! Accessible elements over HTTP: list them and act on them. The computer's agent does the work.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde::Serialize;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_domain::identity::access::Caller;
use hotdesk_guest::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::desktop::element::{
    ElementActionResult, ElementClick, ElementList, ElementSetValue, ElementsQuery, MarkedQuery,
    MarkedScreenshot,
};

/// Longest request: a list may wait for two others and for its own longest duration, plus a margin. An action
/// calls each object around the element, and a busy browser may respond slowly.
const ELEMENT_TIMEOUT: Duration = Duration::from_secs(45);

/// Returns the routes of elements.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list))
        .routes(routes!(marked))
        .routes(routes!(click))
        .routes(routes!(set_value))
        .routes(routes!(focus))
}

/// Lists the accessible elements of a screen (buttons, entries, links and so on) with their boxes.
#[utoipa::path(get, path = "/computers/{id}/elements", tag = "elements",
    params(("id" = String, Path), ElementsQuery),
    responses((status = 200, description = "The elements, visible ones first; `truncated` says whether some are missing", body = ElementList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<ElementsQuery>,
) -> Result<Json<ElementList>> {
    forward(&app, &caller, &id, Method::GET, "/elements", query, None::<&()>, ELEMENT_TIMEOUT).await
}

/// Takes a screenshot with numbered marks on the elements that accept input, and lists those elements.
#[utoipa::path(get, path = "/computers/{id}/elements/marked", tag = "elements",
    params(("id" = String, Path), MarkedQuery),
    responses((status = 200, description = "The image and its elements", body = MarkedScreenshot)))]
pub(crate) async fn marked(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<MarkedQuery>,
) -> Result<Json<MarkedScreenshot>> {
    forward(&app, &caller, &id, Method::GET, "/elements/marked", query, None::<&()>, ELEMENT_TIMEOUT).await
}

/// Clicks an element with the real pointer.
///
/// The element is scrolled into view and its window is raised first.
#[utoipa::path(post, path = "/computers/{id}/elements/{element_id}/click", tag = "elements",
    params(("id" = String, Path), ("element_id" = String, Path)), request_body = ElementClick,
    responses((status = 200, description = "The result", body = ElementActionResult)))]
pub(crate) async fn click(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, element)): Path<(String, String)>,
    Body(body): Body<ElementClick>,
) -> Result<Json<ElementActionResult>> {
    act(&app, &caller, &id, &element, "click", Some(&body)).await
}

/// Sets an element's text or number, and reads it back.
#[utoipa::path(post, path = "/computers/{id}/elements/{element_id}/set_value", tag = "elements",
    params(("id" = String, Path), ("element_id" = String, Path)), request_body = ElementSetValue,
    responses((status = 200, description = "The result", body = ElementActionResult)))]
pub(crate) async fn set_value(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, element)): Path<(String, String)>,
    Body(body): Body<ElementSetValue>,
) -> Result<Json<ElementActionResult>> {
    act(&app, &caller, &id, &element, "set_value", Some(&body)).await
}

/// Moves the keyboard focus to an element.
#[utoipa::path(post, path = "/computers/{id}/elements/{element_id}/focus", tag = "elements",
    params(("id" = String, Path), ("element_id" = String, Path)),
    responses((status = 200, description = "The result", body = ElementActionResult)))]
pub(crate) async fn focus(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, element)): Path<(String, String)>,
) -> Result<Json<ElementActionResult>> {
    act(&app, &caller, &id, &element, "focus", None::<&()>).await
}

async fn act(
    app: &AppState,
    caller: &Caller,
    id: &str,
    element: &str,
    action: &str,
    body: Option<&(impl Serialize + Sync)>,
) -> Result<Json<ElementActionResult>> {
    let path = format!("/elements/{}/{action}", percent_encode(element));
    forward(app, caller, id, Method::POST, &path, (), body, ELEMENT_TIMEOUT).await
}
