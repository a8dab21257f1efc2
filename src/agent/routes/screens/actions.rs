//! Routes of the input actions (docs/api/actions.md) and of batches.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::actions::ActionRunner;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{AnyJson, Json, Query};
use hotdesk_http::headers::actor::ActingAs;
use hotdesk_wire::desktop::action::{self, Action, CursorPosition, ScreenQuery};
use hotdesk_wire::desktop::batch::{Batch, BatchResult};
use hotdesk_wire::desktop::effect::ActionResult;

/// Routes of the actions.
pub fn router(runner: ActionRunner) -> Router {
    single().route("/cursor_position", get(cursor_position)).route("/actions", post(list)).with_state(runner)
}

macro_rules! action_routes {
    ($($(#[$doc:meta])* $variant:ident($body:ident) = $name:tt
        $({ handler: $handler:ident, summary: $summary:tt, answer: $answer:tt, })?,)*) => {
        /// Routes of single actions.
        fn single() -> Router<ActionRunner> {
            Router::new()$($(.route(concat!("/", $name), post($handler)))?)*
        }

        $($(async fn $handler(
            State(runner): State<ActionRunner>,
            ActingAs(by): ActingAs,
            Query(query): Query<ScreenQuery>,
            Json(body): Json<action::$body>,
        ) -> Result<axum::Json<ActionResult>> {
            Ok(axum::Json(runner.act(by, query.screen.as_deref(), Action::$variant(body)).await?))
        })?)*
    };
}

hotdesk_wire::for_each_action!(action_routes);

async fn cursor_position(
    State(runner): State<ActionRunner>,
    Query(query): Query<ScreenQuery>,
) -> Result<axum::Json<CursorPosition>> {
    Ok(axum::Json(runner.cursor_position(query.screen.as_deref()).await?))
}

async fn list(
    State(runner): State<ActionRunner>,
    ActingAs(by): ActingAs,
    Query(query): Query<ScreenQuery>,
    AnyJson(batch): AnyJson<Batch>,
) -> Result<axum::Json<BatchResult>> {
    Ok(axum::Json(runner.act_all(by, query.screen.as_deref(), batch).await?))
}
