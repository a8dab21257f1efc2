//! Saved RTMP servers of accounts.

use crate::vault::columns::STREAM_KEY;
use crate::vault::{SealedText, Vault};
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::stream::MAX_CONNECTIONS;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::name::Name;

/// A saved RTMP server.
#[derive(Clone, Debug)]
pub struct StreamConnection {
    id: String,
    /// The account that owns it.
    pub account: AccountId,
    /// The workspace whose keys may use it, with its name; `None` for account-wide keys only.
    pub workspace: Option<(WorkspaceId, String)>,
    /// Its name, unique per account regardless of case.
    pub name: String,
    /// URL of the server and its application.
    pub url: String,
    /// Stream key on the server.
    pub key: Secret,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Time of the last change.
    pub updated_at: UnixMillis,
}

/// Record of an RTMP server to save.
#[derive(Clone, Debug)]
pub struct NewStreamConnection {
    /// The account.
    pub account: AccountId,
    /// The workspace whose keys may use it.
    pub workspace: Option<WorkspaceId>,
    /// Its name.
    pub name: Name,
    /// URL of the server and its application.
    pub url: String,
    /// Stream key on the server.
    pub key: Secret,
}

row! {
    struct Row {
        id: String,
        account_id: String,
        workspace_id: Option<String>,
        workspace_name: Option<String>,
        name: String,
        url: String,
        stream_key: SealedText,
        created_at: i64,
        updated_at: i64,
    }
}

impl Row {
    /// Returns the record, with its key opened.
    fn open(self, vault: &Vault) -> Result<StreamConnection> {
        let row = self;
        let workspace = match (row.workspace_id, row.workspace_name) {
            (Some(workspace), Some(name)) => Some((id(&workspace)?, name)),
            _ => None,
        };
        Ok(StreamConnection {
            key: vault.open(&STREAM_KEY, &row.id, &row.stream_key)?,
            id: row.id,
            account: id(&row.account_id)?,
            workspace,
            name: row.name,
            url: row.url,
            created_at: UnixMillis::new(row.created_at),
            updated_at: UnixMillis::new(row.updated_at),
        })
    }
}

const SELECT: &str = "SELECT c.id, c.account_id, c.workspace_id, w.name AS workspace_name, c.name, c.url, c.stream_key, \
    c.created_at, c.updated_at FROM stream_connections c LEFT JOIN workspaces w ON w.id = c.workspace_id \
    WHERE c.account_id = $1 AND ($2 = '' OR c.name_folded = $2) ORDER BY c.name_folded";

impl Store {
    /// Returns an account's connections in the order of their names; with a case-folded name, only that one.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn stream_connections(
        &self,
        account: AccountId,
        folded: Option<&str>,
    ) -> Result<Vec<StreamConnection>> {
        let rows: Vec<Row> = sqlx::query_as(SELECT)
            .bind(account.to_string())
            .bind(folded.unwrap_or_default())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list streaming connections"))?;
        rows.into_iter().map(|row| row.open(&self.vault)).collect()
    }

    /// Saves a connection, replacing the one with the same name if `may` permits it. Returns it, and whether
    /// it is new.
    ///
    /// # Errors
    /// Those of `may`; `Forbidden` (`CONNECTION_LIMIT`) when the account has the most connections that it may have; `Unavailable`
    /// or `Internal` when the store fails. Nothing is changed then.
    pub async fn save_stream_connection(
        &self,
        new: &NewStreamConnection,
        may: impl FnOnce(&StreamConnection) -> Result<()>,
    ) -> Result<(StreamConnection, bool)> {
        let mut write = self.write().await?;
        let old = find(&mut write, new.account, &new.name.folded()).await?;
        match &old {
            Some(old) => may(old)?,
            None => check_connection_limit(&mut write, new.account).await?,
        }
        let id = old.as_ref().map_or_else(|| uuid::Uuid::new_v4().to_string(), |old| old.id.clone());
        let key = write.vault.seal(&STREAM_KEY, &id, &new.key)?;
        sqlx::query(
            "INSERT INTO stream_connections \
             (id, account_id, workspace_id, name, name_folded, url, stream_key, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) \
             ON CONFLICT (account_id, name_folded) DO UPDATE SET workspace_id = excluded.workspace_id, \
             name = excluded.name, url = excluded.url, stream_key = excluded.stream_key, \
             updated_at = excluded.updated_at",
        )
        .bind(id)
        .bind(new.account.to_string())
        .bind(new.workspace.map(|workspace| workspace.to_string()))
        .bind(new.name.as_str())
        .bind(new.name.folded())
        .bind(&new.url)
        .bind(key)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("save a streaming connection"))?;
        let saved = find(&mut write, new.account, &new.name.folded()).await?;
        write.commit().await?;
        let saved = saved.ok_or_else(|| Error::internal("a saved streaming connection is not there"))?;
        Ok((saved, old.is_none()))
    }

    /// Removes a connection; a missing one is not an error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_stream_connection(&self, account: AccountId, folded: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM stream_connections WHERE account_id = $1 AND name_folded = $2")
            .bind(account.to_string())
            .bind(folded)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a streaming connection"))?;
        write.commit().await
    }
}

async fn find(write: &mut Write, account: AccountId, folded: &str) -> Result<Option<StreamConnection>> {
    let row: Option<Row> = sqlx::query_as(SELECT)
        .bind(account.to_string())
        .bind(folded)
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("look for a streaming connection"))?;
    row.map(|row| row.open(&write.vault)).transpose()
}

/// Refuses one more connection beyond the limit.
pub(crate) async fn check_connection_limit(write: &mut Write, account: AccountId) -> Result<()> {
    let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM stream_connections WHERE account_id = $1")
        .bind(account.to_string())
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count streaming connections"))?;
    if count >= i64::from(MAX_CONNECTIONS) {
        let message =
            format!("The account has {MAX_CONNECTIONS} streaming connections, the maximum: delete one first");
        return Err(Error::forbidden(message).code(ErrorCode::ConnectionLimit));
    }
    Ok(())
}
