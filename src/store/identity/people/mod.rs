//! Accounts of people. Passwords are stored as argon2 hashes.

use crate::{Store, Write, failed, id, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, SessionId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::email::Email;

pub mod addresses;

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
        let ended = write.remove_sessions_of(account, keep).await?;
        write.commit().await?;
        self.revoke_sessions(&ended);
        Ok(())
    }
}

impl Write {
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
