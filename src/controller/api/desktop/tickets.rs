//! Viewer tickets over HTTP: links to a screen without the password.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::tickets::{DEFAULT_LIFE, DEFAULT_SCREEN, MAX_LIFE, Ticket};
use crate::web::origin::Origin;
use hotdesk_base::clock;
use hotdesk_domain::desktop::channel::Channel;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::computer::ticket::{NewTicket, Ticket as Record, TicketMode};

/// Returns the route of tickets.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(issue))
}

/// Issues a ticket that opens one screen once, to view or to control it.
///
/// Viewers can only get tickets to view. The ticket, and what it opened, ends when the key that requested it
/// is revoked.
#[utoipa::path(post, path = "/computers/{id}/stream-tickets", tag = "screens", params(("id" = String, Path)),
    request_body = NewTicket,
    responses((status = 201, description = "The ticket, which is not available later", body = Record)))]
async fn issue(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<NewTicket>,
) -> Result<(StatusCode, [(HeaderName, HeaderValue); 1], Json<Record>)> {
    let caller = match wanted.mode {
        TicketMode::View => caller.for_read(),
        TicketMode::Control => caller,
    };
    let computer = app.directory.find_computer(&caller, &id).await?;
    let life = wanted.ttl_seconds.map_or(DEFAULT_LIFE, |seconds| Duration::from_secs(seconds.into()));
    if life.is_zero() || life > MAX_LIFE {
        return Err(Error::invalid(format!("ttl_seconds must be 1 to {}", MAX_LIFE.as_secs())).into());
    }
    let screen = wanted.screen.unwrap_or_else(|| DEFAULT_SCREEN.to_owned());
    let (by, actor) = (caller.credential, Actor::of(&caller));
    let ticket = Ticket { mode: wanted.mode, screen: screen.clone(), by, actor };
    let text = app.tickets.issue_for_screen(&app.fleet, &computer, ticket, life).await?;
    let expires = clock::now().plus(life);
    let desktop = format!("{}/desktops/{}", origin.0, computer.instance);
    let query = format!(
        "screen={}{}",
        percent_encode(&screen),
        match wanted.mode {
            TicketMode::View => "&view_only=true",
            TicketMode::Control => "",
        }
    );
    let socket = format!("{desktop}/ws/{}", Channel::Websockify.name()).replacen("http", "ws", 1);
    Ok((
        StatusCode::CREATED,
        // A6 (docs/authentication-rules.md).
        [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))],
        Json(Record {
            url: format!("{desktop}/view?{query}#ticket={}", text.reveal()),
            ws_url: format!("{socket}?ticket={}", text.reveal()),
            ticket: text.reveal().to_owned(),
            mode: wanted.mode,
            screen,
            expires_at: expires.iso8601(),
        }),
    ))
}
