//! Saved RTMP connections: look-up, access, and which servers are allowed.

use hotdesk_domain::desktop::stream::Destination;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{self, Caller, Role, Target};
use hotdesk_domain::name;
use hotdesk_store::Store;
use hotdesk_store::fleet::streams::stream_connections::StreamConnection;

/// Saved connections of all accounts.
pub struct StreamConnections {
    store: Store,
    allow_private: bool,
}

impl StreamConnections {
    /// Creates the service. `allow_private` permits servers with private addresses.
    pub fn new(store: Store, allow_private: bool) -> Self {
        Self { store, allow_private }
    }

    /// Finds a saved connection by its name, ignoring case, and checks that the caller may use it.
    ///
    /// # Errors
    /// `NotFound` ("Connection not found"); `Forbidden` for a key of another workspace.
    pub async fn find(&self, caller: &Caller, wanted: &str) -> Result<StreamConnection> {
        let unknown = || Error::not_found("Connection not found");
        let folded = Some(name::fold(wanted)).filter(|folded| !folded.is_empty()).ok_or_else(unknown)?;
        let found = self.store.stream_connections(caller.account, Some(&folded)).await?.pop();
        let found = found.ok_or_else(unknown)?;
        check_access(caller, &found)?;
        Ok(found)
    }

    /// Parses a stream's target, and refuses known private addresses where they are not allowed. The
    /// computer's agent checks what a host name resolves to.
    ///
    /// # Errors
    /// `Invalid`, with the code `private_address` for a private address.
    pub fn destination(&self, url: &str) -> Result<Destination> {
        let destination = Destination::parse(url)?;
        if destination.is_private() && !self.allow_private {
            return Err(Destination::private());
        }
        Ok(destination)
    }
}

/// Checks that a caller of the connection's account may use it.
///
/// # Errors
/// `Forbidden` for a key of another workspace.
pub fn check_access(caller: &Caller, connection: &StreamConnection) -> Result<()> {
    match &connection.workspace {
        Some((id, name)) => {
            let role = (caller.account == connection.account).then_some(Role::Owner);
            access::check(caller, &Target { id: *id, name, role }).map(|_| ())
        }
        None => access::check_account_wide(caller, "use the account's streaming connections"),
    }
}
