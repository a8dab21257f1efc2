//! Settings of the host helper, and the folders that controller and helper have apart.

use std::path::{Path, PathBuf};

use nix::unistd::User;
use serde::{Deserialize, Serialize};

use super::Config;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::AgentClient;

/// Folder of the store below the data folder, where the data folder belongs to root and the store to another user.
const STORE: &str = "store";
const DATABASE: &str = "hotdesk.db";
/// Folder of the stored files, which every controller makes.
const BLOBS: &str = "blobs";

/// Host helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostHelper {
    /// Socket of `hotdesk host`, which makes the machines; empty: the controller makes them itself and needs root.
    pub socket: PathBuf,
    /// User of the controller beside a helper: a name or a number.
    pub user: String,
}

impl Default for HostHelper {
    fn default() -> Self {
        Self { socket: PathBuf::new(), user: "hotdesk".to_owned() }
    }
}

impl HostHelper {
    /// Whether machines are made by a helper.
    pub fn is_used(&self) -> bool {
        !self.socket.as_os_str().is_empty()
    }

    /// The user of the controller.
    ///
    /// # Errors
    /// `Internal`, with the reason, when there is no such user, or it is root.
    pub fn client(&self) -> Result<AgentClient> {
        let refused = |what: &str| Error::failed(format!("configuration: host.user {:?} {what}", self.user));
        let client = match self.user.parse::<u32>() {
            // A number needs no account; its group has the same number then.
            Ok(uid) => {
                let account = User::from_uid(uid.into()).ok().flatten();
                AgentClient { uid, gid: account.map_or(uid, |account| account.gid.as_raw()) }
            }
            Err(_) => {
                let account = User::from_name(&self.user).ok().flatten();
                let account = account.ok_or_else(|| refused("does not exist on this host; make it first"))?;
                AgentClient { uid: account.uid.as_raw(), gid: account.gid.as_raw() }
            }
        };
        if client.uid == 0 || client.gid == 0 {
            return Err(refused("is root, or has root's group; name a user of its own"));
        }
        Ok(client)
    }
}

impl Config {
    /// The folder of the database and the stored files: `store` in the data folder, where that exists and no store is
    /// beside it, else the data folder.
    pub fn store_dir(&self) -> PathBuf {
        let apart = self.store_dir_of_client();
        let is_apart = apart.is_dir() && !self.data_dir.join(self.store_mark()).exists();
        if is_apart { apart } else { self.data_dir.clone() }
    }

    /// The entry of a folder that tells that it has the store: the database, or the stored files where PostgreSQL has
    /// the database.
    pub fn store_mark(&self) -> &'static str {
        if self.store.is_embedded() { DATABASE } else { BLOBS }
    }

    /// The folder of the store beside a helper, whether or not it exists.
    pub fn store_dir_of_client(&self) -> PathBuf {
        self.data_dir.join(STORE)
    }

    /// The files that the configuration names, which the controller reads.
    pub fn named_files(&self) -> Vec<&Path> {
        let files = [
            &self.tls.certificate_file,
            &self.tls.key_file,
            &self.storage.credentials_file,
            &self.web.metrics_key_file,
            &self.billing.webhook_secret_file,
            &self.secrets.key_file,
            &self.store.password_file,
            &self.store.ca_file,
            &self.smtp.password_file,
            &self.oidc.client_secret_file,
            &self.engines.incus.certificate_file,
            &self.engines.incus.key_file,
        ];
        files.into_iter().map(PathBuf::as_path).filter(|file| !file.as_os_str().is_empty()).collect()
    }

    /// The folder of the object storage, if it is one.
    pub fn storage_folder(&self) -> Option<PathBuf> {
        let url = &self.storage.url;
        (!url.is_empty() && !url.starts_with("s3://")).then(|| PathBuf::from(url))
    }

    /// The database, unless PostgreSQL has it.
    pub fn store_file(&self) -> PathBuf {
        self.store_dir().join(DATABASE)
    }

    /// The folder of the machines, with their disks.
    pub fn machines_dir(&self) -> &Path {
        &self.data_dir
    }
}
