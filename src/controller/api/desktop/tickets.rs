//! Tickets over HTTP: links to a screen that hold no password.

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::auth::tickets::{DEFAULT_LIFE, MAX_LIFE, Ticket};
use crate::origin::Origin;
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_domain::channel::Channel;
use hotdesk_domain::error::Error;
use hotdesk_guest::{QUICK, percent_encode};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::action::ScreenList;
use hotdesk_wire::ticket::{Mode, NewTicket, Ticket as Record};

/// The route of tickets.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(issue))
}

/// Issues a ticket that opens one screen once, to see it or to act on it; whoever may only view gets one to see. It ends with the key
/// that it was asked for with, and so does what it opened.
#[utoipa::path(post, path = "/computers/{id}/stream-tickets", tag = "screens", params(("id" = String, Path)),
    request_body = NewTicket, responses((status = 201, description = "The ticket, shown once", body = Record)))]
async fn issue(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<NewTicket>,
) -> Result<(StatusCode, [(HeaderName, HeaderValue); 1], Json<Record>)> {
    let caller = match wanted.mode {
        Mode::View => caller.looking(),
        Mode::Control => caller,
    };
    let computer = app.find_computer(&caller, &id).await?;
    let life = wanted.ttl_seconds.map_or(DEFAULT_LIFE, |seconds| Duration::from_secs(seconds.into()));
    if life.is_zero() || life > MAX_LIFE {
        return Err(Error::invalid(format!("ttl_seconds must be 1 to {}", MAX_LIFE.as_secs())).into());
    }
    let screen = wanted.screen.unwrap_or_else(|| "default".to_owned());
    let guest = match wanted.mode {
        Mode::View => app.fleet.guest_to_read(&computer).await?,
        Mode::Control => app.fleet.guest(&computer).await?,
    };
    let seen: ScreenList = guest.call(Method::GET, "/screens", (), None::<&()>, QUICK).await?;
    if !seen.screens.iter().any(|seen| seen.id == screen) {
        return Err(Error::not_found(format!("Screen not found: {screen}")).into());
    }
    let ticket = Ticket { mode: wanted.mode, screen: screen.clone(), by: caller.credential };
    let text = app.tickets.issue(&computer, ticket, life)?;
    let expires = now_ms().saturating_add(i64::try_from(life.as_millis()).unwrap_or(i64::MAX));
    let desktop = format!("{}/desktops/{}", origin.0, computer.instance);
    let query = format!(
        "screen={}{}",
        percent_encode(&screen),
        match wanted.mode {
            Mode::View => "&view_only=true",
            Mode::Control => "",
        }
    );
    let socket = format!("{desktop}/ws/{}", Channel::Websockify.name()).replacen("http", "ws", 1);
    Ok((
        StatusCode::CREATED,
        // access.md A6.
        [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))],
        Json(Record {
            url: format!("{desktop}/view?{query}#ticket={}", text.reveal()),
            ws_url: format!("{socket}?ticket={}", text.reveal()),
            ticket: text.reveal().to_owned(),
            mode: wanted.mode,
            screen,
            expires_at: iso8601(expires),
        }),
    ))
}
