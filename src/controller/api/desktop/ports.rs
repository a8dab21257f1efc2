//! Ports of a computer over HTTP: those of its template, and links to ports.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode};

use crate::AppState;
use crate::api::NO_STORE;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use crate::identity::auth::tickets::{DEFAULT_LIFE, MAX_LIFE};
use crate::relay::ports::check_port;
use crate::relay::ports::links;
use crate::web::origin::Origin;
use hotdesk_base::clock;
use hotdesk_domain::error::Error;
use hotdesk_domain::network::port::ComputerPort;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::computer::port::{NewPortTicket, Port, PortList, PortTicket};

/// Protocol that no URL leads to.
const UDP: &str = "udp";

/// Returns the routes of ports.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list)).routes(routes!(issue))
}

/// Lists the ports that the computer's template declares.
#[utoipa::path(get, path = "/computers/{id}/ports", tag = "ports", params(("id" = String, Path)),
    responses((status = 200, description = "The ports", body = PortList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Json<PortList>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let record = |port: &ComputerPort| Port {
        port: port.number,
        name: port.app.clone(),
        protocol: port.protocol.clone(),
        public: port.is_open,
        url: (port.protocol != UDP).then(|| links::url(&app, &origin, computer.id, port.number)),
    };
    Ok(Json(PortList { ports: computer.ports.iter().map(record).collect() }))
}

/// Makes a link that opens a port in a browser, once.
///
/// Requests of the browser that opens it have the rights of the key that asked for it, at this port alone, for twelve hours.
/// They end with the key.
#[utoipa::path(post, path = "/computers/{id}/port-tickets", tag = "ports", params(("id" = String, Path)),
    request_body = NewPortTicket,
    responses((status = 201, description = "The link, which is not available later", body = PortTicket)))]
async fn issue(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Body(wanted): Body<NewPortTicket>,
) -> Result<(StatusCode, [(HeaderName, &'static str); 1], Json<PortTicket>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let port = check_port(wanted.port.into())?;
    let life = wanted.ttl_seconds.map_or(DEFAULT_LIFE, |seconds| Duration::from_secs(seconds.into()));
    if life.is_zero() || life > MAX_LIFE {
        return Err(Error::invalid(format!("ttl_seconds must be 1 to {}", MAX_LIFE.as_secs())).into());
    }
    let url = links::issue(&app, &origin, &computer, links::PortTicket { port, caller }, life)?;
    let record = PortTicket { url, port, expires_at: clock::now().plus(life).iso8601() };
    Ok((StatusCode::CREATED, NO_STORE, Json(record)))
}
