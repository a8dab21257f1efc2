//! Routes of the input actions (docs/api/actions.md) and of batches.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::actions::ActionRunner;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{AnyJson, Json, Query};
use hotdesk_wire::desktop::action::{
    Click, CursorPosition, Drag, KeyPress, Move, PointerButton, ScreenQuery, Scroll, Type, WaitChange,
    WaitStable,
};
use hotdesk_wire::desktop::batch::{Action, Batch, BatchResult};
use hotdesk_wire::desktop::effect::ActionResult;

type Answer = Result<axum::Json<ActionResult>>;

/// Routes of the actions.
pub fn router(runner: ActionRunner) -> Router {
    Router::new()
        .route("/click", post(one::<Click>))
        .route("/move", post(one::<Move>))
        .route("/mouse_down", post(mouse_down))
        .route("/mouse_up", post(mouse_up))
        .route("/drag", post(one::<Drag>))
        .route("/scroll", post(one::<Scroll>))
        .route("/type", post(one::<Type>))
        .route("/key", post(one::<KeyPress>))
        .route("/key_down", post(key_down))
        .route("/key_up", post(key_up))
        .route("/wait_stable", post(one::<WaitStable>))
        .route("/wait_change", post(one::<WaitChange>))
        .route("/cursor_position", get(cursor_position))
        .route("/actions", post(list))
        .with_state(runner)
}

async fn one<Body: Into<Action>>(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Body>,
) -> Answer {
    Ok(axum::Json(runner.act(query.screen.as_deref(), body.into()).await?))
}

async fn mouse_down(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<PointerButton>,
) -> Answer {
    Ok(axum::Json(runner.act(query.screen.as_deref(), Action::MouseDown(body)).await?))
}

async fn mouse_up(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<PointerButton>,
) -> Answer {
    Ok(axum::Json(runner.act(query.screen.as_deref(), Action::MouseUp(body)).await?))
}

async fn key_down(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<KeyPress>,
) -> Answer {
    Ok(axum::Json(runner.act(query.screen.as_deref(), Action::KeyDown(body)).await?))
}

async fn key_up(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<KeyPress>,
) -> Answer {
    Ok(axum::Json(runner.act(query.screen.as_deref(), Action::KeyUp(body)).await?))
}

async fn cursor_position(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
) -> Result<axum::Json<CursorPosition>> {
    Ok(axum::Json(runner.cursor_position(query.screen.as_deref()).await?))
}

async fn list(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
    AnyJson(batch): AnyJson<Batch>,
) -> Result<axum::Json<BatchResult>> {
    Ok(axum::Json(runner.act_all(query.screen.as_deref(), batch).await?))
}
