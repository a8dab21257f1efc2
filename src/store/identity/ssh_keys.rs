//! Public SSH keys of an account.
//!
//! Adding and removing a key writes its audit entry in the same transaction.

use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, SshKeyId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::ssh_key::{MAX_KEYS, SshPublicKey};

/// Record of a new key.
#[derive(Clone, Copy, Debug)]
pub struct NewSshKey<'a> {
    /// Its account.
    pub account: AccountId,
    /// The only workspace whose computers it opens; `None` for all.
    pub workspace: Option<WorkspaceId>,
    /// Its name, chosen by its owner.
    pub name: &'a str,
    /// The key.
    pub key: &'a SshPublicKey,
}

/// Record of a key.
#[derive(Clone, Debug)]
pub struct SshKey {
    /// Its id.
    pub id: SshKeyId,
    /// Its account.
    pub account: AccountId,
    /// The only workspace whose computers it opens; `None` for all.
    pub workspace: Option<WorkspaceId>,
    /// Its name, chosen by its owner.
    pub name: String,
    /// Type and key, in the format of OpenSSH.
    pub public_key: String,
    /// `SHA256:` and the digest.
    pub fingerprint: String,
    /// Creation time.
    pub created_at: UnixMillis,
}

row! {
    struct Row {
        id: String,
        account_id: String,
        workspace_id: Option<String>,
        name: String,
        public_key: String,
        fingerprint: String,
        created_at: i64,
    }
}

const SELECT: &str =
    "SELECT id, account_id, workspace_id, name, public_key, fingerprint, created_at FROM ssh_keys";

impl TryFrom<Row> for SshKey {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: id(&row.id)?,
            account: id(&row.account_id)?,
            workspace: row.workspace_id.as_deref().map(id).transpose()?,
            name: row.name,
            public_key: row.public_key,
            fingerprint: row.fingerprint,
            created_at: UnixMillis::new(row.created_at),
        })
    }
}

impl Store {
    /// Stores a key with its audit entry, which gets the key's id.
    ///
    /// # Errors
    /// `Conflict` when the account has the key already (`ssh_key_exists`) or has [`MAX_KEYS`]
    /// (`ssh_key_limit`), counted apart for each workspace; `Unavailable` or `Internal` when the store fails.
    /// Nothing is changed then.
    pub async fn add_ssh_key(&self, new: &NewSshKey<'_>, entry: Option<Entry>) -> Result<SshKey> {
        let mut write = self.write().await?;
        let workspace = new.workspace.map(|workspace| workspace.to_string());
        let (all, same): (i64, i64) = sqlx::query_as(
            "SELECT COUNT(*), COUNT(CASE WHEN fingerprint = $3 THEN 1 END) FROM ssh_keys \
             WHERE account_id = $1 AND COALESCE(workspace_id, '') = $2",
        )
        .bind(new.account.to_string())
        .bind(workspace.clone().unwrap_or_default())
        .bind(&new.key.fingerprint)
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count SSH keys"))?;
        if same > 0 {
            return Err(Error::conflict("The account has this SSH key already").code(ErrorCode::SshKeyExists));
        }
        if all >= i64::from(MAX_KEYS) {
            let message = format!("The account has {MAX_KEYS} SSH keys, the maximum: delete one first");
            return Err(Error::conflict(message).code(ErrorCode::SshKeyLimit));
        }
        let (fresh, now) = (SshKeyId::random(), clock::now());
        sqlx::query(
            "INSERT INTO ssh_keys (id, account_id, workspace_id, name, public_key, fingerprint, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(fresh.to_string())
        .bind(new.account.to_string())
        .bind(workspace)
        .bind(new.name)
        .bind(&new.key.text)
        .bind(&new.key.fingerprint)
        .bind(now.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store an SSH key"))?;
        if let Some(entry) = entry {
            write.audit(&Entry { target: Some(fresh.to_string()), ..entry }).await?;
        }
        write.commit().await?;
        Ok(SshKey {
            id: fresh,
            account: new.account,
            workspace: new.workspace,
            name: new.name.to_owned(),
            public_key: new.key.text.clone(),
            fingerprint: new.key.fingerprint.clone(),
            created_at: now,
        })
    }

    /// Returns a key, or `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn ssh_key(&self, key: SshKeyId) -> Result<Option<SshKey>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE id = $1")))
            .bind(key.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an SSH key"))?;
        row.map(SshKey::try_from).transpose()
    }

    /// Returns all keys of an account, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn ssh_keys_of(&self, account: AccountId) -> Result<Vec<SshKey>> {
        let select = format!("{SELECT} WHERE account_id = $1 ORDER BY created_at, id");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(account.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list SSH keys"))?;
        rows.into_iter().map(SshKey::try_from).collect()
    }

    /// Removes a key with its audit entry. Returns false when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_ssh_key(&self, key: SshKeyId, entry: Option<Entry>) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query("DELETE FROM ssh_keys WHERE id = $1")
            .bind(key.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove an SSH key"))?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        if let Some(entry) = entry {
            write.audit(&Entry { target: Some(key.to_string()), ..entry }).await?;
        }
        write.commit().await?;
        Ok(true)
    }
}
