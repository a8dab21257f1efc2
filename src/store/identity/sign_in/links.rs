//! Sign-in links: each signs one browser in, once. Of the link only the SHA-256 of its token is stored.

use super::sessions::NewSession;
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, KeyId, SessionId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};

/// Unused links of one account, more than a person opens at a time; the oldest is evicted.
const MAX_UNUSED: i64 = 16;

/// Record of a new link.
#[derive(Clone, Debug)]
pub struct NewSignInLink<'a> {
    /// SHA-256 of its token, in hex.
    pub digest: &'a str,
    /// Account that it signs in.
    pub account: AccountId,
    /// Key of that account that made it.
    pub key: KeyId,
    /// Page of this service to which it leads.
    pub path: &'a str,
    /// Expiry.
    pub expires_at: UnixMillis,
}

/// A valid link.
#[derive(Clone, Debug)]
pub struct SignInLink {
    /// Account that it signs in.
    pub account: AccountId,
    /// E-mail address of that account.
    pub email: String,
    /// Page of this service to which it leads.
    pub path: String,
    /// Key that made it.
    key: KeyId,
}

row! {
    struct Row {
        account_id: String,
        email: String,
        path: String,
        key_id: String,
    }
}

impl TryFrom<Row> for SignInLink {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self { account: id(&row.account_id)?, email: row.email, path: row.path, key: id(&row.key_id)? })
    }
}

const SELECT_VALID: &str = "SELECT l.account_id, a.email, l.path, l.key_id FROM sign_in_links l \
    JOIN accounts a ON a.id = l.account_id WHERE l.digest = $1 AND l.expires_at > $2";

impl Store {
    /// Stores a link. Removes expired links, and the account's oldest ones beyond the bound. Returns false
    /// when the key does not exist any more.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn add_sign_in_link(&self, new: &NewSignInLink<'_>) -> Result<bool> {
        let (mut write, now) = (self.write().await?, clock::now());
        let excess = "DELETE FROM sign_in_links WHERE expires_at <= $1 OR digest IN (SELECT digest FROM \
             sign_in_links WHERE account_id = $2 ORDER BY created_at DESC, digest LIMIT 1000 OFFSET $3)";
        sqlx::query(excess)
            .bind(now.as_i64())
            .bind(new.account.to_string())
            .bind(MAX_UNUSED - 1)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("sweep sign-in links"))?;
        let added = sqlx::query(
            "INSERT INTO sign_in_links (digest, account_id, key_id, path, created_at, expires_at) \
             SELECT $1, k.account_id, k.id, $4, $5, $6 FROM api_keys k WHERE k.id = $2 AND k.account_id = $3",
        )
        .bind(new.digest)
        .bind(new.key.to_string())
        .bind(new.account.to_string())
        .bind(new.path)
        .bind(now.as_i64())
        .bind(new.expires_at.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a sign-in link"))?;
        write.commit().await?;
        Ok(added.rows_affected() > 0)
    }

    /// Returns the valid link whose token has this digest.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn sign_in_link(&self, digest: &str) -> Result<Option<SignInLink>> {
        let row: Option<Row> = sqlx::query_as(SELECT_VALID)
            .bind(digest)
            .bind(clock::now().as_i64())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a sign-in link"))?;
        row.map(SignInLink::try_from).transpose()
    }

    /// Consumes a link without a new session. Returns it, or `None` when no valid link matches.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn consume_sign_in_link(&self, digest: &str) -> Result<Option<SignInLink>> {
        let mut write = self.write().await?;
        let link = write.consume_sign_in_link(digest).await?;
        write.commit().await?;
        Ok(link)
    }

    /// Consumes a link and begins a session, in one transaction. The session ends with the key that made the
    /// link. Returns both, or `None` when no valid link matches.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn redeem_sign_in_link(
        &self,
        digest: &str,
        session: &NewSession<'_>,
    ) -> Result<Option<(SessionId, SignInLink)>> {
        let mut write = self.write().await?;
        let Some(link) = write.consume_sign_in_link(digest).await? else { return Ok(None) };
        let (session, excess) = write.insert_session(link.account, Some(link.key), session).await?;
        write.commit().await?;
        self.revoke_sessions(&excess);
        Ok(Some((session, link)))
    }
}

impl Write {
    async fn consume_sign_in_link(&mut self, digest: &str) -> Result<Option<SignInLink>> {
        let row: Option<Row> = sqlx::query_as(SELECT_VALID)
            .bind(digest)
            .bind(clock::now().as_i64())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read a sign-in link"))?;
        sqlx::query("DELETE FROM sign_in_links WHERE digest = $1")
            .bind(digest)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("remove a used sign-in link"))?;
        row.map(SignInLink::try_from).transpose()
    }
}
