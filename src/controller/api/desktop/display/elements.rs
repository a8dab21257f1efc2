//! Elements over HTTP: what programs show, and how it is acted on. Each is handed to the computer's agent.

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_domain::access::Caller;
use hotdesk_guest::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::element::{
    ElementActed, ElementClick, ElementList, ElementSetValue, ElementsQuery, MarkedQuery, MarkedScreenshot,
};

/// How long a list may take: two others before it, its own longest time, and a margin. Acting takes a call for each object around
/// the element, each of which a busy browser may answer slowly.
const ELEMENT_TIMEOUT: Duration = Duration::from_secs(45);

/// The routes of elements.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(marked))
        .routes(routes!(click))
        .routes(routes!(set_value))
        .routes(routes!(focus))
}

/// Lists what programs show on a screen: buttons, entries, links and so on, with their boxes.
#[utoipa::path(get, path = "/computers/{id}/elements", tag = "elements",
    params(("id" = String, Path), ElementsQuery),
    responses((status = 200, description = "Visible first; `truncated` tells whether some are missing", body = ElementList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(query): Query<ElementsQuery>,
) -> Result<Json<ElementList>> {
    ask(&app, &caller, &id, Method::GET, "/elements", query, None::<&()>).await
}

/// Takes a screenshot with numbered marks on what takes input, and lists what the numbers mean.
#[utoipa::path(get, path = "/computers/{id}/elements/marked", tag = "elements",
    params(("id" = String, Path), MarkedQuery),
    responses((status = 200, description = "The picture and its elements", body = MarkedScreenshot)))]
async fn marked(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(query): Query<MarkedQuery>,
) -> Result<Json<MarkedScreenshot>> {
    ask(&app, &caller, &id, Method::GET, "/elements/marked", query, None::<&()>).await
}

/// Clicks an element: scrolled into view, its window in front, by the real pointer.
#[utoipa::path(post, path = "/computers/{id}/elements/{element_id}/click", tag = "elements",
    params(("id" = String, Path), ("element_id" = String, Path)), request_body = ElementClick,
    responses((status = 200, description = "What came of it", body = ElementActed)))]
async fn click(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, element)): Path<(String, String)>,
    Body(body): Body<ElementClick>,
) -> Result<Json<ElementActed>> {
    act(&app, &caller, &id, &element, "click", Some(&body)).await
}

/// Sets an element's text or number and reads it back.
#[utoipa::path(post, path = "/computers/{id}/elements/{element_id}/set_value", tag = "elements",
    params(("id" = String, Path), ("element_id" = String, Path)), request_body = ElementSetValue,
    responses((status = 200, description = "What came of it", body = ElementActed)))]
async fn set_value(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, element)): Path<(String, String)>,
    Body(body): Body<ElementSetValue>,
) -> Result<Json<ElementActed>> {
    act(&app, &caller, &id, &element, "set_value", Some(&body)).await
}

/// Gives an element the keyboard focus.
#[utoipa::path(post, path = "/computers/{id}/elements/{element_id}/focus", tag = "elements",
    params(("id" = String, Path), ("element_id" = String, Path)),
    responses((status = 200, description = "What came of it", body = ElementActed)))]
async fn focus(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, element)): Path<(String, String)>,
) -> Result<Json<ElementActed>> {
    act(&app, &caller, &id, &element, "focus", None::<&()>).await
}

async fn act(
    app: &Shared,
    caller: &Caller,
    id: &str,
    element: &str,
    action: &str,
    body: Option<&(impl Serialize + Sync)>,
) -> Result<Json<ElementActed>> {
    let path = format!("/elements/{}/{action}", percent_encode(element));
    ask(app, caller, id, Method::POST, &path, (), body).await
}

async fn ask<Receive: DeserializeOwned>(
    app: &Shared,
    caller: &Caller,
    id: &str,
    method: Method,
    path: &str,
    query: impl Serialize + Send,
    body: Option<&(impl Serialize + Sync)>,
) -> Result<Json<Receive>> {
    let computer = app.find_computer(caller, id).await?;
    let guest = app.guest_for(&method, &computer).await?;
    Ok(Json(guest.call(method, path, query, body, ELEMENT_TIMEOUT).await?))
}
