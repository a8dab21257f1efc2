//! Workspaces.

use std::collections::HashSet;

use crate::fleet::changes::RecordChange;
use crate::{Store, Write, failed, id, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, FileId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::name::Name;

/// Record of a workspace.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Its id.
    pub id: WorkspaceId,
    /// The account that owns it.
    pub account: AccountId,
    /// Its name, unique per account regardless of case.
    pub name: String,
    /// URL of its picture, if any.
    pub icon_url: Option<String>,
    /// `active` or `inactive`.
    pub status: String,
    /// Whether viewers may read the files of its computers.
    pub viewers_read_files: bool,
    /// Isolation of its new computers; `None` means the default of the configuration.
    pub isolation: Option<Isolation>,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Time of the last change.
    pub updated_at: UnixMillis,
}

/// Changes to a workspace; `None` leaves a field.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceChange {
    /// A new name.
    pub name: Option<Name>,
    /// A new picture; `Some(None)` removes it.
    pub icon_url: Option<Option<String>>,
    /// A new status.
    pub status: Option<String>,
    /// Whether viewers may read files from now on.
    pub viewers_read_files: Option<bool>,
    /// A new default isolation; `Some(None)` removes it.
    pub isolation: Option<Option<Isolation>>,
}

row! {
    struct Row {
        id: String,
        account_id: String,
        name: String,
        icon_url: Option<String>,
        status: String,
        viewers_read_files: i64,
        isolation: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<Row> for Workspace {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = || Error::internal(format!("workspace {} holds a bad isolation", row.id));
        let isolation = row.isolation.as_deref().map(|name| Isolation::parse(name).ok_or_else(bad));
        Ok(Self {
            isolation: isolation.transpose()?,
            id: id(&row.id)?,
            account: id(&row.account_id)?,
            name: row.name,
            icon_url: row.icon_url,
            status: row.status,
            viewers_read_files: row.viewers_read_files != 0,
            created_at: UnixMillis::new(row.created_at),
            updated_at: UnixMillis::new(row.updated_at),
        })
    }
}

/// Workspaces that an account can access.
const ACCESSIBLE: &str = "SELECT * FROM workspaces WHERE (account_id = $1 OR id IN \
                       (SELECT workspace_id FROM members WHERE account_id = $1))";

fn name_taken(name: &Name) -> Error {
    // `Invalid`, not `Conflict`: the API answers 400 for a duplicate workspace name (docs/api/workspaces.md).
    Error::invalid(format!("A workspace named \"{name}\" already exists")).code(ErrorCode::NameTaken)
}

impl Store {
    /// Creates a workspace if the account's quota admits it.
    ///
    /// # Errors
    /// Those of [`Quota::admit`](hotdesk_domain::billing::quota::Quota::admit); `Invalid` (`NAME_TAKEN`) when
    /// the account has a workspace of this name; `Unavailable` or `Internal` when the store fails. Nothing is
    /// changed then.
    pub async fn add_workspace(
        &self,
        account: AccountId,
        name: &Name,
        icon_url: Option<&str>,
        status: &str,
        plans: &Plans,
    ) -> Result<Workspace> {
        let mut write = self.write().await?;
        write.check_workspaces(account, plans).await?;
        let made = write.add_workspace(account, name, icon_url, status).await?;
        write.commit().await?;
        Ok(made)
    }

    /// Returns the workspaces that an account owns or is a member of, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn workspaces(&self, account: AccountId) -> Result<Vec<Workspace>> {
        let rows: Vec<Row> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("{ACCESSIBLE} ORDER BY created_at, id")))
                .bind(account.to_string())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list workspaces"))?;
        rows.into_iter().map(Workspace::try_from).collect()
    }

    /// Returns a workspace, or `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn workspace(&self, workspace: WorkspaceId) -> Result<Option<Workspace>> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM workspaces WHERE id = $1")
            .bind(workspace.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a workspace"))?;
        row.map(Workspace::try_from).transpose()
    }

    /// Returns a workspace by its case-folded name. Names are unique per owner, so the account's own
    /// workspace takes precedence over the oldest one that it is a member of.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn workspace_named(&self, account: AccountId, folded: &str) -> Result<Option<Workspace>> {
        let select = format!(
            "{ACCESSIBLE} AND name_folded = $2 ORDER BY CASE WHEN account_id = $1 THEN 0 ELSE 1 END, created_at, id LIMIT 1"
        );
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(account.to_string())
            .bind(folded)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a workspace by name"))?;
        row.map(Workspace::try_from).transpose()
    }

    /// Changes a workspace and returns it.
    ///
    /// # Errors
    /// `Invalid` (`NAME_TAKEN`); `NotFound` when it does not exist; `Unavailable` or `Internal` when the
    /// store fails. Nothing is changed then.
    pub async fn change_workspace(
        &self,
        workspace: WorkspaceId,
        change: &WorkspaceChange,
    ) -> Result<Workspace> {
        let gone = || Error::not_found("Workspace not found");
        let mut write = self.write().await?;
        let row: Option<Row> = sqlx::query_as("SELECT * FROM workspaces WHERE id = $1")
            .bind(workspace.to_string())
            .fetch_optional(&mut *write.tx)
            .await
            .map_err(failed("read a workspace"))?;
        let mut changed = Workspace::try_from(row.ok_or_else(gone)?)?;
        if let Some(name) = &change.name {
            name.as_str().clone_into(&mut changed.name);
        }
        if let Some(icon_url) = &change.icon_url {
            changed.icon_url.clone_from(icon_url);
        }
        if let Some(status) = &change.status {
            changed.status.clone_from(status);
        }
        changed.viewers_read_files = change.viewers_read_files.unwrap_or(changed.viewers_read_files);
        changed.isolation = change.isolation.unwrap_or(changed.isolation);
        changed.updated_at = clock::now();
        let updated = sqlx::query(
            "UPDATE workspaces SET name = $2, name_folded = $3, icon_url = $4, status = $5, viewers_read_files = $6, \
             updated_at = $7, isolation = $8 WHERE id = $1",
        )
        .bind(workspace.to_string())
        .bind(&changed.name)
        .bind(hotdesk_domain::name::fold(&changed.name))
        .bind(&changed.icon_url)
        .bind(&changed.status)
        .bind(i64::from(changed.viewers_read_files))
        .bind(changed.updated_at.as_i64())
        .bind(changed.isolation.map(Isolation::name))
        .execute(&mut *write.tx)
        .await;
        match (updated, &change.name) {
            (Err(error), Some(name)) if is_duplicate(&error) => return Err(name_taken(name)),
            (other, _) => other.map_err(failed("change a workspace"))?,
        };
        write.note(RecordChange::Workspace(workspace));
        write.commit().await?;
        Ok(changed)
    }

    /// Removes a workspace without computers, with its file records and keys. Returns the ids of those files.
    ///
    /// # Errors
    /// `Conflict` when it still has computers; `Unavailable` or `Internal` when the store fails. Nothing is
    /// changed then.
    pub async fn remove_workspace(&self, workspace: WorkspaceId) -> Result<Vec<FileId>> {
        let mut write = self.write().await?;
        let keys = write.keys_to(workspace).await?;
        let files = write.remove_workspace(workspace).await?;
        write.commit().await?;
        keys.iter().for_each(|key| self.credentials.revoke(key));
        Ok(files)
    }
}

impl Write {
    /// Stores a workspace without a quota check.
    pub(crate) async fn add_workspace(
        &mut self,
        account: AccountId,
        name: &Name,
        icon_url: Option<&str>,
        status: &str,
    ) -> Result<Workspace> {
        let (fresh, now) = (WorkspaceId::random(), clock::now());
        let inserted = sqlx::query(
            "INSERT INTO workspaces (id, account_id, name, name_folded, icon_url, status, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7)",
        )
        .bind(fresh.to_string())
        .bind(account.to_string())
        .bind(name.as_str())
        .bind(name.folded())
        .bind(icon_url)
        .bind(status)
        .bind(now.as_i64())
        .execute(&mut *self.tx)
        .await;
        match inserted {
            Err(error) if is_duplicate(&error) => return Err(name_taken(name)),
            other => other.map_err(failed("store a workspace"))?,
        };
        Ok(Workspace {
            id: fresh,
            account,
            name: name.as_str().to_owned(),
            icon_url: icon_url.map(str::to_owned),
            status: status.to_owned(),
            viewers_read_files: false,
            isolation: None,
            created_at: now,
            updated_at: now,
        })
    }

    /// Returns the case-folded names of an account's workspaces.
    pub(crate) async fn workspace_names(&mut self, account: AccountId) -> Result<HashSet<String>> {
        let names: Vec<(String,)> =
            sqlx::query_as("SELECT name_folded FROM workspaces WHERE account_id = $1")
                .bind(account.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("list workspaces' names"))?;
        Ok(names.into_iter().map(|(name,)| name).collect())
    }

    /// See [`Store::remove_workspace`].
    pub(crate) async fn remove_workspace(&mut self, workspace: WorkspaceId) -> Result<Vec<FileId>> {
        let (computers,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM computers WHERE workspace_id = $1")
            .bind(workspace.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("count computers"))?;
        if computers > 0 {
            return Err(Error::conflict("The workspace still holds computers"));
        }
        let files: Vec<(String,)> = sqlx::query_as("SELECT id FROM files WHERE workspace_id = $1")
            .bind(workspace.to_string())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list files"))?;
        for step in ["DELETE FROM files WHERE workspace_id = $1", "DELETE FROM workspaces WHERE id = $1"] {
            let removed = sqlx::query(step).bind(workspace.to_string()).execute(&mut *self.tx).await;
            removed.map_err(failed("remove a workspace"))?;
        }
        self.remove_unused_workspace_keys().await?;
        files.iter().map(|(text,)| id(text)).collect()
    }
}
