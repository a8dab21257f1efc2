//! Encryption at rest: the key file that seals the secrets of the database, and the files of computers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Config;
use hotdesk_domain::error::Result;
use hotdesk_store::{Store, default_key_file};

/// Sealing of the secrets in the database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretSettings {
    /// File (mode 0600) with the key that seals secrets; empty: `hotdesk.key` beside the database. The first start
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

impl Config {
    /// Opens the database with the configured key file.
    ///
    /// # Errors
    /// Those of [`Store::open_with`].
    pub async fn open_store(&self) -> Result<Store> {
        let (store, key) = (self.store_file(), &self.secrets.key_file);
        if key.as_os_str().is_empty() {
            return Store::open_with(&store, &default_key_file(&store)).await;
        }
        Store::open_with(&store, key).await
    }
}
