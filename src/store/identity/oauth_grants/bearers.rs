//! Whose is an access token, and when was its connection last used?

use super::super::{Store, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, GrantId, WorkspaceId};
use hotdesk_domain::error::Result;

/// Whose an access token is.
#[derive(Clone, Debug)]
pub struct Bearer {
    /// The connection.
    pub grant: GrantId,
    /// Who granted it.
    pub account: AccountId,
    /// The one workspace that it reaches, with its name.
    pub workspace: (WorkspaceId, String),
    /// What its client is called: by itself, else by its id.
    pub client: String,
    /// When it was last used, as far as was noted.
    pub used_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct BearerRow {
    id: String,
    account_id: String,
    workspace_id: String,
    workspace: String,
    client_id: String,
    client_name: Option<String>,
    used_at: Option<i64>,
}

impl Store {
    /// Whose a living access token is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn bearer(&self, access: &str) -> Result<Option<Bearer>> {
        let row: Option<BearerRow> = sqlx::query_as(
            "SELECT g.id, g.account_id, g.workspace_id, w.name AS workspace, \
             g.client_id, g.client_name, g.used_at FROM oauth_grants g JOIN workspaces w ON w.id = g.workspace_id \
             WHERE g.access = $1 AND g.access_expires_at > $2 AND g.expires_at > $2",
        )
        .bind(access)
        .bind(now_ms())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look up an access token"))?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Bearer {
            grant: id(&row.id)?,
            account: id(&row.account_id)?,
            workspace: (id(&row.workspace_id)?, row.workspace),
            client: row.client_name.unwrap_or(row.client_id),
            used_at: row.used_at,
        }))
    }

    /// Notes that a connection is in use.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn note_use(&self, grant: GrantId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE oauth_grants SET used_at = $2 WHERE id = $1")
            .bind(grant.to_string())
            .bind(now_ms())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("note the use of a connection"))?;
        write.commit().await
    }
}
