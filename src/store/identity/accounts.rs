//! Accounts, API keys and installation-wide values. Of a key only the digest is stored, never its text.

use std::collections::HashSet;

use crate::vault::SealedText;
use crate::vault::columns::INSTALLATION_SECRET;
use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, KeyId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;

/// Record of a new API key.
#[derive(Clone, Debug)]
pub struct NewKey<'a> {
    /// Its account.
    pub account: AccountId,
    /// The only workspace that it can access; `None` for an account-wide key.
    pub workspace: Option<WorkspaceId>,
    /// Its name, chosen by its owner.
    pub name: &'a str,
    /// SHA-256 of its text, in hex.
    pub digest: &'a str,
    /// Its last four characters, by which its owner recognises it.
    pub last_four: &'a str,
}

/// Owner and scope of an API key.
#[derive(Clone, Debug)]
pub struct KeyOwner {
    /// Id of the key.
    pub key: KeyId,
    /// Its account.
    pub account: AccountId,
    /// The only workspace that it can access, with its name; `None` for an account-wide key.
    pub scope: Option<(WorkspaceId, String)>,
    /// Its name, chosen by its owner.
    pub name: String,
}

row! {
    struct KeyOwnerRow {
        id: String,
        account_id: String,
        name: String,
        digest: String,
        workspace_id: Option<String>,
        workspace_name: Option<String>,
    }
}

impl Store {
    /// Creates the operator's account with its first key, unless an account exists. Returns whether it was
    /// created.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn create_first_account(
        &self,
        account: AccountId,
        email: &str,
        digest: &str,
        last_four: &str,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM accounts")
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count accounts"))?;
        if count > 0 {
            return Ok(false);
        }
        sqlx::query("INSERT INTO accounts (id, email, created_at) VALUES ($1, $2, $3)")
            .bind(account.to_string())
            .bind(email)
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the account"))?;
        let key = NewKey { account, workspace: None, name: "first key", digest, last_four };
        insert_key(&mut write, KeyId::random(), &key).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Stores an API key and returns its id.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn add_key(&self, key: &NewKey<'_>) -> Result<KeyId> {
        let mut write = self.write().await?;
        let id = KeyId::random();
        insert_key(&mut write, id, key).await?;
        write.commit().await?;
        Ok(id)
    }

    /// Returns the operator's account, which is the oldest one.
    ///
    /// # Errors
    /// `Internal` when there is no account; `Unavailable` or `Internal` when the store fails.
    pub async fn operator_account(&self) -> Result<AccountId> {
        let (text,): (String,) = sqlx::query_as("SELECT id FROM accounts ORDER BY created_at LIMIT 1")
            .fetch_one(&self.pool)
            .await
            .map_err(failed("read the operator's account"))?;
        id(&text)
    }

    /// Returns the ids of all accounts.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn account_ids(&self) -> Result<HashSet<AccountId>> {
        let rows: Vec<(String,)> = sqlx::query_as("SELECT id FROM accounts")
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list the accounts"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Returns the owner of the key with this digest, or `None` for an unknown key.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn key_owner(&self, digest: &str) -> Result<Option<KeyOwner>> {
        let row: Option<KeyOwnerRow> = sqlx::query_as(
            "SELECT k.id, k.account_id, k.name, k.digest, k.workspace_id, w.name AS workspace_name FROM api_keys k \
             LEFT JOIN workspaces w ON w.id = k.workspace_id WHERE k.digest = $1",
        )
        .bind(digest)
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look up a key"))?;
        // The index compares digests, of which an attacker controls no byte. The final comparison takes
        // constant time (A4, docs/authentication-rules.md).
        let same = |row: &KeyOwnerRow| Secret::new(row.digest.as_str()).matches(digest);
        let Some(row) = row.filter(same) else { return Ok(None) };
        let scope = match (row.workspace_id, row.workspace_name) {
            (Some(workspace), Some(name)) => Some((id(&workspace)?, name)),
            _ => None,
        };
        Ok(Some(KeyOwner { key: id(&row.id)?, account: id(&row.account_id)?, scope, name: row.name }))
    }

    /// Returns a value of this installation, which is no secret. Stores the result of `make` if there
    /// is none yet.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn get_or_create_value(&self, name: &str, make: impl FnOnce() -> String) -> Result<String> {
        let mut write = self.write().await?;
        let kept: Option<(String,)> = sqlx::query_as("SELECT value FROM meta WHERE name = $1")
            .bind(name)
            .fetch_optional(&mut *write.tx)
            .await
            .map_err(failed("read an installation value"))?;
        if let Some((value,)) = kept {
            return Ok(value);
        }
        let value = make();
        sqlx::query("INSERT INTO meta (name, value) VALUES ($1, $2)")
            .bind(name)
            .bind(&value)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store an installation value"))?;
        write.commit().await?;
        Ok(value)
    }

    /// Whether no controller has used the database yet: each makes secrets of the installation before all else.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn is_new(&self) -> Result<bool> {
        let secrets: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM installation_secrets")
            .fetch_one(&self.pool)
            .await
            .map_err(failed("count the secrets of the installation"))?;
        Ok(secrets == 0)
    }

    /// Returns a secret of this installation, such as one that signs. Stores the result of `make` if there is none
    /// yet.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn installation_secret(&self, name: &str, make: impl FnOnce() -> Secret) -> Result<Secret> {
        let mut write = self.write().await?;
        let stored: Option<(SealedText,)> =
            sqlx::query_as("SELECT value FROM installation_secrets WHERE name = $1")
                .bind(name)
                .fetch_optional(&mut *write.tx)
                .await
                .map_err(failed("read an installation secret"))?;
        if let Some((sealed,)) = stored {
            return self.vault.open(&INSTALLATION_SECRET, name, &sealed);
        }
        let secret = make();
        sqlx::query("INSERT INTO installation_secrets (name, value) VALUES ($1, $2)")
            .bind(name)
            .bind(self.vault.seal(&INSTALLATION_SECRET, name, &secret)?)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store an installation secret"))?;
        write.commit().await?;
        Ok(secret)
    }
}

/// Stores an API key as part of this transaction.
pub(crate) async fn insert_key(write: &mut crate::Write, key_id: KeyId, key: &NewKey<'_>) -> Result<()> {
    sqlx::query(
        "INSERT INTO api_keys (id, account_id, workspace_id, name, digest, last_four, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(key_id.to_string())
    .bind(key.account.to_string())
    .bind(key.workspace.map(|workspace| workspace.to_string()))
    .bind(key.name)
    .bind(key.digest)
    .bind(key.last_four)
    .bind(clock::now().as_i64())
    .execute(&mut *write.tx)
    .await
    .map(|_| ())
    .map_err(failed("store a key"))
}
