//! How are elements listed and acted on over HTTP?

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};

use crate::agent::display::Displays;
use crate::agent::elements::{Elements, Request};
use crate::domain::error::Result;
use crate::http::extract::{Json, Path, Query};
use crate::wire::element::{
    ElementActed, ElementClick, ElementList, ElementSetValue, ElementsQuery, MarkedQuery, MarkedScreenshot,
};

/// The elements' operations.
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
    elements.list(Request::parse(query)?).await.map(Answer)
}

async fn marked(
    State(elements): State<Elements>,
    Query(query): Query<MarkedQuery>,
) -> Result<Answer<MarkedScreenshot>> {
    elements.marked(query).await.map(Answer)
}

async fn click(
    State(elements): State<Elements>,
    Path(id): Path<String>,
    Json(body): Json<ElementClick>,
) -> Result<Answer<ElementActed>> {
    elements.click(&id, &body).await.map(Answer)
}

async fn set_value(
    State(elements): State<Elements>,
    Path(id): Path<String>,
    Json(body): Json<ElementSetValue>,
) -> Result<Answer<ElementActed>> {
    elements.set_value(&id, &body.value).await.map(Answer)
}

async fn focus(State(elements): State<Elements>, Path(id): Path<String>) -> Result<Answer<ElementActed>> {
    elements.focus(&id).await.map(Answer)
}
