//! Routes `/screens` and `/screenshot` (docs/api/screens.md).

use axum::Router;
use axum::extract::State;
use axum::routing::{get, patch};

use super::screenshot::screenshot;
use crate::display::Displays;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path};
use hotdesk_http::headers::actor::ActingAs;
use hotdesk_wire::desktop::action::{Acknowledgement, ResizeScreen, Screen, ScreenList, ScreenSize};

/// Routes of the screens.
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
    // With only one side, the size of the boot screen (docs/api/screens.md).
    let size = match (body.width, body.height) {
        (Some(width), Some(height)) => Some(Size::new(width, height)?),
        (Some(_), None) | (None, Some(_) | None) => None,
    };
    Ok(axum::Json(displays.create(size).await?.record()))
}

async fn resize_screen(
    State(displays): State<Displays>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
    Json(body): Json<ResizeScreen>,
) -> Result<axum::Json<Screen>> {
    let screen = displays.screen(Some(&id))?;
    let size = Size::new(body.width, body.height)?;
    let _input = screen.control().admit(by).await?;
    screen.resize(size).await?;
    Ok(axum::Json(screen.record()))
}

async fn delete_screen(
    State(displays): State<Displays>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
) -> Result<axum::Json<Acknowledgement>> {
    let screen = displays.screen(Some(&id))?;
    let _input = screen.control().admit(by).await?;
    displays.delete(&id).await?;
    Ok(axum::Json(Acknowledgement { success: true }))
}
