//! Catalogue of event types over HTTP. The events themselves come by WebSocket.

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::desktop::event::Catalogue;

/// Returns the route of the catalogue.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(catalogue))
}

/// Lists the event types of a computer, with their meaning and data.
///
/// Clients subscribe by WebSocket at `/desktops/{id}/ws/events?token=` with the computer's password. The
/// computer need not run.
#[utoipa::path(get, path = "/computers/{id}/events", tag = "events", params(("id" = String, Path)),
    responses((status = 200, description = "The catalogue", body = Catalogue)))]
async fn catalogue(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Catalogue>> {
    app.directory.find_computer(&caller, &id).await?;
    Ok(Json(Catalogue::current()))
}
