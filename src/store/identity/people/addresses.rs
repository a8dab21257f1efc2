//! Verification of e-mail addresses by mailed links. Of a link only the SHA-256 of its token is stored.

use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::verification::{MailCount, count_mail};

/// Record of a link that is about to be mailed.
#[derive(Clone, Debug)]
pub struct NewVerification<'a> {
    /// The account.
    pub account: AccountId,
    /// Its address.
    pub email: &'a str,
    /// SHA-256 of the link's token, in hex.
    pub digest: &'a str,
    /// Time of the mail.
    pub created_at: UnixMillis,
    /// Expiry of the link.
    pub expires_at: UnixMillis,
}

impl Store {
    /// Stores a link, which replaces the previous one of the account.
    ///
    /// # Errors
    /// Those of [`count_mail`]; `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn add_verification(&self, new: &NewVerification<'_>) -> Result<()> {
        let mut write = self.write().await?;
        let previous: Option<(i64, i64, i64)> = sqlx::query_as(
            "SELECT created_at, sent, counted_since FROM email_verifications WHERE account_id = $1",
        )
        .bind(new.account.to_string())
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("count an account's mails"))?;
        let previous = previous.map(|(last, sent, since)| MailCount {
            last: UnixMillis::new(last),
            sent: u32::try_from(sent).unwrap_or(u32::MAX),
            since: UnixMillis::new(since),
        });
        let count = count_mail(previous.as_ref(), new.created_at)?;
        sqlx::query(
            "INSERT INTO email_verifications (account_id, email, digest, created_at, expires_at, sent, counted_since) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (account_id) DO UPDATE SET email = excluded.email, \
             digest = excluded.digest, created_at = excluded.created_at, expires_at = excluded.expires_at, \
             sent = excluded.sent, counted_since = excluded.counted_since",
        )
        .bind(new.account.to_string())
        .bind(new.email)
        .bind(new.digest)
        .bind(count.last.as_i64())
        .bind(new.expires_at.as_i64())
        .bind(i64::from(count.sent))
        .bind(count.since.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a link to an address"))?;
        write.commit().await
    }

    /// Returns the account of a valid link with this digest.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn verification(&self, digest: &str) -> Result<Option<AccountId>> {
        let row: Option<(String,)> = sqlx::query_as(
            "SELECT v.account_id FROM email_verifications v JOIN accounts a ON a.id = v.account_id \
             AND a.email = v.email WHERE v.digest = $1 AND v.expires_at > $2",
        )
        .bind(digest)
        .bind(clock::now().as_i64())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read a link to an address"))?;
        row.map(|(account,)| crate::id(&account)).transpose()
    }

    /// Uses a link up: the address of its account is verified. Returns false unless a valid link of this account has
    /// this digest.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn verify_address(&self, digest: &str, account: AccountId) -> Result<bool> {
        let mut write = self.write().await?;
        let now = clock::now().as_i64();
        let verified = sqlx::query(
            "UPDATE accounts SET email_verified_at = $3 WHERE id = $2 AND email = (SELECT v.email \
             FROM email_verifications v WHERE v.digest = $1 AND v.account_id = $2 AND v.expires_at > $3)",
        )
        .bind(digest)
        .bind(account.to_string())
        .bind(now)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store that an address is verified"))?;
        if verified.rows_affected() == 0 {
            return Ok(false);
        }
        sqlx::query("DELETE FROM email_verifications WHERE account_id = $1")
            .bind(account.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("use a link to an address up"))?;
        write.commit().await?;
        Ok(true)
    }
}

/// The error of a link that is not valid.
pub fn invalid_verification() -> Error {
    Error::not_found("This link was used or replaced, or has expired. Send another one from the settings.")
}
