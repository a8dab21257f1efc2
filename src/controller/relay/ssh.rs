//! SSH connections: the byte stream between a client and the SSH server in a computer (docs/ssh.md).
//!
//! An API key opens the connection, and the SSH key of its account signs in. The controller relays bytes that it
//! cannot read. Refusals have a status, unlike those of other sockets, because the client is hotdesk's own.

use axum::extract::State;
use axum::response::Response;

use super::socket::{Upstream, open_by_key};
use crate::AppState;
use crate::identity::auth::AuthenticatedCaller;
use crate::web::request_lease::RequestLease;
use hotdesk_domain::desktop::channel::Channel;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::socket::Upgrade;
use hotdesk_wire::computer::ssh::SshAuthorization;

/// `GET /computers/{id}/ssh`. A computer that is asleep is woken, as by any other command.
pub async fn open(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    upgrade: Upgrade,
) -> Result<Response> {
    let lease = RequestLease::of(Some(app.store.credentials.lease(caller.credential)));
    let changer = caller.for_change();
    let find = || lease.recording(app.directory.find_computer(&changer, &id));
    let computer = find().await?;
    let keys = SshAuthorization { authorized_keys: app.ssh_keys.opening(&caller, computer.workspace).await? };
    let greeting = serde_json::to_string(&keys).map_err(Error::internal)?;
    let guest = app.fleet.guest(&computer).await?;
    // Its refusal says what the computer lacks.
    guest.ssh_host_keys().await?;
    // Access may have ended while the computer woke. Its password changes with the people who may use it.
    let password = app.store.passwords.lease(find().await?.password_digest());
    let (query, greeting) = (Vec::new(), Some(greeting));
    let upstream = Upstream { channel: Channel::Ssh, guest, query, greeting, filter: None };
    open_by_key(app, upgrade, computer.id, upstream, (lease, password))
}
