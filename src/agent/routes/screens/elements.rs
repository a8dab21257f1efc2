//! Routes `/elements`: accessible elements of a screen.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use crate::display::Displays;
use crate::elements::{Elements, ListRequest};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path, Query};
use hotdesk_wire::desktop::element::{
    ElementActionResult, ElementClick, ElementList, ElementSetValue, ElementsQuery, MarkedQuery,
    MarkedScreenshot,
};

/// Routes of the elements.
pub fn router(displays: Displays) -> Router {
    Router::new()
        .route("/elements", get(list))
        .route("/elements/marked", get(marked))
        .route("/elements/{id}/click", post(click))
        .route("/elements/{id}/set_value", post(set_value))
        .route("/elements/{id}/focus", post(focus))
        .with_state(Elements::new(displays))
}

async fn list(
    State(elements): State<Elements>,
    Query(query): Query<ElementsQuery>,
) -> Result<Answer<ElementList>> {
    Ok(Answer(elements.list(ListRequest::parse(query)?).await?))
}

async fn marked(
    State(elements): State<Elements>,
    Query(query): Query<MarkedQuery>,
) -> Result<Answer<MarkedScreenshot>> {
    Ok(Answer(elements.marked(query).await?))
}

async fn click(
    State(elements): State<Elements>,
    Path(id): Path<String>,
    Json(body): Json<ElementClick>,
) -> Result<Answer<ElementActionResult>> {
    Ok(Answer(elements.click(&id, &body).await?))
}

async fn set_value(
    State(elements): State<Elements>,
    Path(id): Path<String>,
    Json(body): Json<ElementSetValue>,
) -> Result<Answer<ElementActionResult>> {
    Ok(Answer(elements.set_value(&id, &body.value).await?))
}

async fn focus(
    State(elements): State<Elements>,
    Path(id): Path<String>,
) -> Result<Answer<ElementActionResult>> {
    Ok(Answer(elements.focus(&id).await?))
}
