//! Which workspaces are there?

use std::collections::HashSet;

use super::{Store, Write, failed, id, is_duplicate};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, FileId, WorkspaceId};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::name::Name;
use hotdesk_domain::plan::Plans;

/// A workspace as it is stored.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Its id.
    pub id: WorkspaceId,
    /// The account that owns it.
    pub account: AccountId,
    /// Its name, unique per account whatever the case.
    pub name: String,
    /// Where its picture is, if it has one.
    pub icon_url: Option<String>,
    /// `active` or `inactive`.
    pub status: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last changed.
    pub updated_at: i64,
}

/// What an update changes; `None` leaves it.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// A new name.
    pub name: Option<Name>,
    /// A new picture; `Some(None)` removes it.
    pub icon_url: Option<Option<String>>,
    /// A new status.
    pub status: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    account_id: String,
    name: String,
    icon_url: Option<String>,
    status: String,
    created_at: i64,
    updated_at: i64,
}

impl TryFrom<Row> for Workspace {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: id(&row.id)?,
            account: id(&row.account_id)?,
            name: row.name,
            icon_url: row.icon_url,
            status: row.status,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// What an account reaches.
const REACHED: &str = "SELECT * FROM workspaces WHERE (account_id = $1 OR id IN \
                       (SELECT workspace_id FROM members WHERE account_id = $1))";

fn name_taken(name: &Name) -> Error {
    // Invalid, not Conflict: wire.md 3 documents 400 for a taken workspace name.
    Error::invalid(format!("A workspace named \"{name}\" already exists")).code("NAME_TAKEN")
}

impl Store {
    /// Makes a workspace of an account that has room for one more.
    ///
    /// # Errors
    /// [`Quota::admit`](hotdesk_domain::quota::Quota::admit)'s; `NAME_TAKEN` when the account has one of that name; or the
    /// store fails.
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

    /// An account's workspaces, its own and those that it is a member of, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn workspaces(&self, account: AccountId) -> Result<Vec<Workspace>> {
        let rows: Vec<Row> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("{REACHED} ORDER BY created_at, id")))
                .bind(account.to_string())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list workspaces"))?;
        rows.into_iter().map(Workspace::try_from).collect()
    }

    /// One workspace.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn workspace(&self, workspace: WorkspaceId) -> Result<Option<Workspace>> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM workspaces WHERE id = $1")
            .bind(workspace.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a workspace"))?;
        row.map(Workspace::try_from).transpose()
    }

    /// A workspace of an account by its name. Its own goes before the oldest that it is a member of: names are each
    /// owner's.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn workspace_named(&self, account: AccountId, folded: &str) -> Result<Option<Workspace>> {
        let select = format!(
            "{REACHED} AND name_folded = $2 ORDER BY CASE WHEN account_id = $1 THEN 0 ELSE 1 END, created_at, id LIMIT 1"
        );
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(account.to_string())
            .bind(folded)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a workspace by name"))?;
        row.map(Workspace::try_from).transpose()
    }

    /// Changes a workspace.
    ///
    /// # Errors
    /// `NAME_TAKEN`; `NotFound` when it is gone; or the store fails.
    pub async fn change_workspace(&self, workspace: WorkspaceId, change: &Change) -> Result<Workspace> {
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
        changed.updated_at = now_ms();
        let updated = sqlx::query(
            "UPDATE workspaces SET name = $2, name_folded = $3, icon_url = $4, status = $5, updated_at = $6 WHERE id = $1",
        )
        .bind(workspace.to_string())
        .bind(&changed.name)
        .bind(hotdesk_domain::name::fold(&changed.name))
        .bind(&changed.icon_url)
        .bind(&changed.status)
        .bind(changed.updated_at)
        .execute(&mut *write.tx)
        .await;
        match (updated, &change.name) {
            (Err(error), Some(name)) if is_duplicate(&error) => return Err(name_taken(name)),
            (other, _) => other.map_err(failed("change a workspace"))?,
        };
        write.commit().await?;
        Ok(changed)
    }

    /// Removes a workspace that holds no computers, with its files' records and its keys; returns the ids of those files.
    ///
    /// # Errors
    /// `Conflict` while it holds computers; or the store fails.
    pub async fn remove_workspace(&self, workspace: WorkspaceId) -> Result<Vec<FileId>> {
        let mut write = self.write().await?;
        let keys = write.keys_to(workspace).await?;
        let files = write.remove_workspace(workspace).await?;
        write.commit().await?;
        keys.iter().for_each(|key| self.live.end(key));
        Ok(files)
    }
}

impl Write {
    /// Stores a workspace, whatever its account has room for.
    pub(super) async fn add_workspace(
        &mut self,
        account: AccountId,
        name: &Name,
        icon_url: Option<&str>,
        status: &str,
    ) -> Result<Workspace> {
        let (fresh, now) = (WorkspaceId::random(), now_ms());
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
        .bind(now)
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
            created_at: now,
            updated_at: now,
        })
    }

    /// The folded names of an account's workspaces.
    pub(super) async fn workspace_names(&mut self, account: AccountId) -> Result<HashSet<String>> {
        let names: Vec<(String,)> =
            sqlx::query_as("SELECT name_folded FROM workspaces WHERE account_id = $1")
                .bind(account.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("list workspaces' names"))?;
        Ok(names.into_iter().map(|(name,)| name).collect())
    }

    /// See [`Store::remove_workspace`].
    pub(super) async fn remove_workspace(&mut self, workspace: WorkspaceId) -> Result<Vec<FileId>> {
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
        files.iter().map(|(text,)| id(text)).collect()
    }
}
