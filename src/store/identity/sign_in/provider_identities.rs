//! Persons at an OpenID Connect provider, each connected with one account.

use crate::{Store, failed, id, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;

/// Person at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderPerson {
    /// The provider's `issuer`.
    pub issuer: String,
    /// The provider's id of the person.
    pub subject: String,
    /// The person's address at the provider, if it named one.
    pub email: Option<String>,
}

/// Person at a provider that is connected with an account.
#[derive(Clone, Debug)]
pub struct ConnectedPerson {
    /// The person's address at the provider, at the time of the connection.
    pub email: Option<String>,
    /// Time of the connection.
    pub created_at: UnixMillis,
}

row! {
    struct Row {
        email: Option<String>,
        created_at: i64,
    }
}

impl Store {
    /// Returns the account with which a person at a provider is connected.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn account_of_provider_person(&self, issuer: &str, subject: &str) -> Result<Option<AccountId>> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT account_id FROM provider_identities WHERE issuer = $1 AND subject = $2")
                .bind(issuer)
                .bind(subject)
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look up a person of a provider"))?;
        row.map(|(account,)| id(&account)).transpose()
    }

    /// Returns the person at a provider with whom an account is connected.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn provider_person(&self, account: AccountId, issuer: &str) -> Result<Option<ConnectedPerson>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT email, created_at FROM provider_identities WHERE account_id = $1 AND issuer = $2",
        )
        .bind(account.to_string())
        .bind(issuer)
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read an account's person at a provider"))?;
        Ok(row.map(|row| ConnectedPerson { email: row.email, created_at: UnixMillis::new(row.created_at) }))
    }

    /// Whether an account is connected with a person at any provider.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn has_provider_person(&self, account: AccountId) -> Result<bool> {
        let (count,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM provider_identities WHERE account_id = $1")
                .bind(account.to_string())
                .fetch_one(&self.pool)
                .await
                .map_err(failed("count an account's persons at providers"))?;
        Ok(count > 0)
    }

    /// Connects an account with a person at a provider. With `only_sign_in` the account must have no other way to
    /// sign in, which the same transaction checks. Returns false when it has one, or when the person or the account
    /// is connected already.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn connect_provider_person(
        &self,
        account: AccountId,
        person: &ProviderPerson,
        only_sign_in: bool,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let connected = sqlx::query(
            "INSERT INTO provider_identities (issuer, subject, account_id, email, created_at) \
             SELECT $1, $2, a.id, $4, $5 FROM accounts a WHERE a.id = $3 AND ($6 = 0 OR (a.password_hash IS NULL \
             AND NOT EXISTS (SELECT 1 FROM passkeys k WHERE k.account_id = a.id) \
             AND NOT EXISTS (SELECT 1 FROM provider_identities p WHERE p.account_id = a.id)))",
        )
        .bind(&person.issuer)
        .bind(&person.subject)
        .bind(account.to_string())
        .bind(&person.email)
        .bind(clock::now().as_i64())
        .bind(i64::from(only_sign_in))
        .execute(&mut *write.tx)
        .await;
        let connected = match connected {
            Err(error) if is_duplicate(&error) => return Ok(false),
            other => other.map_err(failed("connect an account with a person at a provider"))?,
        };
        write.commit().await?;
        Ok(connected.rows_affected() > 0)
    }

    /// Ends the connection of an account with a person at a provider. The account must have a password, which the
    /// same transaction checks: nobody locks themselves out. Returns false otherwise, and without a connection.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn disconnect_provider_person(&self, account: AccountId, issuer: &str) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query(
            "DELETE FROM provider_identities WHERE account_id = $1 AND issuer = $2 AND EXISTS \
             (SELECT 1 FROM accounts a WHERE a.id = $1 AND a.password_hash IS NOT NULL)",
        )
        .bind(account.to_string())
        .bind(issuer)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("disconnect an account from a person at a provider"))?;
        write.commit().await?;
        Ok(removed.rows_affected() > 0)
    }
}
