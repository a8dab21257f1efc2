//! How are screens looked at and acted on over HTTP? (wire.md 6, 6.1 and 7)

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, patch, post};
use serde_json::{Value, json};

use super::screenshot::screenshot;
use crate::agent::display::Displays;
use crate::domain::error::{Error, Result};
use crate::domain::pointer::{Button, Direction, MAX_DRAG_SECONDS, MAX_SCROLL_STEPS};
use crate::domain::resolution::Size;
use crate::http::extract::{Json, Path, Query};
use crate::wire::action::{
    ActionResult, Click, Done, Drag, Key, Move, Screen, ScreenList, ScreenQuery, ScreenSize, Scroll, Type,
};

/// Seconds of a drag when none are given (wire.md 6).
const DEFAULT_DRAG_SECONDS: f64 = 0.5;
/// Wheel steps when none are given (wire.md 6).
const DEFAULT_SCROLL_STEPS: u32 = 3;

/// The desktop's operations.
pub fn router(displays: Displays) -> Router {
    Router::new()
        .route("/screenshot", get(screenshot))
        .route("/click", post(click))
        .route("/move", post(move_pointer))
        .route("/drag", post(drag))
        .route("/scroll", post(scroll))
        .route("/type", post(type_text))
        .route("/key", post(key))
        .route("/screens", get(screens).post(create_screen))
        .route("/screens/{id}", patch(resize_screen).delete(delete_screen))
        .with_state(displays)
}

fn done(action: &str, details: Value) -> axum::Json<ActionResult> {
    axum::Json(ActionResult { success: true, action: action.to_owned(), details: Some(details) })
}

async fn click(
    State(displays): State<Displays>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Click>,
) -> Result<axum::Json<ActionResult>> {
    let button = Button::parse(body.button.as_deref())?;
    let double = body.double.unwrap_or(false);
    let screen = displays.screen(query.screen.as_deref())?;
    let point = screen.click(body.x, body.y, button, double).await?;
    let action = if double { "double_click" } else { "click" };
    Ok(done(action, json!({"x": point.x, "y": point.y, "button": button.name(), "double": double})))
}

async fn move_pointer(
    State(displays): State<Displays>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Move>,
) -> Result<axum::Json<ActionResult>> {
    let point = displays.screen(query.screen.as_deref())?.move_to(body.x, body.y).await?;
    Ok(done("move", json!({"x": point.x, "y": point.y})))
}

async fn drag(
    State(displays): State<Displays>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Drag>,
) -> Result<axum::Json<ActionResult>> {
    let button = Button::parse(body.button.as_deref())?;
    let seconds = body.duration.unwrap_or(DEFAULT_DRAG_SECONDS);
    if !(0.0..=MAX_DRAG_SECONDS).contains(&seconds) {
        return Err(Error::invalid(format!("duration must be 0 to {MAX_DRAG_SECONDS} seconds")));
    }
    let screen = displays.screen(query.screen.as_deref())?;
    let (from, to) = ((body.start_x, body.start_y), (body.end_x, body.end_y));
    let (start, end) = screen.drag(from, to, button, Duration::from_secs_f64(seconds)).await?;
    let details = json!({"start_x": start.x, "start_y": start.y, "end_x": end.x, "end_y": end.y,
        "button": button.name(), "duration": seconds});
    Ok(done("drag", details))
}

async fn scroll(
    State(displays): State<Displays>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Scroll>,
) -> Result<axum::Json<ActionResult>> {
    let direction = Direction::parse(&body.direction)?;
    let amount = body.amount.unwrap_or(DEFAULT_SCROLL_STEPS);
    if !(1..=MAX_SCROLL_STEPS).contains(&amount) {
        return Err(Error::invalid(format!("amount must be 1 to {MAX_SCROLL_STEPS}")));
    }
    let screen = displays.screen(query.screen.as_deref())?;
    let point = screen.scroll(direction, amount, body.x, body.y).await?;
    let details = json!({"direction": body.direction, "amount": amount, "x": point.x, "y": point.y});
    Ok(done("scroll", details))
}

async fn type_text(
    State(displays): State<Displays>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Type>,
) -> Result<axum::Json<ActionResult>> {
    let keys = displays.screen(query.screen.as_deref())?.type_text(&body.text).await?;
    Ok(done("type", json!({"keys": keys})))
}

async fn key(
    State(displays): State<Displays>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<Key>,
) -> Result<axum::Json<ActionResult>> {
    displays.screen(query.screen.as_deref())?.press(&body.key).await?;
    Ok(done("key_press", json!({"key": body.key})))
}

async fn screens(State(displays): State<Displays>) -> axum::Json<ScreenList> {
    let screens = displays.list().iter().map(|screen| screen.record()).collect();
    axum::Json(ScreenList { screens })
}

async fn create_screen(
    State(displays): State<Displays>,
    Json(body): Json<ScreenSize>,
) -> Result<axum::Json<Screen>> {
    // With only one side given, the boot screen's size (wire.md 7).
    let size = match (body.width, body.height) {
        (Some(width), Some(height)) => Some(Size::new(width, height)?),
        (Some(_), None) | (None, Some(_) | None) => None,
    };
    Ok(axum::Json(displays.create(size).await?.record()))
}

async fn resize_screen(
    State(displays): State<Displays>,
    Path(id): Path<String>,
    Json(body): Json<ScreenSize>,
) -> Result<axum::Json<Screen>> {
    let (Some(width), Some(height)) = (body.width, body.height) else {
        return Err(Error::invalid("width and height are needed"));
    };
    let screen = displays.screen(Some(&id))?;
    screen.resize(Size::new(width, height)?).await?;
    Ok(axum::Json(screen.record()))
}

async fn delete_screen(State(displays): State<Displays>, Path(id): Path<String>) -> Result<axum::Json<Done>> {
    displays.delete(&id).await?;
    Ok(axum::Json(Done { success: true }))
}
