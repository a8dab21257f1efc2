//! Actions over HTTP (wire.md 6): each is handed to the computer's agent, which checks and does it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::controller::Shared;
use crate::domain::access::Caller;
use crate::domain::error::Result;
use crate::guest::QUICK;
use crate::http::extract::{Json as Body, Path, Query};
use crate::wire::action::{ActionResult, Click, Drag, Key, Move, ScreenQuery, Scroll, Type, Wait};

/// Slowest typing that is waited for, characters a second: what needs remapped keys goes at 300 on an idle machine.
const SLOWEST_TYPING: f64 = 50.0;

/// The routes of actions.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(click))
        .routes(routes!(pointer_move))
        .routes(routes!(drag))
        .routes(routes!(scroll))
        .routes(routes!(type_text))
        .routes(routes!(key))
        .routes(routes!(wait))
}

/// Clicks.
#[utoipa::path(post, path = "/computers/{id}/click", tag = "actions", params(("id" = String, Path), ScreenQuery),
    request_body = Click, responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn click(
    state: State<Shared>,
    caller: Caller,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Click>,
) -> Result<Json<ActionResult>> {
    act(state, caller, id, "/click", screen, &body, QUICK).await
}

/// Moves the pointer.
#[utoipa::path(post, path = "/computers/{id}/move", tag = "actions", params(("id" = String, Path), ScreenQuery),
    request_body = Move, responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn pointer_move(
    state: State<Shared>,
    caller: Caller,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Move>,
) -> Result<Json<ActionResult>> {
    act(state, caller, id, "/move", screen, &body, QUICK).await
}

/// Drags from one point to another.
#[utoipa::path(post, path = "/computers/{id}/drag", tag = "actions", params(("id" = String, Path), ScreenQuery),
    request_body = Drag, responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn drag(
    state: State<Shared>,
    caller: Caller,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Drag>,
) -> Result<Json<ActionResult>> {
    let patience = QUICK + seconds(body.duration.unwrap_or(0.0), crate::domain::pointer::MAX_DRAG_SECONDS);
    act(state, caller, id, "/drag", screen, &body, patience).await
}

/// Turns the wheel.
#[utoipa::path(post, path = "/computers/{id}/scroll", tag = "actions", params(("id" = String, Path), ScreenQuery),
    request_body = Scroll, responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn scroll(
    state: State<Shared>,
    caller: Caller,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Scroll>,
) -> Result<Json<ActionResult>> {
    act(state, caller, id, "/scroll", screen, &body, QUICK).await
}

/// Types a text.
#[utoipa::path(post, path = "/computers/{id}/type", tag = "actions", params(("id" = String, Path), ScreenQuery),
    request_body = Type, responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn type_text(
    state: State<Shared>,
    caller: Caller,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Type>,
) -> Result<Json<ActionResult>> {
    let patience = QUICK + Duration::from_secs_f64(body.text.chars().count() as f64 / SLOWEST_TYPING);
    act(state, caller, id, "/type", screen, &body, patience).await
}

/// Presses a key or a combination.
#[utoipa::path(post, path = "/computers/{id}/key", tag = "actions", params(("id" = String, Path), ScreenQuery),
    request_body = Key, responses((status = 200, description = "Delivered", body = ActionResult)))]
async fn key(
    state: State<Shared>,
    caller: Caller,
    id: Path<String>,
    Query(screen): Query<ScreenQuery>,
    Body(body): Body<Key>,
) -> Result<Json<ActionResult>> {
    act(state, caller, id, "/key", screen, &body, QUICK).await
}

/// Waits.
#[utoipa::path(post, path = "/computers/{id}/wait", tag = "actions", params(("id" = String, Path)),
    request_body = Wait, responses((status = 200, description = "Waited", body = ActionResult)))]
async fn wait(
    state: State<Shared>,
    caller: Caller,
    id: Path<String>,
    Body(body): Body<Wait>,
) -> Result<Json<ActionResult>> {
    let patience = QUICK + seconds(body.seconds.or(body.duration).unwrap_or(0.0), 60.0);
    act(state, caller, id, "/wait", ScreenQuery::default(), &body, patience).await
}

async fn act<Send: Serialize + Sync, Receive: DeserializeOwned>(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    path: &str,
    screen: ScreenQuery,
    body: &Send,
    patience: Duration,
) -> Result<Json<Receive>> {
    let computer = app.find_computer(&caller, &id).await?;
    let guest = app.fleet.guest(&computer).await?;
    guest.call(Method::POST, path, screen, Some(body), patience).await.map(Json)
}

/// A client's number of seconds as a wait of at most `most`; nonsense waits for nothing and is refused by the agent.
pub(super) fn seconds(value: f64, most: f64) -> Duration {
    Duration::try_from_secs_f64(value.min(most)).unwrap_or_default()
}
