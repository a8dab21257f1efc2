//! Second factors of people: the secret of an authenticator app, and recovery codes, of which only the SHA-256 is
//! stored.

use crate::vault::SealedText;
use crate::vault::columns::TOTP_SECRET;
use crate::{Store, Write, failed, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, SessionId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};

/// Authenticator app of an account.
#[derive(Clone, Debug)]
pub struct SecondFactor {
    /// Shared secret of the app, in base32.
    pub secret: Secret,
    /// Last time step whose code was accepted.
    pub last_step: i64,
    /// Time of the set-up.
    pub created_at: UnixMillis,
    /// Recovery codes that are not used yet.
    pub recovery_codes: i64,
}

/// Factors that a reset removed from an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedFactors {
    /// Whether it had an authenticator app.
    pub authenticator_app: bool,
    /// Number of its passkeys.
    pub passkeys: u32,
}

row! {
    struct Row {
        secret: SealedText,
        last_step: i64,
        created_at: i64,
        recovery_codes: i64,
    }
}

impl Store {
    /// Returns the second factor of an account, or `None` when a password alone signs it in.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn second_factor(&self, account: AccountId) -> Result<Option<SecondFactor>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT secret, last_step, created_at, \
             (SELECT COUNT(*) FROM recovery_codes r WHERE r.account_id = f.account_id) AS recovery_codes \
             FROM second_factors f WHERE account_id = $1",
        )
        .bind(account.to_string())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read a second factor"))?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(SecondFactor {
            secret: self.vault.open(&TOTP_SECRET, account, &row.secret)?,
            last_step: row.last_step,
            created_at: UnixMillis::new(row.created_at),
            recovery_codes: row.recovery_codes,
        }))
    }

    /// Stores the second factor of an account, with the step of the code that confirmed it and the digests of its
    /// recovery codes. Ends the account's sessions except `keep`. Returns false when the account has a second
    /// factor already.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn add_second_factor(
        &self,
        account: AccountId,
        secret: &Secret,
        step: i64,
        codes: &[String],
        keep: SessionId,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let added = sqlx::query(
            "INSERT INTO second_factors (account_id, secret, last_step, created_at) VALUES ($1, $2, $3, $4)",
        )
        .bind(account.to_string())
        .bind(self.vault.seal(&TOTP_SECRET, account, secret)?)
        .bind(step)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await;
        match added {
            Err(error) if is_duplicate(&error) => return Ok(false),
            other => other.map_err(failed("store a second factor"))?,
        };
        write.insert_recovery_codes(account, codes).await?;
        let ended = write.remove_sessions_of(account, Some(keep)).await?;
        write.commit().await?;
        self.revoke_sessions(&ended);
        Ok(true)
    }

    /// Accepts the code of a time step. Returns false when a code of that step or of a later one was accepted
    /// before: of parallel attempts with one code, one succeeds.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn use_code_step(&self, account: AccountId, step: i64) -> Result<bool> {
        let mut write = self.write().await?;
        let used =
            sqlx::query("UPDATE second_factors SET last_step = $2 WHERE account_id = $1 AND last_step < $2")
                .bind(account.to_string())
                .bind(step)
                .execute(&mut *write.tx)
                .await
                .map_err(failed("record the use of a code"))?;
        write.commit().await?;
        Ok(used.rows_affected() > 0)
    }

    /// Consumes the recovery code with this digest. Returns false when the account has no such code.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn use_recovery_code(&self, account: AccountId, digest: &str) -> Result<bool> {
        let mut write = self.write().await?;
        let used = sqlx::query("DELETE FROM recovery_codes WHERE digest = $1 AND account_id = $2")
            .bind(digest)
            .bind(account.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("use a recovery code"))?;
        write.commit().await?;
        Ok(used.rows_affected() > 0)
    }

    /// Replaces the recovery codes of an account. Returns false when the account has no second factor.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn replace_recovery_codes(&self, account: AccountId, codes: &[String]) -> Result<bool> {
        let mut write = self.write().await?;
        let (factors,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM second_factors WHERE account_id = $1")
            .bind(account.to_string())
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("look for a second factor"))?;
        if factors == 0 {
            return Ok(false);
        }
        sqlx::query("DELETE FROM recovery_codes WHERE account_id = $1")
            .bind(account.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove recovery codes"))?;
        write.insert_recovery_codes(account, codes).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Removes the second factor of an account, with its recovery codes. Returns false when it has none.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_second_factor(&self, account: AccountId) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = write.delete_second_factor(account).await?;
        write.commit().await?;
        Ok(removed)
    }

    /// Removes the second factor of an account, with its recovery codes, and all of its passkeys: a lost device may
    /// hold both. Returns what it had.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_factors(&self, account: AccountId) -> Result<RemovedFactors> {
        let mut write = self.write().await?;
        let authenticator_app = write.delete_second_factor(account).await?;
        let passkeys = sqlx::query("DELETE FROM passkeys WHERE account_id = $1")
            .bind(account.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove the passkeys of an account"))?;
        let passkeys = u32::try_from(passkeys.rows_affected()).map_err(Error::internal)?;
        write.commit().await?;
        Ok(RemovedFactors { authenticator_app, passkeys })
    }
}

impl Write {
    async fn delete_second_factor(&mut self, account: AccountId) -> Result<bool> {
        let removed = sqlx::query("DELETE FROM second_factors WHERE account_id = $1")
            .bind(account.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("remove a second factor"))?;
        Ok(removed.rows_affected() > 0)
    }

    async fn insert_recovery_codes(&mut self, account: AccountId, digests: &[String]) -> Result<()> {
        for digest in digests {
            sqlx::query("INSERT INTO recovery_codes (digest, account_id) VALUES ($1, $2)")
                .bind(digest)
                .bind(account.to_string())
                .execute(&mut *self.tx)
                .await
                .map_err(failed("store a recovery code"))?;
        }
        Ok(())
    }
}
