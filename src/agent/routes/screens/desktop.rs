//! How are screens made, resized and looked at over HTTP? (wire.md 6.1 and 7)

use axum::Router;
use axum::extract::State;
use axum::routing::{get, patch};

use super::screenshot::screenshot;
use crate::display::Displays;
use hotdesk_domain::error::Error;
use hotdesk_domain::resolution::Size;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path};
use hotdesk_wire::action::{Done, Screen, ScreenList, ScreenSize};

/// The screens' operations.
pub fn router(displays: Displays) -> Router {
    Router::new()
        .route("/screenshot", get(screenshot))
        .route("/screens", get(screens).post(create_screen))
        .route("/screens/{id}", patch(resize_screen).delete(delete_screen))
        .with_state(displays)
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
        return Err(Error::invalid("width and height are needed").into());
    };
    let screen = displays.screen(Some(&id))?;
    screen.resize(Size::new(width, height)?).await?;
    Ok(axum::Json(screen.record()))
}

async fn delete_screen(State(displays): State<Displays>, Path(id): Path<String>) -> Result<axum::Json<Done>> {
    displays.delete(&id).await?;
    Ok(axum::Json(Done { success: true }))
}
