//! Access tokens of MCP connections: owner and last use.

use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, GrantId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;

/// The connection and account of an access token.
#[derive(Clone, Debug)]
pub struct TokenOwner {
    /// Id of the connection.
    pub grant: GrantId,
    /// The account that granted it.
    pub account: AccountId,
    /// The workspace that it gives access to, with its name.
    pub workspace: (WorkspaceId, String),
    /// Name of the client, or its id if it has no name.
    pub client: String,
    /// Last recorded use.
    pub used_at: Option<UnixMillis>,
}

row! {
    struct TokenOwnerRow {
        id: String,
        account_id: String,
        workspace_id: String,
        workspace: String,
        client_id: String,
        client_name: Option<String>,
        used_at: Option<i64>,
    }
}

impl Store {
    /// Returns the owner of a valid access token, or `None`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn token_owner(&self, access: &str) -> Result<Option<TokenOwner>> {
        let row: Option<TokenOwnerRow> = sqlx::query_as(
            "SELECT g.id, g.account_id, g.workspace_id, w.name AS workspace, \
             g.client_id, g.client_name, g.used_at FROM oauth_grants g JOIN workspaces w ON w.id = g.workspace_id \
             WHERE g.access = $1 AND g.access_expires_at > $2 AND g.expires_at > $2",
        )
        .bind(access)
        .bind(clock::now().as_i64())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look up an access token"))?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(TokenOwner {
            grant: id(&row.id)?,
            account: id(&row.account_id)?,
            workspace: (id(&row.workspace_id)?, row.workspace),
            client: row.client_name.unwrap_or(row.client_id),
            used_at: row.used_at.map(UnixMillis::new),
        }))
    }

    /// Records that a connection is in use now.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn note_use(&self, grant: GrantId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE oauth_grants SET used_at = $2 WHERE id = $1")
            .bind(grant.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("record the use of a connection"))?;
        write.commit().await
    }
}
