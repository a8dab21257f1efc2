//! Opening of the vault: the data key, and the sealing of values that an earlier version stored as plain text.

use sqlx::{Any, AnyConnection, Transaction};

use super::columns::{ALL, Column};
use super::rows::{Rows, set_value};
use super::{KeyFile, Vault, scrub};
use crate::database::Connections;
use crate::failed;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::secret::Secret;
use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_domain::error::{Error, Result};

/// Place of the data key.
const DATA_KEY_PLACE: &str = "data_keys.sealed";

/// The stored data key, and the id of the key that sealed it.
#[derive(Debug)]
pub(super) struct DataKey {
    pub(super) sealed: String,
    pub(super) sealed_by: String,
}

impl DataKey {
    /// Seals a data key with a key of the key file.
    pub(super) fn new(key: &SealingKey, by: &SealingKey) -> Result<Self> {
        let bytes = by.seal(DATA_KEY_PLACE, key.digits().reveal().as_bytes()).map_err(Error::internal)?;
        Ok(Self { sealed: hex(&bytes), sealed_by: by.id() })
    }

    /// Returns the key of the key file that sealed this one.
    pub(super) fn find_sealer<'a>(&self, keys: &'a [SealingKey], file: &KeyFile) -> Result<&'a SealingKey> {
        keys.iter().find(|key| key.id() == self.sealed_by).ok_or_else(|| file.lacks(&self.sealed_by))
    }

    fn open(&self, by: &SealingKey) -> Result<SealingKey> {
        let bytes = unhex(self.sealed.as_bytes()).unwrap_or_default();
        let digits = by.open(DATA_KEY_PLACE, bytes).map_err(Error::internal)?;
        let key = SealingKey::parse(&String::from_utf8_lossy(&digits));
        key.ok_or_else(|| Error::internal("the data key of the store is malformed"))
    }

    /// Stores it in place of the present one.
    pub(super) async fn store(&self, tx: &mut Transaction<'static, Any>) -> Result<()> {
        sqlx::query("DELETE FROM data_keys")
            .execute(&mut **tx)
            .await
            .map_err(failed("replace the data key"))?;
        sqlx::query("INSERT INTO data_keys (sealed_by, sealed) VALUES ($1, $2)")
            .bind(&self.sealed_by)
            .bind(&self.sealed)
            .execute(&mut **tx)
            .await
            .map(drop)
            .map_err(failed("store the data key"))
    }
}

/// Returns the vault of a database, which must be migrated. A new database gets a data key, and a key file if there
/// is none. Values that are not sealed yet are sealed in the same transaction, and their remains are removed from
/// the files.
///
/// # Errors
/// `Internal`, with the file and the remedy, when the key file is missing although the database has a data key, or
/// is not the one that sealed it; those of the database. Nothing is changed then.
pub(crate) async fn open(connections: &Connections, file: &KeyFile) -> Result<Vault> {
    let mut tx = connections.pool.begin().await.map_err(failed("read the data key"))?;
    let (stored, is_sealed) = (data_key(&mut tx).await?, unsealed(&mut tx).await?.is_empty());
    tx.commit().await.map_err(failed("read the data key"))?;
    let vault = match stored {
        Some(stored) if is_sealed => open_stored(&stored, file)?,
        Some(_) | None => seal_database(connections, file).await?,
    };
    scrub::finish(connections).await;
    Ok(vault)
}

/// Checks that a key file belongs to a database, without a change of either. Any file belongs to a database without a data
/// key.
///
/// # Errors
/// Those of [`open`].
pub(crate) async fn check(connection: &mut AnyConnection, file: &KeyFile) -> Result<()> {
    let row: Option<(String, String)> = sqlx::query_as("SELECT sealed, sealed_by FROM data_keys")
        .fetch_optional(connection)
        .await
        .map_err(failed("read the data key"))?;
    match row {
        Some((sealed, sealed_by)) => open_stored(&DataKey { sealed, sealed_by }, file).map(drop),
        None => Ok(()),
    }
}

fn open_stored(stored: &DataKey, file: &KeyFile) -> Result<Vault> {
    let keys = file.read()?.ok_or_else(|| file.missing())?;
    Ok(Vault::new(stored.open(stored.find_sealer(&keys, file)?)?))
}

/// Creates the data key if there is none, and seals the columns that are not sealed yet.
async fn seal_database(connections: &Connections, file: &KeyFile) -> Result<Vault> {
    let mut tx = connections.begin_write().await.map_err(failed("seal the store"))?;
    let vault = match data_key(&mut tx).await? {
        Some(stored) => open_stored(&stored, file)?,
        None => {
            let keys = file.create()?;
            let newest = keys.first().ok_or_else(|| file.missing())?;
            let key = SealingKey::random();
            DataKey::new(&key, newest)?.store(&mut tx).await?;
            Vault::new(key)
        }
    };
    let mut sealed = 0;
    for column in unsealed(&mut tx).await? {
        let mut rows = Rows::default();
        while let Some((row, value)) = rows.next(&mut tx, column).await? {
            let value = vault.seal(column, &row, &Secret::new(value))?;
            set_value(&mut tx, column, &row, value).await?;
            sealed += 1;
        }
        sqlx::query("INSERT INTO sealed_columns (table_name, column_name) VALUES ($1, $2)")
            .bind(column.table)
            .bind(column.name)
            .execute(&mut *tx)
            .await
            .map_err(failed("store that a column is sealed"))?;
    }
    if sealed > 0 {
        tracing::info!(values = sealed, "sealed the secrets that an earlier version stored as plain text");
        scrub::request(&mut tx).await?;
    }
    tx.commit().await.map_err(failed("commit the sealed store"))?;
    Ok(vault)
}

/// Returns the stored data key; a new database has none.
pub(super) async fn data_key(tx: &mut Transaction<'static, Any>) -> Result<Option<DataKey>> {
    let row: Option<(String, String)> = sqlx::query_as("SELECT sealed, sealed_by FROM data_keys")
        .fetch_optional(&mut **tx)
        .await
        .map_err(failed("read the data key"))?;
    Ok(row.map(|(sealed, sealed_by)| DataKey { sealed, sealed_by }))
}

/// Returns the columns whose values may be plain text.
async fn unsealed(tx: &mut Transaction<'static, Any>) -> Result<Vec<&'static Column>> {
    let sealed: Vec<(String, String)> = sqlx::query_as("SELECT table_name, column_name FROM sealed_columns")
        .fetch_all(&mut **tx)
        .await
        .map_err(failed("list sealed columns"))?;
    let is_sealed =
        |column: &Column| sealed.iter().any(|(table, name)| table == column.table && name == column.name);
    Ok(ALL.into_iter().filter(|column| !is_sealed(column)).collect())
}
