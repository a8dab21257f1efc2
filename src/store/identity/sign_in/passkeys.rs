//! Passkeys of people: public keys only, so nothing here is secret.

use crate::{Store, failed, id, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::webauthn::may_follow;

/// Passkeys of one account, more than a person has devices.
const MAX_PASSKEYS: i64 = 20;

/// Passkey of an account.
#[derive(Clone, Debug)]
pub struct Passkey {
    /// Id of the credential, in base64url.
    pub credential_id: String,
    /// Account that it signs in to.
    pub account: AccountId,
    /// Its name, chosen by its owner.
    pub name: String,
    /// DER `SubjectPublicKeyInfo`, in base64url.
    pub public_key: String,
    /// Signatures of the authenticator as of the last sign-in; 0 when it does not count.
    pub sign_count: u32,
    /// Time of the registration.
    pub created_at: UnixMillis,
    /// Time of the last sign-in.
    pub last_used_at: Option<UnixMillis>,
}

row! {
    struct Row {
        credential_id: String,
        account_id: String,
        name: String,
        public_key: String,
        sign_count: i64,
        created_at: i64,
        last_used_at: Option<i64>,
    }
}

impl TryFrom<Row> for Passkey {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            credential_id: row.credential_id,
            account: id(&row.account_id)?,
            name: row.name,
            public_key: row.public_key,
            sign_count: u32::try_from(row.sign_count).map_err(Error::internal)?,
            created_at: UnixMillis::new(row.created_at),
            last_used_at: row.last_used_at.map(UnixMillis::new),
        })
    }
}

const COLUMNS: &str = "credential_id, account_id, name, public_key, sign_count, created_at, last_used_at";

impl Store {
    /// Stores a passkey.
    ///
    /// # Errors
    /// `Conflict` when the credential is registered already; `Forbidden` beyond 20 passkeys of the account;
    /// `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn add_passkey(&self, passkey: &Passkey) -> Result<()> {
        let mut write = self.write().await?;
        let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM passkeys WHERE account_id = $1")
            .bind(passkey.account.to_string())
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count passkeys"))?;
        if count >= MAX_PASSKEYS {
            let message = format!("The account has {MAX_PASSKEYS} passkeys, the maximum: remove one first");
            return Err(Error::forbidden(message));
        }
        let added = sqlx::query(
            "INSERT INTO passkeys (credential_id, account_id, name, public_key, sign_count, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(&passkey.credential_id)
        .bind(passkey.account.to_string())
        .bind(&passkey.name)
        .bind(&passkey.public_key)
        .bind(i64::from(passkey.sign_count))
        .bind(passkey.created_at.as_i64())
        .execute(&mut *write.tx)
        .await;
        match added {
            Err(error) if is_duplicate(&error) => {
                return Err(Error::conflict("This passkey is registered already"));
            }
            other => other.map_err(failed("store a passkey"))?,
        };
        write.commit().await
    }

    /// Returns the passkeys of an account, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn passkeys_of(&self, account: AccountId) -> Result<Vec<Passkey>> {
        let select = format!(
            "SELECT {COLUMNS} FROM passkeys WHERE account_id = $1 ORDER BY created_at, credential_id"
        );
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(account.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list passkeys"))?;
        rows.into_iter().map(Passkey::try_from).collect()
    }

    /// Returns the passkey with this credential id, in base64url.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn passkey(&self, credential_id: &str) -> Result<Option<Passkey>> {
        let select = format!("SELECT {COLUMNS} FROM passkeys WHERE credential_id = $1");
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(credential_id)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("look up a passkey"))?;
        row.map(Passkey::try_from).transpose()
    }

    /// Records a sign-in with a passkey and the authenticator's counter. Returns false when the counter may not follow
    /// the stored one, and when the passkey is gone.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn use_passkey(&self, credential_id: &str, sign_count: u32) -> Result<bool> {
        let mut write = self.write().await?;
        let stored: Option<(i64,)> =
            sqlx::query_as("SELECT sign_count FROM passkeys WHERE credential_id = $1")
                .bind(credential_id)
                .fetch_optional(&mut *write.tx)
                .await
                .map_err(failed("read a passkey's counter"))?;
        let Some((stored,)) = stored else { return Ok(false) };
        if !may_follow(u32::try_from(stored).map_err(Error::internal)?, sign_count) {
            return Ok(false);
        }
        sqlx::query("UPDATE passkeys SET sign_count = $2, last_used_at = $3 WHERE credential_id = $1")
            .bind(credential_id)
            .bind(i64::from(sign_count))
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("record the use of a passkey"))?;
        write.commit().await?;
        Ok(true)
    }

    /// Removes a passkey of an account. Returns false when the account has no such passkey.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_passkey(&self, account: AccountId, credential_id: &str) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query("DELETE FROM passkeys WHERE credential_id = $1 AND account_id = $2")
            .bind(credential_id)
            .bind(account.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a passkey"))?;
        write.commit().await?;
        Ok(removed.rows_affected() > 0)
    }
}
