//! Which accounts and keys are there? Keys by digest only; their text is never here.

use super::{Store, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, KeyId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;

/// A key as it is stored.
#[derive(Clone, Debug)]
pub struct NewKey<'a> {
    /// The account it belongs to.
    pub account: AccountId,
    /// The only workspace it reaches; `None` for an account-wide key.
    pub workspace: Option<WorkspaceId>,
    /// What its owner calls it.
    pub name: &'a str,
    /// SHA-256 of its text, hex.
    pub digest: &'a str,
    /// Its last four characters, to recognise it by.
    pub last_four: &'a str,
}

/// Whose a key is.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The key's record.
    pub key: KeyId,
    /// The account that it belongs to.
    pub account: AccountId,
    /// The only workspace that it reaches, with its name.
    pub scope: Option<(WorkspaceId, String)>,
    /// What its owner calls it.
    pub name: String,
}

#[derive(sqlx::FromRow)]
struct HolderRow {
    id: String,
    account_id: String,
    name: String,
    digest: String,
    workspace_id: Option<String>,
    workspace_name: Option<String>,
}

impl Store {
    /// Makes the operator's account with its first key, unless an account exists already. True when it was made.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn first_account(
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
            .bind(now_ms())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the account"))?;
        let key = NewKey { account, workspace: None, name: "first key", digest, last_four };
        insert_key(&mut write, KeyId::random(), &key).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Stores a key.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn add_key(&self, key: &NewKey<'_>) -> Result<KeyId> {
        let mut write = self.write().await?;
        let id = KeyId::random();
        insert_key(&mut write, id, key).await?;
        write.commit().await?;
        Ok(id)
    }

    /// The only account of a fresh store.
    ///
    /// # Errors
    /// When the store fails or has no account.
    pub async fn operator(&self) -> Result<AccountId> {
        let (text,): (String,) = sqlx::query_as("SELECT id FROM accounts ORDER BY created_at LIMIT 1")
            .fetch_one(&self.pool)
            .await
            .map_err(failed("read the operator's account"))?;
        id(&text)
    }

    /// Who holds the key with this digest.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn holder(&self, digest: &str) -> Result<Option<Holder>> {
        let row: Option<HolderRow> = sqlx::query_as(
            "SELECT k.id, k.account_id, k.name, k.digest, k.workspace_id, w.name AS workspace_name FROM api_keys k \
             LEFT JOIN workspaces w ON w.id = k.workspace_id WHERE k.digest = $1",
        )
        .bind(digest)
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look up a key"))?;
        // The index compares digests, of which a guesser controls no byte; the last word is a comparison that takes as long
        // wherever two texts differ (access.md A4).
        let same = |row: &HolderRow| Secret::new(row.digest.as_str()).matches(digest);
        let Some(row) = row.filter(same) else { return Ok(None) };
        let scope = match (row.workspace_id, row.workspace_name) {
            (Some(workspace), Some(name)) => Some((id(&workspace)?, name)),
            _ => None,
        };
        Ok(Some(Holder { key: id(&row.id)?, account: id(&row.account_id)?, scope, name: row.name }))
    }

    /// A value that this installation made once and keeps (a signing secret, say); `make` gives the first one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keep(&self, name: &str, make: impl FnOnce() -> String) -> Result<String> {
        let mut write = self.write().await?;
        let kept: Option<(String,)> = sqlx::query_as("SELECT value FROM meta WHERE name = $1")
            .bind(name)
            .fetch_optional(&mut *write.tx)
            .await
            .map_err(failed("read a kept value"))?;
        if let Some((value,)) = kept {
            return Ok(value);
        }
        let value = make();
        sqlx::query("INSERT INTO meta (name, value) VALUES ($1, $2)")
            .bind(name)
            .bind(&value)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("keep a value"))?;
        write.commit().await?;
        Ok(value)
    }
}

/// Stores a key as part of a write.
pub(super) async fn insert_key(write: &mut super::Write, key_id: KeyId, key: &NewKey<'_>) -> Result<()> {
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
    .bind(now_ms())
    .execute(&mut *write.tx)
    .await
    .map(|_| ())
    .map_err(failed("store a key"))
}
