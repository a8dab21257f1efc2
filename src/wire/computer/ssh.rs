//! SSH to a computer (docs/ssh.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /computers/{id}/ssh/host-keys`: how the SSH server of a computer identifies itself.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SshHostKeys {
    /// The user that connections sign in as.
    pub user: String,
    /// Public keys of the computer, in the format of OpenSSH.
    pub host_keys: Vec<String>,
}

/// First message to an agent's channel `ssh`; the byte stream follows in binary messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SshAuthorization {
    /// Public keys that may sign in, in the format of OpenSSH.
    pub authorized_keys: Vec<String>,
}
