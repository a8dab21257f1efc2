//! Identity of a computer's SSH server.

use std::time::Duration;

use axum::http::Method;

use super::{Guest, failure};
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::ssh_key::{SshPublicKey, is_user_name};
use hotdesk_wire::computer::ssh::SshHostKeys;

/// Timeout of the first request, which makes a host key: the agent gives that 20 s.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most host keys that are read; the agent makes one.
const MAX_HOST_KEYS: usize = 8;

impl Guest {
    /// Requests the user and the host keys of the computer's SSH server. The first request makes a host key.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `Conflict` (`ssh_not_installed`) without an SSH server; `Internal` for what is
    /// no user name or no key: clients write these into files of theirs.
    pub async fn ssh_host_keys(&self) -> Result<SshHostKeys> {
        let found: SshHostKeys = self.call(Method::GET, "/ssh/host-keys", (), None::<&()>, TIMEOUT).await?;
        if !is_user_name(&found.user) {
            return Err(failure::invalid_answer(&"the user of SSH is no user name"));
        }
        let keys = found.host_keys.iter().take(MAX_HOST_KEYS).map(|key| SshPublicKey::parse(key));
        let keys = keys.map(|key| key.map(|key| key.text)).collect::<Result<_>>();
        Ok(SshHostKeys { host_keys: keys.map_err(|error| failure::invalid_answer(&error))?, ..found })
    }
}
