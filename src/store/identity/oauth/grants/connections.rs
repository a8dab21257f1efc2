//! MCP connections of a person, and the workspaces that the person can grant.

use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, GrantId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Credential;

/// Connections of one account, unused codes included. That is one for each client of a person on each
/// machine, and it stops a client that requests them in a loop.
pub const MAX_CONNECTIONS: i64 = 100;

/// A connection, as its owner sees it.
#[derive(Clone, Debug)]
pub struct OauthConnection {
    /// Its id.
    pub id: GrantId,
    /// Id of the client.
    pub client_id: String,
    /// Name of the client, as it registered.
    pub client_name: Option<String>,
    /// Name of the workspace.
    pub workspace: String,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Expiry.
    pub expires_at: UnixMillis,
    /// Last use.
    pub used_at: Option<UnixMillis>,
}

/// A workspace that a person can grant to a client.
#[derive(Clone, Debug)]
pub struct GrantableWorkspace {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// The account that owns it.
    pub account: AccountId,
    /// E-mail address of the owner.
    pub owner: String,
}

row! {
    struct OauthConnectionRow {
        id: String,
        client_id: String,
        client_name: Option<String>,
        workspace: String,
        created_at: i64,
        expires_at: i64,
        used_at: Option<i64>,
    }
}

impl Store {
    /// Returns a person's connections, newest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn connections(&self, account: AccountId) -> Result<Vec<OauthConnection>> {
        let rows: Vec<OauthConnectionRow> = sqlx::query_as(
            "SELECT g.id, g.client_id, g.client_name, w.name AS workspace, g.created_at, g.expires_at, g.used_at \
             FROM oauth_grants g JOIN workspaces w ON w.id = g.workspace_id \
             WHERE g.account_id = $1 AND g.refresh IS NOT NULL AND g.expires_at > $2 ORDER BY g.created_at DESC, g.id",
        )
        .bind(account.to_string())
        .bind(clock::now().as_i64())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list connections"))?;
        let connection = |row: OauthConnectionRow| {
            Ok(OauthConnection {
                id: id(&row.id)?,
                client_id: row.client_id,
                client_name: row.client_name,
                workspace: row.workspace,
                created_at: UnixMillis::new(row.created_at),
                expires_at: UnixMillis::new(row.expires_at),
                used_at: row.used_at.map(UnixMillis::new),
            })
        };
        rows.into_iter().map(connection).collect()
    }

    /// Whether a person has a connection of a client that was made with this redirect address.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn has_connection(&self, account: AccountId, client: &str, redirect_uri: &str) -> Result<bool> {
        let found: Option<(i64,)> = sqlx::query_as(
            "SELECT 1 FROM oauth_grants WHERE account_id = $1 AND client_id = $2 AND redirect_uri = $3 \
             AND refresh IS NOT NULL AND expires_at > $4 LIMIT 1",
        )
        .bind(account.to_string())
        .bind(client)
        .bind(redirect_uri)
        .bind(clock::now().as_i64())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("find a connection"))?;
        Ok(found.is_some())
    }

    /// Removes a connection: its tokens become invalid, and its leases are revoked. With an account, removes
    /// only a connection of that account. Returns false when there is none.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_grant(&self, grant: GrantId, account: Option<AccountId>) -> Result<bool> {
        let mut write = self.write().await?;
        let done = sqlx::query("DELETE FROM oauth_grants WHERE id = $1 AND ($2 = '' OR account_id = $2)")
            .bind(grant.to_string())
            .bind(account.map(|account| account.to_string()).unwrap_or_default())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a grant"))?;
        write.commit().await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        self.credentials.revoke(&Credential::Grant(grant));
        Ok(true)
    }

    /// Returns the workspaces that a person can grant: those that the person works in, its own first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn grantable_workspaces(&self, account: AccountId) -> Result<Vec<GrantableWorkspace>> {
        let rows: Vec<(String, String, String, String)> = sqlx::query_as(
            "SELECT w.id, w.name, w.account_id, a.email FROM workspaces w JOIN accounts a ON a.id = w.account_id \
             LEFT JOIN members m ON m.workspace_id = w.id AND m.account_id = $1 \
             WHERE w.account_id = $1 OR m.role IN ('member', 'admin') \
             ORDER BY CASE WHEN w.account_id = $1 THEN 0 ELSE 1 END, w.name_folded, w.id",
        )
        .bind(account.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list grantable workspaces"))?;
        let choice = |(row, name, account, owner): (String, String, String, String)| {
            Ok(GrantableWorkspace { id: id(&row)?, name, account: id(&account)?, owner })
        };
        rows.into_iter().map(choice).collect()
    }

    /// Returns the names of the workspaces in which a person is a viewer, who cannot grant access.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn view_only_workspaces(&self, account: AccountId) -> Result<Vec<String>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT w.name FROM workspaces w JOIN members m ON m.workspace_id = w.id \
             WHERE m.account_id = $1 AND m.role = 'viewer' ORDER BY w.name_folded, w.id",
        )
        .bind(account.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list view-only workspaces"))?;
        Ok(rows.into_iter().map(|(name,)| name).collect())
    }
}

/// Refuses a workspace in which a person does not work, or does not work any more.
pub(super) async fn check_grantable(
    write: &mut Write,
    account: AccountId,
    workspace: WorkspaceId,
) -> Result<()> {
    let row: Option<(String,)> = sqlx::query_as(
        "SELECT w.id FROM workspaces w LEFT JOIN members m ON m.workspace_id = w.id AND m.account_id = $1 \
         WHERE w.id = $2 AND (w.account_id = $1 OR m.role IN ('member', 'admin'))",
    )
    .bind(account.to_string())
    .bind(workspace.to_string())
    .fetch_optional(&mut *write.tx)
    .await
    .map_err(failed("check access to a workspace"))?;
    row.map(drop).ok_or_else(workspace_not_grantable)
}

/// Returns the `Forbidden` error of a person who does not work in the workspace.
pub fn workspace_not_grantable() -> Error {
    Error::forbidden(
        "You cannot grant access to this workspace, because you do not work in it: choose another one",
    )
}

/// Refuses one more connection beyond the limit.
pub(super) async fn check_connections(write: &mut Write, account: AccountId) -> Result<()> {
    let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM oauth_grants WHERE account_id = $1")
        .bind(account.to_string())
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count connections"))?;
    if count < MAX_CONNECTIONS {
        return Ok(());
    }
    let message = format!("Your account has {MAX_CONNECTIONS} connections, the maximum: end one first");
    Err(Error::forbidden(message).code(ErrorCode::ConnectionLimit))
}
