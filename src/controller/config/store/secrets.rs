//! Encryption at rest: the key file that seals the secrets of the database, and the files of computers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Sealing of the secrets in the database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretSettings {
    /// File (mode 0600) with the key that seals secrets; empty: `hotdesk.key` in the data folder. The first start
    /// creates it.
    pub key_file: PathBuf,
}

/// Encryption of computers on the host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncryptionSettings {
    /// Whether the files of new computers (disks, snapshots, saved memory) are encrypted with a key of their workspace.
    pub computers: bool,
}
