//! How are screens made, resized and looked at over HTTP? (wire.md 6.1 and 7)

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::agent::display::{Displays, Form, Picture};
use crate::domain::error::{Error, Result};
use crate::domain::resolution::Size;
use crate::http::extract::{Json, Path, Query};
use crate::wire::action::{Done, Screen, ScreenList, ScreenSize, ScreenshotBase64, ScreenshotQuery};

/// The screens' operations.
pub fn router(displays: Displays) -> Router {
    Router::new()
        .route("/screenshot", get(screenshot))
        .route("/screens", get(screens).post(create_screen))
        .route("/screens/{id}", patch(resize_screen).delete(delete_screen))
        .with_state(displays)
}

async fn screenshot(
    State(displays): State<Displays>,
    Query(query): Query<ScreenshotQuery>,
) -> Result<Response> {
    let form = Form::parse(query.format.as_deref(), query.quality, query.scale)?;
    // An agent stores nothing, so it has no URL to give: `url` is answered like `base64`.
    let binary = match query.response_format.as_deref() {
        Some("binary") => true,
        None | Some("url" | "base64") => false,
        Some(_) => return Err(Error::invalid("response_format must be url, base64 or binary")),
    };
    let Picture { bytes, mime_type, width, height } =
        displays.screen(query.screen.as_deref())?.screenshot(form).await?;
    if binary {
        return Ok(([(header::CONTENT_TYPE, mime_type)], bytes).into_response());
    }
    let image = STANDARD.encode(&bytes);
    let body = ScreenshotBase64 { success: true, image, mime_type: mime_type.to_owned(), width, height };
    Ok(axum::Json(body).into_response())
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
