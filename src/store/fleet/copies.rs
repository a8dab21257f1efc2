//! Clones, forks and moves of computers. Names and quotas are checked in the same transaction (T23,
//! docs/security.md).

use std::collections::HashSet;

use crate::fleet::computers::{Computer, NewComputer, name_taken};
use crate::fleet::snapshots::LaunchState;
use crate::{Store, Write, failed, is_duplicate};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, SnapshotId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::clone::free_name;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Role;
use hotdesk_domain::name::Name;
use hotdesk_domain::secret::LaunchSecrets;

/// Scope of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The disk.
    Clone,
    /// The disk and the memory, now or in a snapshot.
    Fork(Option<SnapshotId>),
}

impl Extent {
    /// Returns the snapshot that is copied, or `None` for the computer's current state.
    pub fn snapshot(self) -> Option<SnapshotId> {
        match self {
            Self::Clone => None,
            Self::Fork(snapshot) => snapshot,
        }
    }
}

/// Record of a new clone or fork.
#[derive(Clone, Debug)]
pub struct NewCopy {
    /// Its id.
    pub id: ComputerId,
    /// The source computer.
    pub source: ComputerId,
    /// Scope of the copy.
    pub extent: Extent,
    /// Its workspace; `None` is the source's.
    pub workspace: Option<WorkspaceId>,
    /// Its name; `None` derives one from the source's.
    pub name: Option<Name>,
    /// Whether its files on the host are encrypted with the key of its workspace.
    pub encrypt: bool,
    /// Whether it may have the secrets of the account, if its source has.
    pub account_secrets: bool,
    /// Limits of all plans; the owner's plan is read in the same transaction.
    pub plans: Plans,
}

impl Store {
    /// Stores a copy with status `creating`: size, isolation and resolution of the source, never suspended, with new ids
    /// and secrets. Files delivered to the source count as delivered, because they are on its disk. For a
    /// copy of a snapshot, the state at the snapshot's time counts, and the token in its memory is stored
    /// with the row.
    ///
    /// # Errors
    /// Those of [`Store::add_computer`]; `NotFound` when the source or the snapshot does not exist;
    /// `Conflict` when the snapshot is not ready. Nothing is stored then.
    pub async fn add_copy(&self, copy: &NewCopy) -> Result<Computer> {
        let mut write = self.write().await?;
        let source = write.computer(copy.source).await?;
        // A copy must not bypass the limits of its source.
        source.billing.check_paid(clock::now())?;
        let kept = match copy.extent.snapshot() {
            Some(snapshot) => Some(write.launch_state(&source, snapshot).await?),
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
            // The target of a resize in progress: a disk larger than the source's is harmless.
            None => (source.wanted.unwrap_or(source.hardware), UnixMillis::MAX),
        };
        let plans = copy.plans.clone();
        let new = NewComputer {
            id: copy.id,
            workspace,
            name,
            hardware,
            isolation: source.isolation,
            template: source.template.clone(),
            secrets: LaunchSecrets {
                account: source.secrets.account && copy.account_secrets,
                ..source.secrets.clone()
            },
            layers: source.layers.clone(),
            egress: source.egress.clone(),
            ports: source.ports.clone(),
            terminals: source.terminals.clone(),
            auto_stop_minutes: 0,
            replicate_minutes: 0,
            expires_at: None,
            deliver_files: false,
            encrypt: copy.encrypt,
            plans,
        };
        write.add(&new).await?;
        if let Some(LaunchState { token: Some(token), .. }) = &kept {
            write.set_saved_token(copy.id, token).await?;
        }
        sqlx::query(
            "INSERT INTO deliveries (file_id, computer_id, outcome, delivered_at) \
             SELECT file_id, $2, outcome, delivered_at FROM deliveries \
             WHERE computer_id = $1 AND delivered_at <= $3 AND outcome <> 'pending'",
        )
        .bind(source.id.to_string())
        .bind(copy.id.to_string())
        .bind(until.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("copy deliveries"))?;
        // Read before the commit: a failure afterwards would leave a reservation without an owner.
        let made = write.computer(copy.id).await?;
        write.commit().await?;
        Ok(made)
    }

    /// Moves a computer to another workspace, with the uploads meant for it alone; its exports stay. Without
    /// `account_secrets` it loses the secrets of the account at its next boot. When an account loses access, the computer gets a new password. Returns the computer if its stream must end,
    /// else nothing.
    ///
    /// # Errors
    /// `Conflict` (`NAME_TAKEN`) when the workspace has a computer of that name; `Forbidden`
    /// (`DESKTOP_LIMIT`) at the limit of the target's client; `NotFound` when the computer or the workspace
    /// does not exist; `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn move_computer(
        &self,
        computer: ComputerId,
        workspace: WorkspaceId,
        account_secrets: bool,
    ) -> Result<Vec<ComputerId>> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        // Fails when the workspace does not exist.
        write.owner(workspace).await?;
        write.check_client(workspace, computer).await?;
        write.move_to_workspace(&row, workspace).await?;
        if !account_secrets {
            write.withhold_account_secrets(computer).await?;
        }
        let lost = write.loses_users(row.workspace, workspace).await?;
        let mut streams = Vec::new();
        if lost {
            write.change_password(computer).await?;
            streams = write.end_unauthorized_stream(computer).await?;
        }
        write.meter(computer).await?;
        write.commit().await?;
        if lost {
            self.end_password_sessions(&[row.password_digest()]);
        }
        Ok(streams)
    }
}

impl Write {
    /// Moves a computer to another workspace, with the uploads meant for it alone; its exports stay.
    ///
    /// # Errors
    /// `Conflict` (`NAME_TAKEN`) when the workspace has a computer of that name.
    pub(crate) async fn move_to_workspace(
        &mut self,
        computer: &Computer,
        workspace: WorkspaceId,
    ) -> Result<()> {
        let moved = sqlx::query("UPDATE computers SET workspace_id = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.id.to_string())
            .bind(workspace.to_string())
            .bind(clock::now().as_i64())
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

    /// Withholds the secrets of the account from a computer.
    async fn withhold_account_secrets(&mut self, computer: ComputerId) -> Result<()> {
        sqlx::query("UPDATE computers SET account_secrets = 0 WHERE id = $1")
            .bind(computer.to_string())
            .execute(&mut *self.tx)
            .await
            .map(drop)
            .map_err(failed("withhold the secrets of an account"))
    }

    /// Whether a member, or the owner of a key, of one workspace has no access to another one.
    async fn loses_users(&mut self, from: WorkspaceId, to: WorkspaceId) -> Result<bool> {
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
        .map_err(failed("look for members who lose a computer"))?;
        Ok(lost > 0)
    }

    /// Returns the case-folded names of a workspace's computers.
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
