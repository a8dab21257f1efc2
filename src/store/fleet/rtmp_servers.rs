//! Which RTMP servers has an account saved, and for whom?

use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::name::Name;
use hotdesk_domain::stream::MAX_CONNECTIONS;

/// A saved connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The account that owns it.
    pub account: AccountId,
    /// The workspace whose keys may use it, with its name; `None`: account-wide keys alone.
    pub workspace: Option<(WorkspaceId, String)>,
    /// Its name, unique per account whatever the case.
    pub name: String,
    /// The server and its application.
    pub url: String,
    /// What the server knows the stream by.
    pub key: Secret,
    /// When it was first saved.
    pub created_at: i64,
    /// When it was last saved.
    pub updated_at: i64,
}

/// What is saved.
#[derive(Clone, Debug)]
pub struct NewConnection {
    /// The account.
    pub account: AccountId,
    /// The workspace whose keys may use it.
    pub workspace: Option<WorkspaceId>,
    /// Its name.
    pub name: Name,
    /// The server and its application.
    pub url: String,
    /// The key.
    pub key: Secret,
}

#[derive(sqlx::FromRow)]
struct Row {
    account_id: String,
    workspace_id: Option<String>,
    workspace_name: Option<String>,
    name: String,
    url: String,
    stream_key: String,
    created_at: i64,
    updated_at: i64,
}

impl TryFrom<Row> for Connection {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let workspace = match (row.workspace_id, row.workspace_name) {
            (Some(workspace), Some(name)) => Some((id(&workspace)?, name)),
            _ => None,
        };
        Ok(Self {
            account: id(&row.account_id)?,
            workspace,
            name: row.name,
            url: row.url,
            key: Secret::new(row.stream_key),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

const SELECT: &str = "SELECT c.account_id, c.workspace_id, w.name AS workspace_name, c.name, c.url, c.stream_key, \
    c.created_at, c.updated_at FROM stream_connections c LEFT JOIN workspaces w ON w.id = c.workspace_id \
    WHERE c.account_id = $1 AND ($2 = '' OR c.name_folded = $2) ORDER BY c.name_folded";

impl Store {
    /// An account's connections by name; with a folded name only the one that has it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stream_connections(
        &self,
        account: AccountId,
        folded: Option<&str>,
    ) -> Result<Vec<Connection>> {
        let rows: Vec<Row> = sqlx::query_as(SELECT)
            .bind(account.to_string())
            .bind(folded.unwrap_or_default())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list streaming connections"))?;
        rows.into_iter().map(Connection::try_from).collect()
    }

    /// Saves a connection in the place of the one that has its name, if `may` lets that be replaced. True when there was
    /// none.
    ///
    /// # Errors
    /// What `may` says; `Forbidden` when the account has too many; or the store fails.
    pub async fn save_stream_connection(
        &self,
        new: &NewConnection,
        may: impl FnOnce(&Connection) -> Result<()>,
    ) -> Result<(Connection, bool)> {
        let mut write = self.write().await?;
        let old = found(&mut write, new.account, &new.name.folded()).await?;
        match &old {
            Some(old) => may(old)?,
            None => check_room(&mut write, new.account).await?,
        }
        sqlx::query(
            "INSERT INTO stream_connections \
             (id, account_id, workspace_id, name, name_folded, url, stream_key, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) \
             ON CONFLICT (account_id, name_folded) DO UPDATE SET workspace_id = excluded.workspace_id, \
             name = excluded.name, url = excluded.url, stream_key = excluded.stream_key, \
             updated_at = excluded.updated_at",
        )
        .bind(uuid::Uuid::new_v4().to_string())
        .bind(new.account.to_string())
        .bind(new.workspace.map(|workspace| workspace.to_string()))
        .bind(new.name.as_str())
        .bind(new.name.folded())
        .bind(&new.url)
        .bind(new.key.reveal())
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("save a streaming connection"))?;
        let saved = found(&mut write, new.account, &new.name.folded()).await?;
        write.commit().await?;
        let saved = saved.ok_or_else(|| Error::internal("a saved streaming connection is not there"))?;
        Ok((saved, old.is_none()))
    }

    /// Removes a connection.
    ///
    /// # Errors
    /// When the store fails.
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

async fn found(write: &mut Write, account: AccountId, folded: &str) -> Result<Option<Connection>> {
    let row: Option<Row> = sqlx::query_as(SELECT)
        .bind(account.to_string())
        .bind(folded)
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("look for a streaming connection"))?;
    row.map(Connection::try_from).transpose()
}

/// Refuses when an account has as many connections as may be.
pub(super) async fn check_room(write: &mut Write, account: AccountId) -> Result<()> {
    let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM stream_connections WHERE account_id = $1")
        .bind(account.to_string())
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count streaming connections"))?;
    if count >= i64::from(MAX_CONNECTIONS) {
        let message =
            format!("The account has {MAX_CONNECTIONS} streaming connections, and may have no more");
        return Err(Error::forbidden(message));
    }
    Ok(())
}
