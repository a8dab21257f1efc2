//! Routes `/windows`: windows of a screen.

use axum::extract::State;
use axum::routing::{get, patch, post};
use axum::{Json as Answer, Router};

use crate::display::{Displays, WindowChange as Change};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path, Query};
use hotdesk_http::headers::actor::ActingAs;
use hotdesk_wire::desktop::action::ScreenQuery;
use hotdesk_wire::desktop::window::{CloseWindow, Window, WindowClosed, WindowList, WindowPlace};

/// Routes of the windows.
pub fn router(displays: Displays) -> Router {
    Router::new()
        .route("/windows", get(list))
        .route("/windows/{id}", patch(place))
        .route(
            "/windows/{id}/focus",
            post(|state, by, path, query| change(state, by, path, query, Change::Focus)),
        )
        .route(
            "/windows/{id}/maximize",
            post(|state, by, path, query| change(state, by, path, query, Change::Maximize)),
        )
        .route(
            "/windows/{id}/minimize",
            post(|state, by, path, query| change(state, by, path, query, Change::Minimize)),
        )
        .route(
            "/windows/{id}/restore",
            post(|state, by, path, query| change(state, by, path, query, Change::Restore)),
        )
        .route("/windows/{id}/close", post(close))
        .with_state(displays)
}

async fn list(
    State(displays): State<Displays>,
    Query(query): Query<ScreenQuery>,
) -> Result<Answer<WindowList>> {
    let windows = displays.screen(query.screen.as_deref())?.windows().await?;
    Ok(Answer(WindowList { windows }))
}

async fn change(
    State(displays): State<Displays>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
    Query(query): Query<ScreenQuery>,
    change: Change,
) -> Result<Answer<Window>> {
    let screen = displays.screen(query.screen.as_deref())?;
    let _input = screen.control().admit(by).await?;
    Ok(Answer(screen.change_window(&id, change).await?))
}

async fn place(
    State(displays): State<Displays>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<WindowPlace>,
) -> Result<Answer<Window>> {
    let screen = displays.screen(query.screen.as_deref())?;
    let _input = screen.control().admit(by).await?;
    Ok(Answer(screen.place_window(&id, &body).await?))
}

async fn close(
    State(displays): State<Displays>,
    ActingAs(by): ActingAs,
    Path(id): Path<String>,
    Query(query): Query<ScreenQuery>,
    Json(body): Json<CloseWindow>,
) -> Result<Answer<WindowClosed>> {
    let screen = displays.screen(query.screen.as_deref())?;
    let _input = screen.control().admit(by).await?;
    let closed = screen.close_window(&id, body.force.unwrap_or(false)).await?;
    Ok(Answer(WindowClosed { closed }))
}
