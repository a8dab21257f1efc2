//! How is a screen acted on over HTTP? One route per action (wire.md 6), and one for a list of them.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::acting::Acting;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Query, Shaped};
use hotdesk_wire::action::{
    Click, CursorPosition, Drag, Key, Move, PointerButton, ScreenQuery, Scroll, Type, WaitChange, WaitStable,
};
use hotdesk_wire::batch::{Action, Batch, BatchResult};
use hotdesk_wire::effect::ActionResult;

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
    Ok(axum::Json(acting.act(query.screen.as_deref(), body.into()).await?))
}

async fn mouse_down(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<PointerButton>,
) -> Answer {
    Ok(axum::Json(acting.act(query.screen.as_deref(), Action::MouseDown(body)).await?))
}

async fn mouse_up(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<PointerButton>,
) -> Answer {
    Ok(axum::Json(acting.act(query.screen.as_deref(), Action::MouseUp(body)).await?))
}

async fn key_down(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Key>,
) -> Answer {
    Ok(axum::Json(acting.act(query.screen.as_deref(), Action::KeyDown(body)).await?))
}

async fn key_up(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Key>,
) -> Answer {
    Ok(axum::Json(acting.act(query.screen.as_deref(), Action::KeyUp(body)).await?))
}

async fn cursor_position(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
) -> Result<axum::Json<CursorPosition>> {
    Ok(axum::Json(acting.cursor_position(query.screen.as_deref()).await?))
}

async fn list(
    State(acting): State<Acting>,
    Query(query): Query<ScreenQuery>,
    Shaped(batch): Shaped<Batch>,
) -> Result<axum::Json<BatchResult>> {
    Ok(axum::Json(acting.act_all(query.screen.as_deref(), batch).await?))
}
