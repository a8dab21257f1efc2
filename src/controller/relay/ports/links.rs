//! Links that let a browser into a port without a key.
//!
//! ```text
//! ticket in a link, once --> grant in the path of the port's pages, until it expires
//! ```
//!
//! Pages run without an origin there (see [`super::fields`]), and browsers send such pages no cookies. So the path itself has
//! the credential: relative links, scripts, pictures and sockets of the page lead below it. At a host of a port
//! (`web.ports_host`) pages have an origin, and the grant is in a cookie of that host.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cookie::{Cookie, SameSite};

use super::prefix;
use crate::AppState;
use crate::identity::auth::tickets::Tickets;
use crate::web::origin::Origin;
use crate::web::port_hosts::PortHost;
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result as DomainResult};
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_store::fleet::computers::Computer;

/// Time for which a browser stays let in: a day of work. The link's sender may end it earlier with the key.
const GRANT_LIFE: Duration = Duration::from_secs(12 * 3600);
/// The grant is in the address, which goes nowhere else.
const FIELDS: [(HeaderName, HeaderValue); 2] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTicket {
    /// The port, of the ticket's computer.
    pub port: u16,
    /// Who asked for it: requests have the rights of this caller, and end with them.
    pub caller: Caller,
}

/// Tickets of links, and what they gave the browsers that opened them.
pub type PortTickets = Tickets<PortTicket>;

/// Issues a ticket for a port. Returns its link.
///
/// # Errors
/// `RateLimited` when the computer has the most unused tickets.
pub fn issue(
    app: &AppState,
    origin: &Origin,
    computer: &Computer,
    ticket: PortTicket,
    life: Duration,
) -> DomainResult<String> {
    let port = ticket.port;
    let text = app.port_tickets.issue(computer, ticket, life)?;
    Ok(match app.hosts.ports() {
        Some(hosts) => format!("{}/{AT_HOST}{}", hosts.origin(origin, computer.id, port), text.reveal()),
        None => format!("{}/port-links/{}", origin.0, text.reveal()),
    })
}

/// Returns the URL of a port of a computer, which stays the same.
pub fn url(app: &AppState, origin: &Origin, computer: ComputerId, port: u16) -> String {
    match app.hosts.ports() {
        Some(hosts) => format!("{}/", hosts.origin(origin, computer, port)),
        None => format!("{}{}/", origin.0, prefix(computer, port)),
    }
}

/// Beginning of the path of a link at a host of a port (RFC 8615).
pub(super) const AT_HOST: &str = ".well-known/hotdesk-port/";

/// Name of the cookie at the host of a port. The prefix `__Host-` ensures that no other host set it (RFC 6265bis section
/// 4.1.3.2).
pub(super) fn cookie_name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-hotdesk-port" } else { "hotdesk-port" }
}

/// `GET /.well-known/hotdesk-port/{ticket}` at the host of a port: consumes the ticket, sets the cookie of this host, and leads
/// to the program's root.
pub(super) async fn enter_host(
    app: &AppState,
    method: &Method,
    host: &PortHost,
    ticket: &str,
    is_secure: bool,
) -> Result<Response> {
    if method != Method::GET {
        return Ok((StatusCode::OK, FIELDS).into_response());
    }
    let computer = app.store.computer(&ComputerRef::Id(host.computer)).await?.ok_or_else(expired)?;
    // A request to the wrong host does not consume it.
    app.port_tickets.look_up(&computer, ticket).filter(|link| link.port == host.port).ok_or_else(expired)?;
    let link = app.port_tickets.redeem(&computer, ticket).ok_or_else(expired)?;
    let grant = app.port_grants.issue_newest(&computer, link, GRANT_LIFE);
    // Lax: a link from another site opens the page, and a form of another site sends nothing.
    let cookie = Cookie::build((cookie_name(is_secure), grant.reveal())).path("/").http_only(true);
    let mut cookie = cookie.secure(is_secure).same_site(SameSite::Lax).build();
    cookie.set_max_age(cookie::time::Duration::try_from(GRANT_LIFE).map_err(Error::internal)?);
    let cookie = HeaderValue::from_str(&cookie.to_string()).map_err(Error::internal)?;
    let fields = [(header::LOCATION, HeaderValue::from_static("/")), (header::SET_COOKIE, cookie)];
    Ok((StatusCode::SEE_OTHER, FIELDS, fields).into_response())
}

fn expired() -> Error {
    Error::not_found("This link was opened already or has expired: ask for another one for the port")
}

/// `GET /port-links/{ticket}`: consumes the ticket, and leads to the port's pages.
pub async fn enter(
    State(app): State<AppState>,
    method: Method,
    Path(ticket): Path<String>,
) -> Result<Response> {
    if method != Method::GET {
        // Programs that look at a link before a person opens it must not consume it.
        return Ok((StatusCode::OK, FIELDS).into_response());
    }
    let computer = app.port_tickets.computer(&ticket).ok_or_else(expired)?;
    let computer = app.store.computer(&ComputerRef::Id(computer)).await?.ok_or_else(expired)?;
    let link = app.port_tickets.redeem(&computer, &ticket).ok_or_else(expired)?;
    let grant: Secret = app.port_grants.issue_newest(&computer, link, GRANT_LIFE);
    let to = HeaderValue::try_from(format!("/ports/{}/", grant.reveal())).map_err(Error::internal)?;
    Ok((StatusCode::SEE_OTHER, FIELDS, [(header::LOCATION, to)]).into_response())
}
