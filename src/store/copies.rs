//! How does a computer's row come from another's, and how does it change its workspace? Names and quotas are checked in
//! the same transaction (threats.md T23).

use std::collections::HashSet;

use super::computers::{Computer, NewComputer, name_taken};
use super::{Store, Write, failed, is_duplicate};
use crate::base::clock::now_ms;
use crate::base::ids::{ComputerId, ComputerRef, WorkspaceId};
use crate::domain::allowance::Allowance;
use crate::domain::clone::free_name;
use crate::domain::error::{Error, Result};
use crate::domain::name::Name;

/// What is copied of a computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its disk.
    Clone,
    /// Its disk and its memory.
    Fork,
}

/// What a clone or a fork stores.
#[derive(Clone, Debug)]
pub struct NewCopy {
    /// Its id.
    pub id: ComputerId,
    /// The computer that it is a copy of.
    pub source: ComputerId,
    /// What is copied.
    pub extent: Extent,
    /// The workspace that will hold it; `None` is the source's.
    pub workspace: Option<WorkspaceId>,
    /// Its name; `None` makes one of the source's.
    pub name: Option<Name>,
    /// What the owner may have.
    pub allowance: Allowance,
}

impl Store {
    /// Stores a copy with the intent to make it (status `creating`): the source's size and resolution, always-on, with
    /// ids and secrets of its own. What was delivered to the source is on its disk, so it counts as delivered.
    ///
    /// # Errors
    /// As [`Store::add_computer`]; `NotFound` when the source is gone.
    pub async fn add_copy(&self, copy: &NewCopy) -> Result<Computer> {
        let mut write = self.write().await?;
        let source = write.computer(copy.source).await?;
        let workspace = copy.workspace.unwrap_or(source.workspace);
        let name = match &copy.name {
            Some(name) => name.clone(),
            None => {
                let taken = write.names(workspace).await?;
                let kind = match copy.extent {
                    Extent::Clone => "clone",
                    Extent::Fork => "fork",
                };
                free_name(&source.name, kind, |folded| taken.contains(folded))?
            }
        };
        let new = NewComputer {
            id: copy.id,
            workspace,
            name,
            // What a resize under way is to lead to: a disk that is larger than its source's is no harm.
            hardware: source.wanted.unwrap_or(source.hardware),
            auto_stop_minutes: 0,
            allowance: copy.allowance,
        };
        write.add(&new).await?;
        sqlx::query(
            "INSERT INTO deliveries (file_id, computer_id, outcome, delivered_at) \
             SELECT file_id, $2, outcome, delivered_at FROM deliveries WHERE computer_id = $1",
        )
        .bind(source.id.to_string())
        .bind(copy.id.to_string())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("copy what was delivered"))?;
        write.commit().await?;
        self.computer(&ComputerRef::Id(copy.id))
            .await?
            .ok_or_else(|| Error::internal("the new clone is not there"))
    }

    /// Gives a computer to another workspace, with the uploads meant for it alone; what was exported from it stays.
    ///
    /// # Errors
    /// `NAME_TAKEN` when the workspace has one of that name; `NotFound` when either is gone; or the store fails.
    pub async fn move_computer(&self, computer: ComputerId, workspace: WorkspaceId) -> Result<()> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        write.check_workspace(workspace).await?;
        let moved = sqlx::query("UPDATE computers SET workspace_id = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(workspace.to_string())
            .bind(now_ms())
            .execute(&mut *write.tx)
            .await;
        match moved {
            Err(error) if is_duplicate(&error) => return Err(name_taken(&row.name)),
            other => other.map_err(failed("move a computer"))?,
        };
        sqlx::query("UPDATE files SET workspace_id = $2 WHERE computer_id = $1 AND source = 'upload'")
            .bind(computer.to_string())
            .bind(workspace.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("move a computer's files"))?;
        write.commit().await
    }
}

impl Write {
    /// The folded names of a workspace's computers.
    async fn names(&mut self, workspace: WorkspaceId) -> Result<HashSet<String>> {
        let names: Vec<(String,)> =
            sqlx::query_as("SELECT name_folded FROM computers WHERE workspace_id = $1")
                .bind(workspace.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("list computers' names"))?;
        Ok(names.into_iter().map(|(name,)| name).collect())
    }
}
