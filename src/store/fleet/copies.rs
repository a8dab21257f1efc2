//! How does a computer's row come from another's, and how does it change its workspace? Names and quotas are checked in
//! the same transaction (threats.md T23).

use std::collections::HashSet;

use super::computers::{Computer, NewComputer, name_taken};
use super::snapshots::Kept;
use super::{Store, Write, failed, is_duplicate};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{ComputerId, SnapshotId, WorkspaceId};
use hotdesk_domain::access::Role;
use hotdesk_domain::clone::free_name;
use hotdesk_domain::error::Result;
use hotdesk_domain::name::Name;
use hotdesk_domain::plan::Plans;

/// What is copied of a computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its disk.
    Clone,
    /// Its disk and its memory, as they are now or were in a snapshot.
    Fork(Option<SnapshotId>),
}

impl Extent {
    /// The snapshot that it is of, if it is not of the computer as it is.
    pub fn snapshot(self) -> Option<SnapshotId> {
        match self {
            Self::Clone => None,
            Self::Fork(snapshot) => snapshot,
        }
    }
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
    /// What plans give: the owner's is looked up in the same transaction.
    pub plans: Plans,
}

impl Store {
    /// Stores a copy with the intent to make it (status `creating`): the source's size and resolution, always-on, with
    /// ids and secrets of its own. What was delivered to the source is on its disk, so it counts as delivered. Of a
    /// snapshot all of this is as it was then, and the token that its memory knows is stored with the row.
    ///
    /// # Errors
    /// As [`Store::add_computer`]; `NotFound` when the source or the snapshot is gone, `Conflict` when that is not ready.
    pub async fn add_copy(&self, copy: &NewCopy) -> Result<Computer> {
        let mut write = self.write().await?;
        let source = write.computer(copy.source).await?;
        // A copy is no way around what its source may not do.
        source.billing.check_paid(now_ms())?;
        let kept = match copy.extent.snapshot() {
            Some(snapshot) => Some(write.kept(&source, snapshot).await?),
            None => None,
        };
        let workspace = copy.workspace.unwrap_or(source.workspace);
        let name = match &copy.name {
            Some(name) => name.clone(),
            None => {
                let taken = write.names(workspace).await?;
                let kind = match copy.extent {
                    Extent::Clone => "clone",
                    Extent::Fork(_) => "fork",
                };
                free_name(&source.name, kind, |folded| taken.contains(folded))?
            }
        };
        let (hardware, until) = match &kept {
            Some(kept) => (kept.hardware, kept.since),
            // What a resize under way is to lead to: a disk that is larger than its source's is no harm.
            None => (source.wanted.unwrap_or(source.hardware), i64::MAX),
        };
        let plans = copy.plans.clone();
        let new = NewComputer { id: copy.id, workspace, name, hardware, auto_stop_minutes: 0, plans };
        write.add(&new).await?;
        if let Some(Kept { token: Some(token), .. }) = &kept {
            write.memory_knows(copy.id, token).await?;
        }
        sqlx::query(
            "INSERT INTO deliveries (file_id, computer_id, outcome, delivered_at) \
             SELECT file_id, $2, outcome, delivered_at FROM deliveries \
             WHERE computer_id = $1 AND delivered_at <= $3",
        )
        .bind(source.id.to_string())
        .bind(copy.id.to_string())
        .bind(until)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("copy what was delivered"))?;
        // Read before the commit: afterwards nothing may fail, or nobody would own what was reserved.
        let made = write.computer(copy.id).await?;
        write.commit().await?;
        Ok(made)
    }

    /// Gives a computer to another workspace, with the uploads meant for it alone; what was exported from it stays. Where
    /// somebody loses it by that, it gets another password. The computers whose stream is to be ended: it or none.
    ///
    /// # Errors
    /// `NAME_TAKEN` when the workspace has one of that name; `DESKTOP_LIMIT` of a client that it comes to;
    /// `NotFound` when either is gone; or the store fails.
    pub async fn move_computer(
        &self,
        computer: ComputerId,
        workspace: WorkspaceId,
    ) -> Result<Vec<ComputerId>> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        // Whether it is there.
        write.owner(workspace).await?;
        write.check_client(workspace, computer).await?;
        write.put(&row, workspace).await?;
        let lost = write.is_reached_otherwise(row.workspace, workspace).await?;
        let mut streams = Vec::new();
        if lost {
            write.change_password(computer).await?;
            streams = write.stream_of_a_stranger(computer).await?;
        }
        write.meter(computer).await?;
        write.commit().await?;
        if lost {
            self.end_passes(&[row.pass()]);
        }
        Ok(streams)
    }
}

impl Write {
    /// Puts a computer into another workspace, with the uploads meant for it alone; what was exported from it stays.
    ///
    /// # Errors
    /// `NAME_TAKEN` when the workspace has one of that name.
    pub(super) async fn put(&mut self, computer: &Computer, workspace: WorkspaceId) -> Result<()> {
        let moved = sqlx::query("UPDATE computers SET workspace_id = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.id.to_string())
            .bind(workspace.to_string())
            .bind(now_ms())
            .execute(&mut *self.tx)
            .await;
        match moved {
            Err(error) if is_duplicate(&error) => return Err(name_taken(&computer.name)),
            other => other.map_err(failed("move a computer"))?,
        };
        sqlx::query("UPDATE files SET workspace_id = $2 WHERE computer_id = $1 AND source = 'upload'")
            .bind(computer.id.to_string())
            .bind(workspace.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("move a computer's files"))?;
        Ok(())
    }

    /// Whether somebody who works in a workspace does not in another one: a member, or the holder of a key to it alone.
    async fn is_reached_otherwise(&mut self, from: WorkspaceId, to: WorkspaceId) -> Result<bool> {
        let (lost,): (i64,) = sqlx::query_as(
            "SELECT (SELECT COUNT(*) FROM members o WHERE o.workspace_id = $1 AND NOT EXISTS (SELECT 1 FROM members n \
             WHERE n.workspace_id = $2 AND n.account_id = o.account_id AND (n.role <> $3 OR o.role = $3))) \
             + (SELECT COUNT(*) FROM api_keys WHERE workspace_id = $1)",
        )
        .bind(from.to_string())
        .bind(to.to_string())
        .bind(Role::Viewer.name())
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("look for who loses a computer"))?;
        Ok(lost > 0)
    }

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
