//! Rotation: a new key in the key file, a new data key, and every value sealed anew.
//!
//! ```text
//! 1. key file: new, previous     the database still needs the previous key
//! 2. one transaction             every value and the data key are sealed with new keys
//! 3. scrub                       former values are removed from the files
//! 4. key file: new
//! ```
//! A crash after any step leaves a database that opens with the key file. Another rotation then starts at step 1 with
//! another new key.

use super::columns::ALL;
use super::open::{DataKey, data_key};
use super::rows::{Rows, set_value};
use super::{SealedText, Vault, scrub};
use crate::{Store, failed};
use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_domain::error::{Error, Result};

impl Store {
    /// Seals all secrets with new keys and returns their number. Consumes the store, whose data key is no longer
    /// valid. The caller ensures that no other process uses the database.
    ///
    /// # Errors
    /// `Internal`, with the path, when the key file cannot be written, or a value cannot be opened; `Unavailable` or
    /// `Internal` when the store fails. The secrets can be read with the key file in any case.
    pub async fn rotate_keys(self) -> Result<u64> {
        let file = &self.key_file;
        let mut tx = self.connections.begin_write().await.map_err(failed("begin the rotation"))?;
        let stored = data_key(&mut tx).await?.ok_or_else(|| Error::internal("the store has no data key"))?;
        let keys = file.read()?.ok_or_else(|| file.missing())?;
        let (newest, previous) = (SealingKey::random(), stored.find_sealer(&keys, file)?);
        file.replace(&[&newest, previous])?;
        let key = SealingKey::random();
        DataKey::new(&key, &newest)?.store(&mut tx).await?;
        let vault = Vault::new(key);
        let mut sealed = 0;
        for column in ALL {
            let mut rows = Rows::default();
            while let Some((row, value)) = rows.next(&mut tx, column).await? {
                let secret = self.vault.open(column, &row, &SealedText(value))?;
                set_value(&mut tx, column, &row, vault.seal(column, &row, &secret)?).await?;
                sealed += 1;
            }
        }
        scrub::request(&mut tx).await?;
        tx.commit().await.map_err(failed("commit the rotation"))?;
        scrub::finish(&self.connections).await;
        file.replace(&[&newest])?;
        Ok(sealed)
    }
}
