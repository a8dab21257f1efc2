//! Tunnels: a TCP connection between a client and a program in a computer, over a WebSocket.

use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;

use super::parse_port;
use crate::AppState;
use crate::identity::auth::AuthenticatedCaller;
use crate::relay::socket::{Upstream, connect, permit};
use crate::web::request_lease::RequestLease;
use hotdesk_domain::desktop::channel::{Channel, Failure};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::socket::{CloseReason, Upgrade};

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
    let (channel, sockets) = (Channel::Tcp, app.sockets.clone());
    Ok(sockets.open(upgrade, channel.name(), move |sender, receiver| async move {
        let _permit = match permit(&app, computer.id) {
            Ok(permit) => permit,
            Err(closing) => return closing,
        };
        let query = vec![("port".to_owned(), port.to_string())];
        let upstream = Upstream { channel, guest, query, greeting: None, filter: None };
        let revoked = |why: String| CloseReason::new(channel.close_code(Failure::Unauthenticated), why);
        tokio::select! {
            biased;
            error = lease.lost() => revoked(error.message),
            () = password.revoked() => revoked("the access to the computer has changed".to_owned()),
            closing = connect(&app, computer.id, upstream, (&sender, receiver)) => closing,
        }
    })?)
}
