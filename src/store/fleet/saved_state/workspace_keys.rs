//! Keys of workspaces, which seal states of their computers in object storage and encrypt their files on the host.

use crate::vault::columns::WORKSPACE_KEY;
use crate::vault::{SealedText, Vault};
use crate::{Store, Write, failed};
use hotdesk_base::ids::{ComputerId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_domain::error::{Error, Result};

/// Purpose of the keys that encrypt files of computers.
const FILES: &str = "files of computers on their host";

row! {
    struct Row {
        workspace_id: String,
        sealing_key: SealedText,
    }
}

impl Row {
    /// Returns the key that encrypts files of computers, as 128 hex digits.
    fn file_key(&self, vault: &Vault) -> Result<Secret> {
        let digits = vault.open(&WORKSPACE_KEY, &self.workspace_id, &self.sealing_key)?;
        let bad = || Error::internal(format!("workspace {} holds a bad key", self.workspace_id));
        let key = SealingKey::parse(digits.reveal()).ok_or_else(bad)?;
        key.derive(FILES).map_err(Error::internal)
    }
}

impl Store {
    /// Returns the key that encrypts the files of a computer, as 128 hex digits; `None` when they are not encrypted.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or when the key is missing.
    pub async fn file_key_of(&self, computer: ComputerId) -> Result<Option<Secret>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT c.encrypted_for AS workspace_id, k.sealing_key FROM computers c \
             LEFT JOIN workspace_keys k ON k.workspace_id = c.encrypted_for \
             WHERE c.id = $1 AND c.encrypted_for IS NOT NULL",
        )
        .bind(computer.to_string())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read the key of a computer's files"))?;
        row.map(|row| row.file_key(&self.vault)).transpose()
    }

    /// Returns the keys of all encrypted computers, each once and in no order, as 128 hex digits.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn file_keys(&self) -> Result<Vec<Secret>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT DISTINCT k.workspace_id, k.sealing_key FROM workspace_keys k \
             JOIN computers c ON c.encrypted_for = k.workspace_id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("read the keys of computers' files"))?;
        rows.iter().map(|row| row.file_key(&self.vault)).collect()
    }
}

impl Write {
    /// Makes the key of a workspace, unless it has one.
    pub(crate) async fn ensure_workspace_key(&mut self, workspace: WorkspaceId) -> Result<()> {
        let stored: Option<(SealedText,)> =
            sqlx::query_as("SELECT sealing_key FROM workspace_keys WHERE workspace_id = $1")
                .bind(workspace.to_string())
                .fetch_optional(&mut *self.tx)
                .await
                .map_err(failed("read the key of a workspace"))?;
        if stored.is_some() {
            return Ok(());
        }
        let key = self.vault.seal(&WORKSPACE_KEY, workspace, &SealingKey::random().digits())?;
        sqlx::query("INSERT INTO workspace_keys (workspace_id, sealing_key) VALUES ($1, $2)")
            .bind(workspace.to_string())
            .bind(key)
            .execute(&mut *self.tx)
            .await
            .map(drop)
            .map_err(failed("store the key of a workspace"))
    }

    /// Removes the keys of removed workspaces that no copy and no computer needs any more.
    pub(crate) async fn remove_unused_workspace_keys(&mut self) -> Result<()> {
        sqlx::query(
            "DELETE FROM workspace_keys WHERE NOT EXISTS (SELECT 1 FROM workspaces w \
             WHERE w.id = workspace_keys.workspace_id) AND NOT EXISTS (SELECT 1 FROM saved_copies s \
             WHERE s.sealed_for = workspace_keys.workspace_id) AND NOT EXISTS (SELECT 1 FROM computers c \
             WHERE c.encrypted_for = workspace_keys.workspace_id)",
        )
        .execute(&mut *self.tx)
        .await
        .map(drop)
        .map_err(failed("remove keys of removed workspaces"))
    }
}
