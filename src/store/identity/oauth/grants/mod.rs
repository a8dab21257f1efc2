//! Grants of people to MCP clients: one row from the authorization code to the end of the connection.
//!
//! Each step is one UPDATE that names the state it starts from, so that one of several concurrent requests
//! wins.
//!
//! ```text
//! code issued --redeem--> connected --rotate--> connected
//!      |                      |
//!      +--- expires ----------+--- expires, remove_grant --> (row removed)
//! ```

use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, GrantId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;

mod access_tokens;
mod connections;

pub use access_tokens::TokenOwner;
pub use connections::{GrantableWorkspace, MAX_CONNECTIONS, OauthConnection, workspace_not_grantable};
use connections::{check_connections, check_grantable};

/// A new grant, with the SHA-256 of its authorization code.
#[derive(Clone, Debug)]
pub struct NewGrant<'a> {
    /// The account that granted it.
    pub account: AccountId,
    /// The workspace that it gives access to.
    pub workspace: WorkspaceId,
    /// Id of the client.
    pub client_id: &'a str,
    /// Name of the client, as it registered.
    pub client_name: Option<&'a str>,
    /// Redirect URI to which the code is sent.
    pub redirect_uri: &'a str,
    /// The resource of the grant (RFC 8707).
    pub resource: &'a str,
    /// The PKCE challenge (RFC 7636).
    pub challenge: &'a str,
    /// SHA-256 of the code.
    pub code: &'a str,
    /// Expiry of the code.
    pub code_expires_at: UnixMillis,
    /// Expiry of the connection; refreshes do not extend it.
    pub expires_at: UnixMillis,
}

/// A stored grant.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// The account that granted it.
    pub account: AccountId,
    /// The workspace that it gives access to, and that workspace's owner.
    pub workspace: (WorkspaceId, AccountId),
    /// Id of the client.
    pub client_id: String,
    /// Name of the client, as it registered.
    pub client_name: Option<String>,
    /// Redirect URI to which its code was sent.
    pub redirect_uri: String,
    /// The resource of the grant (RFC 8707).
    pub resource: String,
    /// The PKCE challenge (RFC 7636).
    pub challenge: String,
    /// SHA-256 of the current refresh token; `None` until the code is redeemed.
    pub refresh: Option<String>,
    /// Expiry of the connection.
    pub expires_at: UnixMillis,
}

/// SHA-256 digests of a connection's tokens.
#[derive(Clone, Debug)]
pub struct TokenDigests {
    /// Digest of the part that all refresh tokens of the connection share.
    pub family: String,
    /// Digest of the refresh token.
    pub refresh: String,
    /// Digest of the access token.
    pub access: String,
    /// Expiry of the access token.
    pub access_expires_at: UnixMillis,
}

row! {
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
}

impl Store {
    /// Stores a grant with its code if the account's connection limit admits it. Removes unused codes and
    /// connections that expired.
    ///
    /// # Errors
    /// `Forbidden` for a workspace that the person does not work in; `Forbidden` (`CONNECTION_LIMIT`) when
    /// the account has [`MAX_CONNECTIONS`]; `Unavailable` or `Internal` when the store fails. Nothing is
    /// changed then.
    pub async fn add_grant(&self, new: &NewGrant<'_>) -> Result<GrantId> {
        let mut write = self.write().await?;
        let (grant, now) = (GrantId::random(), clock::now());
        sweep(&mut write, now).await?;
        // Checked inside of the transaction, so that a person who loses the workspace meanwhile leaves no
        // connection.
        check_grantable(&mut write, new.account, new.workspace).await?;
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
        .bind(new.code_expires_at.as_i64())
        .bind(now.as_i64())
        .bind(new.expires_at.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a grant"))?;
        write.commit().await?;
        Ok(grant)
    }

    /// Returns a grant by its id.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn grant(&self, grant: GrantId) -> Result<Option<Grant>> {
        self.grant_where("id", &grant.to_string()).await
    }

    /// Returns the grant with this code's digest, even when it is redeemed or expired.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn grant_of_code(&self, code: &str) -> Result<Option<Grant>> {
        self.grant_where("code", code).await
    }

    /// Returns the grant whose refresh tokens share this digest.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn grant_of_family(&self, family: &str) -> Result<Option<Grant>> {
        self.grant_where("family", family).await
    }

    /// Returns the grant with this access token's digest, even when it is expired.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
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
            expires_at: UnixMillis::new(row.expires_at),
        }))
    }

    /// Redeems a grant's code: stores the first tokens, and records that the client is in use. Returns false
    /// when the code is redeemed or expired.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn redeem(&self, grant: GrantId, first: &TokenDigests) -> Result<bool> {
        let mut write = self.write().await?;
        let from = "refresh IS NULL AND code_expires_at > $6";
        if !replace(&mut write, grant, first, from, None).await? {
            return Ok(false);
        }
        sqlx::query(
            "UPDATE oauth_clients SET used_at = $2 WHERE id = (SELECT client_id FROM oauth_grants WHERE id = $1)",
        )
        .bind(grant.to_string())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("record the use of a client"))?;
        write.commit().await?;
        Ok(true)
    }

    /// Replaces the tokens of a connection whose current refresh token has the digest `old`. Returns false
    /// when the token has changed or the connection has ended.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn rotate(&self, grant: GrantId, old: &str, next: &TokenDigests) -> Result<bool> {
        let mut write = self.write().await?;
        let from = "expires_at > $6 AND refresh = $7";
        let replaced = replace(&mut write, grant, next, from, Some(old)).await?;
        write.commit().await?;
        Ok(replaced)
    }
}

async fn sweep(write: &mut Write, now: UnixMillis) -> Result<()> {
    sqlx::query(
        "DELETE FROM oauth_grants WHERE expires_at <= $1 OR (refresh IS NULL AND code_expires_at <= $1)",
    )
    .bind(now.as_i64())
    .execute(&mut *write.tx)
    .await
    .map(|_| ())
    .map_err(failed("sweep grants"))
}

/// Replaces a grant's tokens if it matches the condition `from`. Returns whether it does.
async fn replace(
    write: &mut Write,
    grant: GrantId,
    new: &TokenDigests,
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
        .bind(new.access_expires_at.as_i64())
        .bind(clock::now().as_i64());
    if let Some(old) = old {
        query = query.bind(old);
    }
    let done = query.execute(&mut *write.tx).await.map_err(failed("store tokens"))?;
    Ok(done.rows_affected() == 1)
}
