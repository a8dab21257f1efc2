//! Tunnels: a TCP connection between a client and a program in a computer, over a WebSocket.

use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;

use super::parse_port;
use crate::AppState;
use crate::identity::auth::AuthenticatedCaller;
use crate::relay::socket::{Upstream, open_by_key};
use crate::web::request_lease::RequestLease;
use hotdesk_domain::desktop::channel::Channel;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::socket::Upgrade;

/// `GET /computers/{id}/tcp/{port}`. A computer that is asleep is woken, as by any other command.
pub async fn open(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, port)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    let lease = RequestLease::of(Some(app.store.credentials.lease(caller.credential)));
    // Bytes to a program may change anything.
    let changer = caller.for_change();
    let find = || lease.recording(app.directory.find_computer(&changer, &id));
    let computer = find().await?;
    let port = parse_port(&port)?;
    // After the access check, whose refusal tells more.
    let upgrade = match Upgrade::from_request_parts(&mut request.into_parts().0, &app).await {
        Ok(upgrade) => upgrade,
        Err(refusal) => return Ok(refusal),
    };
    let guest = app.fleet.guest(&computer).await?;
    // Access may have ended while the computer woke. Its password changes with the people who may use it.
    let password = app.store.passwords.lease(find().await?.password_digest());
    let query = vec![("port".to_owned(), port.to_string())];
    let upstream = Upstream { channel: Channel::Tcp, guest, query, greeting: None, filter: None };
    open_by_key(app, upgrade, computer.id, upstream, (lease, password))
}
