//! API keys of an account and their last use.
//!
//! Creating and removing a key writes its audit entry in the same transaction. Removing a key revokes the
//! leases of its users.

use crate::identity::accounts::{NewKey, insert_key};
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, KeyId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Credential;
use hotdesk_domain::identity::api_key::{MAX_CLIENT_KEYS, MAX_KEYS};

/// Ids per query; SQLite allows tens of thousands of parameters, PostgreSQL 65,535.
const MAX_AT_ONCE: usize = 500;

/// Record of an API key. Its text was shown once; only the digest is stored.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// Its account.
    pub account: AccountId,
    /// The only workspace that it can access; `None` for an account-wide key.
    pub workspace: Option<KeyWorkspace>,
    /// Its name, chosen by its owner.
    pub name: String,
    /// Its last four characters.
    pub last_four: String,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Last use, to the minute.
    pub last_used_at: Option<UnixMillis>,
}

/// The workspace of a key.
#[derive(Clone, Debug)]
pub struct KeyWorkspace {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// The account that owns it.
    pub owner: AccountId,
}

row! {
    struct Row {
        id: String,
        account_id: String,
        workspace_id: Option<String>,
        workspace_name: Option<String>,
        owner_id: Option<String>,
        name: String,
        last_four: String,
        created_at: i64,
        last_used_at: Option<i64>,
    }
}

const SELECT: &str = "SELECT k.id, k.account_id, k.workspace_id, w.name AS workspace_name, w.account_id AS owner_id, k.name, \
    k.last_four, k.created_at, k.last_used_at FROM api_keys k LEFT JOIN workspaces w ON w.id = k.workspace_id";

impl TryFrom<Row> for ApiKey {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let workspace = match (row.workspace_id, row.workspace_name, row.owner_id) {
            (Some(workspace), Some(name), Some(owner)) => {
                Some(KeyWorkspace { id: id(&workspace)?, name, owner: id(&owner)? })
            }
            _ => None,
        };
        Ok(Self {
            id: id(&row.id)?,
            account: id(&row.account_id)?,
            workspace,
            name: row.name,
            last_four: row.last_four,
            created_at: UnixMillis::new(row.created_at),
            last_used_at: row.last_used_at.map(UnixMillis::new),
        })
    }
}

impl Store {
    /// Stores a key if the account's key limit admits it, with its audit entry, which gets the key's id.
    ///
    /// # Errors
    /// `Forbidden` (`KEY_LIMIT`) when the account or client has the most keys that it may have; `Unavailable`
    /// or `Internal` when the store fails. Nothing is changed then, unless only the final read of the key
    /// failed.
    pub async fn mint_key(&self, key: &NewKey<'_>, entry: Option<Entry>) -> Result<ApiKey> {
        let mut write = self.write().await?;
        write.check_keys(key.account, key.workspace).await?;
        let fresh = KeyId::random();
        insert_key(&mut write, fresh, key).await?;
        if let Some(entry) = entry {
            write.audit(&Entry { target: Some(fresh.to_string()), ..entry }).await?;
        }
        write.commit().await?;
        self.key(fresh).await?.ok_or_else(|| Error::internal("the new key is not there"))
    }

    /// Returns a key, or `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn key(&self, key: KeyId) -> Result<Option<ApiKey>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE k.id = $1")))
            .bind(key.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a key"))?;
        row.map(ApiKey::try_from).transpose()
    }

    /// Returns an account's keys, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn keys_of(&self, account: AccountId) -> Result<Vec<ApiKey>> {
        self.keys_where("k.account_id", account.to_string()).await
    }

    /// Returns the keys of all accounts that are limited to this workspace, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn keys_to(&self, workspace: WorkspaceId) -> Result<Vec<ApiKey>> {
        self.keys_where("k.workspace_id", workspace.to_string()).await
    }

    async fn keys_where(&self, column: &'static str, value: String) -> Result<Vec<ApiKey>> {
        let select = format!("{SELECT} WHERE {column} = $1 ORDER BY k.created_at, k.id");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(value)
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list keys"))?;
        rows.into_iter().map(ApiKey::try_from).collect()
    }

    /// Removes a key with its audit entry, and revokes the leases of its users. Returns false when it does
    /// not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_key(&self, key: KeyId, entry: Option<Entry>) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query("DELETE FROM api_keys WHERE id = $1")
            .bind(key.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a key"))?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        if let Some(entry) = entry {
            write.audit(&Entry { target: Some(key.to_string()), ..entry }).await?;
        }
        write.commit().await?;
        self.credentials.revoke(&Credential::Key(key));
        Ok(true)
    }

    /// Records the last use of API keys and sessions. The use of an MCP connection is recorded with its token.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn note_used(&self, used: &[(Credential, UnixMillis)]) -> Result<()> {
        let mut write = self.write().await?;
        for (credential, at) in used {
            let (update, id) = match credential {
                Credential::Key(key) => {
                    ("UPDATE api_keys SET last_used_at = $2 WHERE id = $1", key.to_string())
                }
                Credential::Session(session) => {
                    ("UPDATE sessions SET last_used_at = $2 WHERE id = $1", session.to_string())
                }
                Credential::Grant(_) => continue,
            };
            sqlx::query(update)
                .bind(id)
                .bind(at.as_i64())
                .execute(&mut *write.tx)
                .await
                .map_err(failed("record a credential's use"))?;
        }
        write.commit().await
    }

    /// Returns those of the credentials that were removed or have expired.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn ended_credentials(&self, credentials: &[Credential]) -> Result<Vec<Credential>> {
        let (mut keys, mut sessions, mut grants) = (Vec::new(), Vec::new(), Vec::new());
        for credential in credentials {
            match credential {
                Credential::Key(key) => keys.push(*key),
                Credential::Session(session) => sessions.push(*session),
                Credential::Grant(grant) => grants.push(*grant),
            }
        }
        let valid =
            |table: &str| format!("SELECT id FROM {table} WHERE expires_at > {} AND", clock::now().as_i64());
        let keys = self.missing("SELECT id FROM api_keys WHERE", &keys).await?;
        let sessions = self.missing(&valid("sessions"), &sessions).await?;
        let grants = self.missing(&valid("oauth_grants"), &grants).await?;
        let keys = keys.into_iter().map(Credential::Key);
        let browsers = sessions.into_iter().map(Credential::Session);
        Ok(keys.chain(browsers).chain(grants.into_iter().map(Credential::Grant)).collect())
    }

    /// Returns those of the ids that the query, extended by one condition, does not find.
    async fn missing<T: Copy + ToString>(&self, select: &str, ids: &[T]) -> Result<Vec<T>> {
        let mut missing = Vec::new();
        for some in ids.chunks(MAX_AT_ONCE) {
            let places: Vec<String> = (1..=some.len()).map(|place| format!("${place}")).collect();
            let select = format!("{select} id IN ({})", places.join(", "));
            let mut query = sqlx::query_as(sqlx::AssertSqlSafe(select));
            for id in some {
                query = query.bind(id.to_string());
            }
            let there: Vec<(String,)> =
                query.fetch_all(&self.pool).await.map_err(failed("look for credentials"))?;
            missing.extend(some.iter().filter(|id| !there.iter().any(|(there,)| *there == id.to_string())));
        }
        Ok(missing)
    }
}

impl Write {
    /// Refuses one more key (`KEY_LIMIT`) beyond the limit. Keys to a client's workspace count for the
    /// client, whichever account they belong to: a client must not use up its operator's limit.
    pub(crate) async fn check_keys(
        &mut self,
        account: AccountId,
        workspace: Option<WorkspaceId>,
    ) -> Result<()> {
        // An account-wide key belongs to no client: no workspace has the empty id.
        let workspace = workspace.map(|workspace| workspace.to_string()).unwrap_or_default();
        let (clients, theirs): (i64, i64) = sqlx::query_as(
            "SELECT (SELECT COUNT(*) FROM clients WHERE workspace_id = $1), \
             (SELECT COUNT(*) FROM api_keys WHERE workspace_id = $1)",
        )
        .bind(&workspace)
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count a client's keys"))?;
        if clients > 0 {
            return check_key_count("client", theirs, MAX_CLIENT_KEYS);
        }
        let (own,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM api_keys a WHERE a.account_id = $1 \
             AND NOT EXISTS (SELECT 1 FROM clients k WHERE k.workspace_id = a.workspace_id)",
        )
        .bind(account.to_string())
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count keys"))?;
        check_key_count("account", own, MAX_KEYS)
    }

    /// Returns the keys that are removed with a workspace.
    pub(crate) async fn keys_to(&mut self, workspace: WorkspaceId) -> Result<Vec<Credential>> {
        let rows: Vec<(String,)> = sqlx::query_as("SELECT id FROM api_keys WHERE workspace_id = $1")
            .bind(workspace.to_string())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list a workspace's keys"))?;
        rows.iter().map(|(text,)| id(text).map(Credential::Key)).collect()
    }
}

fn check_key_count(whose: &str, held: i64, most: u32) -> Result<()> {
    if held < i64::from(most) {
        return Ok(());
    }
    let message = format!("The {whose} has {most} API keys, the maximum: delete one first");
    Err(Error::forbidden(message).code(ErrorCode::KeyLimit))
}
