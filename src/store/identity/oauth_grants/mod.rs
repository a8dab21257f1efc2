//! What did people grant to MCP clients? One row from the code to the end of the connection; each step is one UPDATE that says
//! from what it goes on, so that of many at once one wins.

use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, GrantId, WorkspaceId};
use hotdesk_domain::error::Result;

mod bearers;
mod connections;

pub use bearers::Bearer;
pub use connections::{Choice, Connection, MAX_CONNECTIONS, not_theirs};
use connections::{check_chosen, check_connections};

/// What a person granted, with the SHA-256 of the code for it.
#[derive(Clone, Debug)]
pub struct NewGrant<'a> {
    /// Who granted it.
    pub account: AccountId,
    /// The workspace that was chosen.
    pub workspace: WorkspaceId,
    /// To whom.
    pub client_id: &'a str,
    /// What that calls itself.
    pub client_name: Option<&'a str>,
    /// Where the code was sent.
    pub redirect_uri: &'a str,
    /// For which resource.
    pub resource: &'a str,
    /// The PKCE challenge.
    pub challenge: &'a str,
    /// The code's SHA-256.
    pub code: &'a str,
    /// When the code dies.
    pub code_expires_at: i64,
    /// When the connection ends, whatever happens.
    pub expires_at: i64,
}

/// A grant, as its code or its refresh token finds it.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// Who granted it.
    pub account: AccountId,
    /// The workspace that was chosen, and the account that owns it.
    pub workspace: (WorkspaceId, AccountId),
    /// To whom it was given.
    pub client_id: String,
    /// What that calls itself.
    pub client_name: Option<String>,
    /// Where its code was sent.
    pub redirect_uri: String,
    /// For which resource.
    pub resource: String,
    /// The PKCE challenge.
    pub challenge: String,
    /// The SHA-256 of the current refresh token; `None` while the code was not used.
    pub refresh: Option<String>,
    /// When the connection ends.
    pub expires_at: i64,
}

/// The SHA-256 of the tokens of a connection.
#[derive(Clone, Debug)]
pub struct Digests {
    /// What all refresh tokens of the connection share.
    pub family: String,
    /// The refresh token.
    pub refresh: String,
    /// The access token.
    pub access: String,
    /// When the access token dies.
    pub access_expires_at: i64,
}

#[derive(sqlx::FromRow)]
struct GrantRow {
    id: String,
    account_id: String,
    workspace_id: String,
    owner_id: String,
    client_id: String,
    client_name: Option<String>,
    redirect_uri: String,
    resource: String,
    challenge: String,
    refresh: Option<String>,
    expires_at: i64,
}

impl Store {
    /// Stores a grant of an account that has room for one more, with its code. Codes that were never used and connections
    /// past their end go.
    ///
    /// # Errors
    /// `Forbidden` for a workspace that the person does not work in, and (`CONNECTION_LIMIT`) for an account with as many as may be;
    /// or the store fails.
    pub async fn add_grant(&self, new: &NewGrant<'_>) -> Result<GrantId> {
        let mut write = self.write().await?;
        let (grant, now) = (GrantId::random(), now_ms());
        sweep(&mut write, now).await?;
        // Here and not before: whoever loses the workspace meanwhile leaves no connection behind.
        check_chosen(&mut write, new.account, new.workspace).await?;
        check_connections(&mut write, new.account).await?;
        sqlx::query(
            "INSERT INTO oauth_grants (id, account_id, workspace_id, client_id, client_name, redirect_uri, resource, \
             challenge, code, code_expires_at, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(grant.to_string())
        .bind(new.account.to_string())
        .bind(new.workspace.to_string())
        .bind(new.client_id)
        .bind(new.client_name)
        .bind(new.redirect_uri)
        .bind(new.resource)
        .bind(new.challenge)
        .bind(new.code)
        .bind(new.code_expires_at)
        .bind(now)
        .bind(new.expires_at)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a grant"))?;
        write.commit().await?;
        Ok(grant)
    }

    /// A grant by its id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grant(&self, grant: GrantId) -> Result<Option<Grant>> {
        self.grant_where("id", &grant.to_string()).await
    }

    /// The grant with this code, used or not, expired or not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grant_of_code(&self, code: &str) -> Result<Option<Grant>> {
        self.grant_where("code", code).await
    }

    /// The connection whose refresh tokens share this.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grant_of_family(&self, family: &str) -> Result<Option<Grant>> {
        self.grant_where("family", family).await
    }

    /// The connection with this access token, expired or not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grant_of_access(&self, access: &str) -> Result<Option<Grant>> {
        self.grant_where("access", access).await
    }

    async fn grant_where(&self, column: &'static str, value: &str) -> Result<Option<Grant>> {
        let select = format!(
            "SELECT g.id, g.account_id, g.workspace_id, w.account_id AS owner_id, g.client_id, g.client_name, \
             g.redirect_uri, g.resource, g.challenge, g.refresh, g.expires_at FROM oauth_grants g \
             JOIN workspaces w ON w.id = g.workspace_id WHERE g.{column} = $1"
        );
        let row: Option<GrantRow> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(value)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("look up a grant"))?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Grant {
            id: id(&row.id)?,
            account: id(&row.account_id)?,
            workspace: (id(&row.workspace_id)?, id(&row.owner_id)?),
            client_id: row.client_id,
            client_name: row.client_name,
            redirect_uri: row.redirect_uri,
            resource: row.resource,
            challenge: row.challenge,
            refresh: row.refresh,
            expires_at: row.expires_at,
        }))
    }

    /// Uses a grant's code up, for its first tokens, and notes that its client is in use. False when it was used before or is
    /// dead.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn redeem(&self, grant: GrantId, first: &Digests) -> Result<bool> {
        let mut write = self.write().await?;
        let from = "refresh IS NULL AND code_expires_at > $6";
        if !replace(&mut write, grant, first, from, None).await? {
            return Ok(false);
        }
        sqlx::query(
            "UPDATE oauth_clients SET used_at = $2 WHERE id = (SELECT client_id FROM oauth_grants WHERE id = $1)",
        )
        .bind(grant.to_string())
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("note the use of a client"))?;
        write.commit().await?;
        Ok(true)
    }

    /// Puts new tokens in the place of a connection's, whose current refresh token is `old`. False when it is another by now,
    /// or the connection has ended.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn rotate(&self, grant: GrantId, old: &str, next: &Digests) -> Result<bool> {
        let mut write = self.write().await?;
        let from = "expires_at > $6 AND refresh = $7";
        let replaced = replace(&mut write, grant, next, from, Some(old)).await?;
        write.commit().await?;
        Ok(replaced)
    }
}

async fn sweep(write: &mut Write, now: i64) -> Result<()> {
    sqlx::query(
        "DELETE FROM oauth_grants WHERE expires_at <= $1 OR (refresh IS NULL AND code_expires_at <= $1)",
    )
    .bind(now)
    .execute(&mut *write.tx)
    .await
    .map(|_| ())
    .map_err(failed("sweep grants"))
}

/// Puts tokens in the place of a grant's, when it is as `from` says. False when it is not.
async fn replace(
    write: &mut Write,
    grant: GrantId,
    new: &Digests,
    from: &'static str,
    old: Option<&str>,
) -> Result<bool> {
    let update = format!(
        "UPDATE oauth_grants SET family = $2, refresh = $3, access = $4, access_expires_at = $5 \
         WHERE id = $1 AND {from}"
    );
    let mut query = sqlx::query(sqlx::AssertSqlSafe(update))
        .bind(grant.to_string())
        .bind(&new.family)
        .bind(&new.refresh)
        .bind(&new.access)
        .bind(new.access_expires_at)
        .bind(now_ms());
    if let Some(old) = old {
        query = query.bind(old);
    }
    let done = query.execute(&mut *write.tx).await.map_err(failed("store tokens"))?;
    Ok(done.rows_affected() == 1)
}
