//! Keys with which the host encrypts files of computers (`encryption.computers`), from the store to the engine.

use std::sync::Arc;
use std::time::Duration;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{Engine, EngineResult, FileKey};
use hotdesk_store::Store;

/// Timeout of the removal of keys when the controller ends: the host helper may have ended before. With the timeouts of the
/// other tasks it is below the 30 s after which systemd kills the process. A helper that lives completes the removal.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(4);

/// Keys of the workspaces whose computers are encrypted.
pub struct FileKeys {
    engine: Arc<dyn Engine>,
    store: Store,
}

impl FileKeys {
    /// Creates the service of the stored keys.
    pub fn new(engine: Arc<dyn Engine>, store: Store) -> Self {
        Self { engine, store }
    }

    /// Refuses the setting `encryption.computers` on a host that cannot encrypt.
    ///
    /// # Errors
    /// `Internal`, with the remedy.
    pub fn check_host(&self) -> Result<()> {
        if self.can_encrypt() {
            return Ok(());
        }
        Err(Error::failed(
            "configuration: encryption.computers: folders in `machines` of data_dir cannot be encrypted (fscrypt): that \
             needs ext4 with the feature `encrypt` (`tune2fs -O encrypt DEVICE`) and a kernel with CONFIG_FS_ENCRYPTION; \
             or set it to false",
        ))
    }

    fn can_encrypt(&self) -> bool {
        self.engine.offers().default().capabilities.encrypt
    }

    /// Gives the host the keys of all encrypted computers: it loses them at a reboot.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store or the engine fails.
    pub async fn add_all(&self) -> Result<()> {
        let keys = self.store.file_keys().await?;
        if keys.is_empty() {
            return Ok(());
        }
        if !self.can_encrypt() {
            tracing::warn!(
                "computers are stored as encrypted, but the file system of their folder cannot encrypt: only a copy that was \
                 made while they were readable works here"
            );
            return Ok(());
        }
        let keys = keys.iter().map(parse).collect::<Result<Vec<_>>>()?;
        self.engine.add_keys(&keys).await.map_err(Error::internal)
    }

    /// Makes the folder of a new machine encrypted, if its computer's row says so. Returns the engine's failure.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn encrypt(&self, computer: ComputerId) -> Result<EngineResult<()>> {
        let Some(key) = self.store.file_key_of(computer).await? else { return Ok(Ok(())) };
        Ok(self.engine.encrypt(computer, &parse(&key)?).await)
    }

    /// Takes the keys of computers that do not run from the host, if there are encrypted ones. Call it when the controller ends,
    /// while the store is open.
    pub async fn remove_unused(&self) {
        if self.store.file_keys().await.is_ok_and(|keys| keys.is_empty()) {
            return;
        }
        let removal = tokio::time::timeout(REMOVAL_TIMEOUT, self.engine.remove_unused_keys()).await;
        let error = match removal {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("no answer within {REMOVAL_TIMEOUT:?}"),
        };
        tracing::warn!(error, "the host may have the keys of encrypted computers until its next reboot");
    }
}

fn parse(key: &Secret) -> Result<FileKey> {
    FileKey::parse(key).ok_or_else(|| Error::internal("a key of files has not 128 hex digits"))
}
