//! The catalogue of events over HTTP; the events themselves come by WebSocket.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::event::Catalogue;

/// The route of the catalogue.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(catalogue))
}

/// The types of events that a computer tells, with what each means and carries. They are subscribed to by WebSocket, at
/// `/desktops/{id}/ws/events?token=` with the computer's password. The computer need not run.
#[utoipa::path(get, path = "/computers/{id}/events", tag = "events", params(("id" = String, Path)),
    responses((status = 200, description = "The catalogue", body = Catalogue)))]
async fn catalogue(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<Catalogue>> {
    app.find_computer(&caller, &id).await?;
    Ok(Json(Catalogue::current()))
}
