//! Secrets of accounts and workspaces for their computers.
//!
//! Storing and removing a secret writes its audit entry in the same transaction.

use crate::vault::SealedText;
use crate::vault::columns::SECRET_VALUE;
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, SecretId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::secret::{MAX_SECRETS, SecretName};

/// Owner of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretOwner {
    /// An account, for the computers of all its workspaces.
    Account(AccountId),
    /// A workspace, for its computers.
    Workspace(WorkspaceId),
}

impl SecretOwner {
    /// Returns the ids for the columns `account_id` and `workspace_id`.
    fn columns(self) -> [Option<String>; 2] {
        match self {
            Self::Account(account) => [Some(account.to_string()), None],
            Self::Workspace(workspace) => [None, Some(workspace.to_string())],
        }
    }
}

/// Record of a secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSecret {
    /// Its id, which stays when the value is replaced.
    pub id: SecretId,
    /// Its account or workspace.
    pub owner: SecretOwner,
    /// Its name, unique for its owner.
    pub name: SecretName,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Time of the last replacement of the value.
    pub updated_at: UnixMillis,
}

/// The secrets that one request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsableSecrets {
    /// The workspace whose secrets can be used.
    pub workspace: WorkspaceId,
    /// The account whose secrets can be used too, where the workspace has none of the name.
    pub account: Option<AccountId>,
}

row! {
    struct Row {
        id: String,
        account_id: Option<String>,
        workspace_id: Option<String>,
        name: String,
        created_at: i64,
        updated_at: i64,
    }
}

row! {
    struct ValueRow {
        id: String,
        value: SealedText,
    }
}

impl TryFrom<Row> for StoredSecret {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let owner = match (&row.account_id, &row.workspace_id) {
            (Some(account), None) => SecretOwner::Account(id(account)?),
            (None, Some(workspace)) => SecretOwner::Workspace(id(workspace)?),
            _ => return Err(Error::internal(format!("secret {} does not have one owner", row.id))),
        };
        Ok(Self {
            id: id(&row.id)?,
            owner,
            name: stored_name(&row.name)?,
            created_at: UnixMillis::new(row.created_at),
            updated_at: UnixMillis::new(row.updated_at),
        })
    }
}

const SELECT: &str = "SELECT id, account_id, workspace_id, name, created_at, updated_at FROM secrets \
    WHERE (account_id = $1 OR workspace_id = $2) AND ($3 = '' OR name = $3) ORDER BY name";

pub(crate) fn stored_name(text: &str) -> Result<SecretName> {
    SecretName::parse(text).map_err(|_| Error::internal(format!("the store holds a bad name: {text:?}")))
}

impl Store {
    /// Returns the secrets of an owner in the order of their names, without values.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn secrets_of(&self, owner: SecretOwner) -> Result<Vec<StoredSecret>> {
        let [account, workspace] = owner.columns();
        let rows: Vec<Row> = sqlx::query_as(SELECT)
            .bind(account)
            .bind(workspace)
            .bind("")
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list secrets"))?;
        rows.into_iter().map(StoredSecret::try_from).collect()
    }

    /// Returns a secret of an owner, without its value; `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn secret(&self, owner: SecretOwner, name: &SecretName) -> Result<Option<StoredSecret>> {
        let [account, workspace] = owner.columns();
        let row: Option<Row> = sqlx::query_as(SELECT)
            .bind(account)
            .bind(workspace)
            .bind(name.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a secret"))?;
        row.map(StoredSecret::try_from).transpose()
    }

    /// Stores a secret, or replaces its value. Returns it, and whether it is new. The audit entry gets its
    /// id.
    ///
    /// # Errors
    /// `Conflict` (`secret_limit`) when the owner has [`MAX_SECRETS`]; `Unavailable` or `Internal` when the
    /// store fails. Nothing is changed then.
    pub async fn save_secret(
        &self,
        owner: SecretOwner,
        name: &SecretName,
        value: &Secret,
        entry: Option<Entry>,
    ) -> Result<(StoredSecret, bool)> {
        let mut write = self.write().await?;
        let old = write.secret(owner, name).await?;
        if old.is_none() {
            write.check_secret_limit(owner).await?;
        }
        let now = clock::now();
        let saved = StoredSecret {
            id: old.as_ref().map_or_else(SecretId::random, |old| old.id),
            owner,
            name: name.clone(),
            created_at: old.as_ref().map_or(now, |old| old.created_at),
            updated_at: now,
        };
        let sealed = write.vault.seal(&SECRET_VALUE, saved.id, value)?;
        let [account, workspace] = owner.columns();
        sqlx::query(
            "INSERT INTO secrets (id, account_id, workspace_id, name, value, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $6) \
             ON CONFLICT (id) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        )
        .bind(saved.id.to_string())
        .bind(account)
        .bind(workspace)
        .bind(name.as_str())
        .bind(sealed)
        .bind(now.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a secret"))?;
        write.audit_secret(saved.id, entry).await?;
        write.commit().await?;
        Ok((saved, old.is_none()))
    }

    /// Removes a secret. Returns false when it does not exist. The audit entry gets its id.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_secret(
        &self,
        owner: SecretOwner,
        name: &SecretName,
        entry: Option<Entry>,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let Some(old) = write.secret(owner, name).await? else { return Ok(false) };
        sqlx::query("DELETE FROM secrets WHERE id = $1")
            .bind(old.id.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a secret"))?;
        write.audit_secret(old.id, entry).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Returns the names that a request may use, each once and in order.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn usable_secret_names(&self, usable: UsableSecrets) -> Result<Vec<SecretName>> {
        let names: Vec<(String,)> = sqlx::query_as(
            "SELECT DISTINCT name FROM secrets WHERE workspace_id = $1 OR account_id = $2 ORDER BY name",
        )
        .bind(usable.workspace.to_string())
        .bind(usable.account.map(|account| account.to_string()))
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the names of secrets"))?;
        names.iter().map(|(name,)| stored_name(name)).collect()
    }

    /// Returns the value of a secret that a request may use; `None` when there is none. The workspace's takes
    /// precedence over the account's.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or the value was changed by another program.
    pub async fn usable_secret(&self, usable: UsableSecrets, name: &SecretName) -> Result<Option<Secret>> {
        let row: Option<ValueRow> = sqlx::query_as(
            "SELECT id, value FROM secrets WHERE name = $3 AND (workspace_id = $1 OR account_id = $2) \
             ORDER BY CASE WHEN workspace_id IS NULL THEN 1 ELSE 0 END LIMIT 1",
        )
        .bind(usable.workspace.to_string())
        .bind(usable.account.map(|account| account.to_string()))
        .bind(name.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read the value of a secret"))?;
        row.map(|row| self.vault.open(&SECRET_VALUE, &row.id, &row.value)).transpose()
    }

    /// Returns the value of a secret of an owner; `None` when it does not exist.
    ///
    /// # Errors
    /// Those of [`Self::usable_secret`].
    pub async fn secret_value(&self, owner: SecretOwner, name: &SecretName) -> Result<Option<Secret>> {
        let [account, workspace] = owner.columns();
        let row: Option<ValueRow> = sqlx::query_as(
            "SELECT id, value FROM secrets WHERE name = $3 AND (account_id = $1 OR workspace_id = $2)",
        )
        .bind(account)
        .bind(workspace)
        .bind(name.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read the value of a secret"))?;
        row.map(|row| self.vault.open(&SECRET_VALUE, &row.id, &row.value)).transpose()
    }

    /// Returns the values of all secrets that a request may use, in no order.
    ///
    /// # Errors
    /// Those of [`Self::usable_secret`].
    pub async fn usable_secrets(&self, usable: UsableSecrets) -> Result<Vec<Secret>> {
        let rows: Vec<ValueRow> =
            sqlx::query_as("SELECT id, value FROM secrets WHERE workspace_id = $1 OR account_id = $2")
                .bind(usable.workspace.to_string())
                .bind(usable.account.map(|account| account.to_string()))
                .fetch_all(&self.pool)
                .await
                .map_err(failed("read the values of secrets"))?;
        rows.iter().map(|row| self.vault.open(&SECRET_VALUE, &row.id, &row.value)).collect()
    }
}

impl Write {
    async fn secret(&mut self, owner: SecretOwner, name: &SecretName) -> Result<Option<StoredSecret>> {
        let [account, workspace] = owner.columns();
        let row: Option<Row> = sqlx::query_as(SELECT)
            .bind(account)
            .bind(workspace)
            .bind(name.as_str())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("look for a secret"))?;
        row.map(StoredSecret::try_from).transpose()
    }

    /// Refuses one more secret beyond the limit of its owner.
    async fn check_secret_limit(&mut self, owner: SecretOwner) -> Result<()> {
        let [account, workspace] = owner.columns();
        let (count,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM secrets WHERE account_id = $1 OR workspace_id = $2")
                .bind(account)
                .bind(workspace)
                .fetch_one(&mut *self.tx)
                .await
                .map_err(failed("count secrets"))?;
        if count < i64::from(MAX_SECRETS) {
            return Ok(());
        }
        let holder = match owner {
            SecretOwner::Account(_) => "account",
            SecretOwner::Workspace(_) => "workspace",
        };
        let message = format!("The {holder} has {MAX_SECRETS} secrets, the maximum: delete one first");
        Err(Error::conflict(message).code(ErrorCode::SecretLimit))
    }

    async fn audit_secret(&mut self, secret: SecretId, entry: Option<Entry>) -> Result<()> {
        match entry {
            Some(entry) => self.audit(&Entry { target: Some(secret.to_string()), ..entry }).await,
            None => Ok(()),
        }
    }
}
