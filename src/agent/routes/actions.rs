//! How is a screen acted on over HTTP? One route per action (wire.md 6), and one for a list of them.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::agent::acting::Acting;
use crate::domain::error::Result;
use crate::http::extract::{Json, Query, Shaped};
use crate::wire::action::{
    Click, CursorPosition, Drag, Key, Move, PointerButton, ScreenQuery, Scroll, Type, WaitChange, WaitStable,
};
use crate::wire::batch::{Action, Batch, BatchResult};
use crate::wire::effect::ActionResult;

type Answer = Result<axum::Json<ActionResult>>;

/// The actions' routes.
pub fn router(acting: Acting) -> Router {
    Router::new()
        .route("/click", post(one::<Click>))
        .route("/move", post(one::<Move>))
        .route("/mouse_down", post(mouse_down))
        .route("/mouse_up", post(mouse_up))
        .route("/drag", post(one::<Drag>))
        .route("/scroll", post(one::<Scroll>))
        .route("/type", post(one::<Type>))
        .route("/key", post(one::<Key>))
        .route("/key_down", post(key_down))
        .route("/key_up", post(key_up))
        .route("/wait_stable", post(one::<WaitStable>))
        .route("/wait_change", post(one::<WaitChange>))
        .route("/cursor_position", get(cursor_position))
        .route("/actions", post(list))
        .with_state(acting)
}

async fn one<Body: Into<Action>>(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Body>,
) -> Answer {
    acting.act(query.screen.as_deref(), body.into()).await.map(axum::Json)
}

async fn mouse_down(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<PointerButton>,
) -> Answer {
    acting.act(query.screen.as_deref(), Action::MouseDown(body)).await.map(axum::Json)
}

async fn mouse_up(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<PointerButton>,
) -> Answer {
    acting.act(query.screen.as_deref(), Action::MouseUp(body)).await.map(axum::Json)
}

async fn key_down(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Key>,
) -> Answer {
    acting.act(query.screen.as_deref(), Action::KeyDown(body)).await.map(axum::Json)
}

async fn key_up(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Key>,
) -> Answer {
    acting.act(query.screen.as_deref(), Action::KeyUp(body)).await.map(axum::Json)
}

async fn cursor_position(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
) -> Result<axum::Json<CursorPosition>> {
    acting.cursor_position(query.screen.as_deref()).await.map(axum::Json)
}

async fn list(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Shaped(batch): Shaped<Batch>,
) -> Result<axum::Json<BatchResult>> {
    acting.act_all(query.screen.as_deref(), batch).await.map(axum::Json)
}
