//! Ticket for the viewer page of a signed-in person, who needs no password then.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::AppState;
use crate::identity::auth::session::SignedInForm;
use crate::identity::auth::tickets::{DEFAULT_LIFE, DEFAULT_SCREEN, Ticket};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_domain::identity::access::{Credential, Intent, Role};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::computer::ticket::TicketMode;

/// Returns the route.
pub fn router() -> Router<AppState> {
    Router::new().route("/desktops/{id}/view/ticket", post(issue))
}

#[derive(Debug, Deserialize)]
struct TicketForm {
    /// The screen; the boot screen when absent.
    #[serde(default)]
    screen: Option<String>,
    /// Whether the person only watches.
    #[serde(default)]
    view_only: bool,
}

#[derive(Debug, Serialize)]
struct IssuedTicket {
    ticket: String,
    mode: TicketMode,
}

/// `POST /desktops/{id}/view/ticket`: a form, so that it has the protection of forms against other sites' pages.
/// Viewers of the workspace get a ticket to watch. Ticket and connection end with the sign-in.
async fn issue(
    State(app): State<AppState>,
    Path(id): Path<String>,
    SignedInForm { who, form }: SignedInForm<TicketForm>,
) -> Result<Response> {
    let (computer, role) = app.directory.find_computer_as(&who.caller(Intent::Read), &id).await?;
    let watches = form.view_only || role == Role::Viewer;
    let mode = if watches { TicketMode::View } else { TicketMode::Control };
    let screen = form.screen.unwrap_or_else(|| DEFAULT_SCREEN.to_owned());
    let actor = Actor::Person(who.account);
    let ticket = Ticket { mode, screen, by: Credential::Session(who.session), actor };
    let text = app.tickets.issue_for_screen(&app.fleet, &computer, ticket, DEFAULT_LIFE).await?;
    let issued = Json(IssuedTicket { ticket: text.reveal().to_owned(), mode });
    Ok(([(header::CACHE_CONTROL, "no-store")], issued).into_response())
}
