//! Public SSH keys of an account (docs/ssh.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A public key with which an account opens SSH connections to computers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SshKey {
    /// Id of the SSH key, a UUID.
    pub id: String,
    /// Name of the key.
    pub name: String,
    /// Type and key, in the format of OpenSSH.
    pub public_key: String,
    /// `SHA256:` and the digest, as `ssh-keygen -l` shows it.
    pub fingerprint: String,
    /// Id of the only workspace whose computers it opens, for a key that an API key of that workspace added; else
    /// null.
    pub workspace_id: Option<String>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
}

/// `POST /keys/ssh`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "laptop", "public_key": "ssh-ed25519 AAAAC3Nz... me@laptop"}))]
#[serde(deny_unknown_fields)]
pub struct CreateSshKey {
    /// Name, 1 to 255 characters after trimming; the comment of the key when absent.
    #[schema(min_length = 1, max_length = 255)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One line of OpenSSH: type, key and an optional comment. The content of a `.pub` file.
    #[schema(min_length = 1, max_length = 4096)]
    pub public_key: String,
}

/// `GET /keys/ssh`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SshKeyList {
    /// Keys, oldest first.
    pub keys: Vec<SshKey>,
}
