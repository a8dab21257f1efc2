//! Which connections has a person, how many may that be, and which workspaces can be let into?

use super::super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, GrantId, WorkspaceId};
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};

/// Connections that one account may have, with the codes for some that were not used yet: one for each client of a person on
/// each of its machines, and an end to a loop that asks.
pub const MAX_CONNECTIONS: i64 = 100;

/// A connection, for who granted it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its id.
    pub id: GrantId,
    /// Who is connected.
    pub client_id: String,
    /// What that calls itself.
    pub client_name: Option<String>,
    /// The workspace's name.
    pub workspace: String,
    /// Since when.
    pub created_at: i64,
    /// Until when.
    pub expires_at: i64,
    /// When it was last used.
    pub used_at: Option<i64>,
}

/// A workspace that a person may let a client into.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// The account that owns it.
    pub account: AccountId,
    /// That account's e-mail address.
    pub owner: String,
}

#[derive(sqlx::FromRow)]
struct ConnectionRow {
    id: String,
    client_id: String,
    client_name: Option<String>,
    workspace: String,
    created_at: i64,
    expires_at: i64,
    used_at: Option<i64>,
}

impl Store {
    /// A person's connections, the newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn connections(&self, account: AccountId) -> Result<Vec<Connection>> {
        let rows: Vec<ConnectionRow> = sqlx::query_as(
            "SELECT g.id, g.client_id, g.client_name, w.name AS workspace, g.created_at, g.expires_at, g.used_at \
             FROM oauth_grants g JOIN workspaces w ON w.id = g.workspace_id \
             WHERE g.account_id = $1 AND g.refresh IS NOT NULL AND g.expires_at > $2 ORDER BY g.created_at DESC, g.id",
        )
        .bind(account.to_string())
        .bind(now_ms())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list connections"))?;
        let connection = |row: ConnectionRow| {
            Ok(Connection {
                id: id(&row.id)?,
                client_id: row.client_id,
                client_name: row.client_name,
                workspace: row.workspace,
                created_at: row.created_at,
                expires_at: row.expires_at,
                used_at: row.used_at,
            })
        };
        rows.into_iter().map(connection).collect()
    }

    /// Ends a connection: its tokens open nothing from the next request on, and what goes on under them ends. With an account
    /// only one of that account's. False when there is none.
    ///
    /// # Errors
    /// When the store fails.
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
        self.live.end(&Credential::Grant(grant));
        Ok(true)
    }

    /// The workspaces that a person may let a client into: where it works itself, its own first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn choices(&self, account: AccountId) -> Result<Vec<Choice>> {
        let rows: Vec<(String, String, String, String)> = sqlx::query_as(
            "SELECT w.id, w.name, w.account_id, a.email FROM workspaces w JOIN accounts a ON a.id = w.account_id \
             LEFT JOIN members m ON m.workspace_id = w.id AND m.account_id = $1 \
             WHERE w.account_id = $1 OR m.role IN ('member', 'admin') \
             ORDER BY CASE WHEN w.account_id = $1 THEN 0 ELSE 1 END, w.name_folded, w.id",
        )
        .bind(account.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list workspaces to choose from"))?;
        let choice = |(row, name, account, owner): (String, String, String, String)| {
            Ok(Choice { id: id(&row)?, name, account: id(&account)?, owner })
        };
        rows.into_iter().map(choice).collect()
    }

    /// The names of the workspaces that a person may only look at, and so let no client into.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn only_viewed(&self, account: AccountId) -> Result<Vec<String>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT w.name FROM workspaces w JOIN members m ON m.workspace_id = w.id \
             WHERE m.account_id = $1 AND m.role = 'viewer' ORDER BY w.name_folded, w.id",
        )
        .bind(account.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list workspaces that are only viewed"))?;
        Ok(rows.into_iter().map(|(name,)| name).collect())
    }
}

/// Refuses a workspace that a person does not work in, or not any more.
pub(super) async fn check_chosen(
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
    .map_err(failed("see whether a workspace may be chosen"))?;
    row.map(drop).ok_or_else(not_theirs)
}

/// Who may let nobody into a workspace: whoever does not work in it.
pub fn not_theirs() -> Error {
    Error::forbidden("You cannot let anybody into this workspace: choose one that you work in yourself")
}

/// Refuses when an account has as many connections as may be.
pub(super) async fn check_connections(write: &mut Write, account: AccountId) -> Result<()> {
    let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM oauth_grants WHERE account_id = $1")
        .bind(account.to_string())
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count connections"))?;
    if count < MAX_CONNECTIONS {
        return Ok(());
    }
    let message =
        format!("Your account has {MAX_CONNECTIONS} connections, and may have no more: end one first");
    Err(Error::forbidden(message).code("CONNECTION_LIMIT"))
}
