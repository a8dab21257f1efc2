//! Accounts of people and their browser sessions. Passwords are stored as argon2 hashes, cookies as SHA-256.

use crate::{Store, Write, failed, id, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, KeyId, SessionId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Credential;
use hotdesk_domain::identity::email::Email;

pub mod addresses;

/// Sessions of one account, more than a person has browsers; the oldest is evicted.
const MAX_SESSIONS: i64 = 100;
/// Sessions removed in one go; usually there is one.
const ENDED_AT_ONCE: i64 = 1000;

/// Value of `kind` for a person's account.
const PERSON: &str = "person";

/// Record of an account.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// E-mail address that it signs in with, in lower case; unique.
    pub email: String,
    /// Whether a link that was mailed to the address was opened.
    pub email_verified: bool,
    /// Its name.
    pub full_name: String,
    /// Argon2 hash of its password; `None` for an account that cannot sign in.
    pub password_hash: Option<String>,
    /// `person` or `agent`.
    pub kind: String,
    /// Name of its plan; `None` is the default plan.
    pub plan: Option<String>,
    /// Creation time.
    pub created_at: UnixMillis,
}

impl Account {
    /// Returns a new account of a person; `password_hash` is an argon2 hash.
    pub fn person(email: &Email, full_name: &str, password_hash: Option<String>) -> Self {
        Self {
            id: AccountId::random(),
            email: email.as_str().to_owned(),
            email_verified: false,
            full_name: full_name.to_owned(),
            password_hash,
            kind: PERSON.to_owned(),
            plan: None,
            created_at: clock::now(),
        }
    }
}

row! {
    struct Row {
        id: String,
        email: String,
        email_verified_at: Option<i64>,
        full_name: String,
        password_hash: Option<String>,
        kind: String,
        plan: Option<String>,
        created_at: i64,
    }
}

impl TryFrom<Row> for Account {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: id(&row.id)?,
            email: row.email,
            email_verified: row.email_verified_at.is_some(),
            full_name: row.full_name,
            password_hash: row.password_hash,
            kind: row.kind,
            plan: row.plan,
            created_at: UnixMillis::new(row.created_at),
        })
    }
}

const COLUMNS: &str = "id, email, email_verified_at, full_name, password_hash, kind, plan, created_at";

impl Store {
    /// Stores an account.
    ///
    /// # Errors
    /// `Conflict` (`EMAIL_TAKEN`) when another account has this address; `Unavailable` or `Internal` when the
    /// store fails. Nothing is changed then.
    pub async fn add_account(&self, account: &Account) -> Result<()> {
        let mut write = self.write().await?;
        write.insert_account(account).await?;
        write.commit().await
    }

    /// Returns all accounts, oldest first; the first is the operator's.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn accounts(&self) -> Result<Vec<Account>> {
        let select = format!("SELECT {COLUMNS} FROM accounts ORDER BY created_at, id");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list accounts"))?;
        rows.into_iter().map(Account::try_from).collect()
    }

    /// Returns an account, or `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn account(&self, account: AccountId) -> Result<Option<Account>> {
        self.account_where("id", &account.to_string()).await
    }

    /// Returns the account with an e-mail address, which must be in lower case.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn account_of(&self, email: &str) -> Result<Option<Account>> {
        self.account_where("email", email).await
    }

    async fn account_where(&self, column: &'static str, value: &str) -> Result<Option<Account>> {
        let select = format!("SELECT {COLUMNS} FROM accounts WHERE {column} = $1");
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(value)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an account"))?;
        row.map(Account::try_from).transpose()
    }

    /// Sets the address, name and argon2 hash of an account without a password. Returns false when the
    /// account has a password already.
    ///
    /// # Errors
    /// `Conflict` (`EMAIL_TAKEN`); `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn set_sign_in(
        &self,
        account: AccountId,
        email: &str,
        full_name: &str,
        hash: &str,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let updated = sqlx::query(
            "UPDATE accounts SET email = $2, email_verified_at = NULL, full_name = $3, password_hash = $4 \
             WHERE id = $1 AND password_hash IS NULL",
        )
        .bind(account.to_string())
        .bind(email)
        .bind(full_name)
        .bind(hash)
        .execute(&mut *write.tx)
        .await;
        let updated = match updated {
            Err(error) if is_duplicate(&error) => return Err(email_taken()),
            other => other.map_err(failed("store a password"))?,
        };
        write.commit().await?;
        Ok(updated.rows_affected() > 0)
    }

    /// Sets an account's password (an argon2 hash) and ends its sessions, except the caller's.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_password(&self, account: AccountId, hash: &str, keep: Option<SessionId>) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE accounts SET password_hash = $2 WHERE id = $1")
            .bind(account.to_string())
            .bind(hash)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a password"))?;
        sqlx::query("DELETE FROM sessions WHERE account_id = $1 AND id <> $2")
            .bind(account.to_string())
            .bind(keep.map(|session| session.to_string()).unwrap_or_default())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove sessions"))?;
        write.commit().await
    }

    /// Stores a session that a password began, by its cookie's digest. Removes expired sessions, and the
    /// oldest ones beyond the bound.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn add_session(
        &self,
        account: AccountId,
        digest: &str,
        expires_at: UnixMillis,
    ) -> Result<SessionId> {
        let mut write = self.write().await?;
        let (session, excess) = write.insert_session(account, None, digest, expires_at).await?;
        write.commit().await?;
        excess.iter().for_each(|session| self.credentials.revoke(&Credential::Session(*session)));
        Ok(session)
    }

    /// Returns the unexpired session whose cookie has this digest, with its account.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn session(&self, digest: &str) -> Result<Option<(SessionId, AccountId)>> {
        let row: Option<(String, String)> =
            sqlx::query_as("SELECT id, account_id FROM sessions WHERE digest = $1 AND expires_at > $2")
                .bind(digest)
                .bind(clock::now().as_i64())
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look up a session"))?;
        row.map(|(session, account)| Ok((id(&session)?, id(&account)?))).transpose()
    }

    /// Removes a session and revokes its leases.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_session(&self, session: SessionId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM sessions WHERE id = $1")
            .bind(session.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a session"))?;
        write.commit().await?;
        self.credentials.revoke(&Credential::Session(session));
        Ok(())
    }
}

impl Write {
    /// Stores a session by its cookie's digest; it ends with the key, if any. Removes expired sessions, and the
    /// oldest ones of the account beyond the bound. Returns the session and those that made place for it.
    pub(crate) async fn insert_session(
        &mut self,
        account: AccountId,
        key: Option<KeyId>,
        digest: &str,
        expires_at: UnixMillis,
    ) -> Result<(SessionId, Vec<SessionId>)> {
        sqlx::query("DELETE FROM sessions WHERE expires_at <= $1")
            .bind(clock::now().as_i64())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("sweep sessions"))?;
        let excess = self.make_room_for_session(account).await?;
        let session = SessionId::random();
        sqlx::query(
            "INSERT INTO sessions (id, account_id, key_id, digest, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(session.to_string())
        .bind(account.to_string())
        .bind(key.map(|key| key.to_string()))
        .bind(digest)
        .bind(clock::now().as_i64())
        .bind(expires_at.as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store a session"))?;
        Ok((session, excess))
    }

    /// Removes the oldest sessions of an account beyond the bound; returns those.
    async fn make_room_for_session(&mut self, account: AccountId) -> Result<Vec<SessionId>> {
        let oldest: Vec<(String,)> = sqlx::query_as(
            "SELECT id FROM sessions WHERE account_id = $1 ORDER BY created_at DESC, id LIMIT $2 OFFSET $3",
        )
        .bind(account.to_string())
        .bind(ENDED_AT_ONCE)
        .bind(MAX_SESSIONS - 1)
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("look for an account's oldest sessions"))?;
        for (session,) in &oldest {
            sqlx::query("DELETE FROM sessions WHERE id = $1")
                .bind(session)
                .execute(&mut *self.tx)
                .await
                .map_err(failed("remove an old session"))?;
        }
        oldest.iter().map(|(text,)| id(text)).collect()
    }

    /// See [`Store::add_account`].
    pub(crate) async fn insert_account(&mut self, account: &Account) -> Result<()> {
        let inserted = sqlx::query(
            "INSERT INTO accounts (id, email, full_name, password_hash, kind, plan, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(account.id.to_string())
        .bind(&account.email)
        .bind(&account.full_name)
        .bind(&account.password_hash)
        .bind(&account.kind)
        .bind(&account.plan)
        .bind(account.created_at.as_i64())
        .execute(&mut *self.tx)
        .await;
        match inserted {
            Err(error) if is_duplicate(&error) => Err(email_taken()),
            other => other.map(drop).map_err(failed("store an account")),
        }
    }
}

fn email_taken() -> Error {
    Error::conflict("An account with this e-mail address exists already").code(ErrorCode::EmailTaken)
}
