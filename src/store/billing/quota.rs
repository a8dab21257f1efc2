//! Quotas of workspaces, clients, members and files. They are counted in the transaction that stores the
//! object, so that concurrent requests cannot exceed them (T23, docs/security.md).
//!
//! Quotas count what an account owns: a workspace that it is a member of counts for its owner.

use crate::{Store, Write, failed, id};
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::billing::quota::{CountedResource, Quota, StoredFiles};
use hotdesk_domain::error::Result;

/// A client's workspace counts as the client.
const WORKSPACES: &str = "SELECT COUNT(*) FROM workspaces w WHERE w.account_id = $1 \
    AND NOT EXISTS (SELECT 1 FROM clients k WHERE k.workspace_id = w.id)";
const CLIENTS: &str = "SELECT COUNT(*) FROM clients WHERE account_id = $1 AND removed_at IS NULL";
const BROUGHT: &str = "SELECT COUNT(*) FROM accounts WHERE brought_by = $1";
/// SUM of BIGINT is NUMERIC in PostgreSQL, hence the cast.
const FILES: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(f.size_bytes), 0) AS BIGINT) FROM files f \
    JOIN workspaces w ON w.id = f.workspace_id WHERE w.account_id = $1";

/// One if the workspace counts as a workspace and is no client's.
const NO_CLIENT: &str = "SELECT COUNT(*) FROM workspaces w WHERE w.id = $1 \
    AND NOT EXISTS (SELECT 1 FROM clients k WHERE k.workspace_id = w.id)";
const FILES_IN: &str =
    "SELECT COUNT(*), CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM files WHERE workspace_id = $1";

fn files((count, bytes): (i64, i64)) -> StoredFiles {
    StoredFiles { count: whole(count), bytes: whole(bytes) }
}

fn whole(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

impl Store {
    /// Returns number and bytes of the files in an account's workspaces.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn stored_files(&self, account: AccountId) -> Result<StoredFiles> {
        let row = sqlx::query_as(FILES)
            .bind(account.to_string())
            .fetch_one(&self.pool)
            .await
            .map_err(failed("add up an account's files"))?;
        Ok(files(row))
    }
}

impl Write {
    /// Refuses one more workspace beyond an account's quota.
    pub(crate) async fn check_workspaces(&mut self, account: AccountId, plans: &Plans) -> Result<()> {
        let held = self.count(WORKSPACES, account).await?;
        self.quota(account, plans).await?.admit(CountedResource::Workspaces, held)
    }

    /// Refuses one more client beyond an account's quota.
    pub(crate) async fn check_clients(&mut self, account: AccountId, plans: &Plans) -> Result<()> {
        let held = self.count(CLIENTS, account).await?;
        self.quota(account, plans).await?.admit(CountedResource::Clients, held)
    }

    /// Refuses one more invitation beyond a workspace's quota; replacing the address's own invitation is
    /// possible.
    pub(crate) async fn check_people(
        &mut self,
        workspace: WorkspaceId,
        but: &str,
        plans: &Plans,
    ) -> Result<()> {
        let owner = self.owner(workspace).await?;
        let quota = self.quota(owner, plans).await?;
        let (people,): (i64,) = sqlx::query_as(
            "SELECT (SELECT COUNT(*) FROM members WHERE workspace_id = $1) \
             + (SELECT COUNT(*) FROM invitations WHERE workspace_id = $1 AND email <> $2)",
        )
        .bind(workspace.to_string())
        .bind(but)
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count members"))?;
        quota.admit(CountedResource::People, whole(people))
    }

    /// Refuses one more file of this size in bytes beyond a workspace's quota.
    pub(crate) async fn check_file(
        &mut self,
        workspace: WorkspaceId,
        bytes: u64,
        plans: &Plans,
    ) -> Result<()> {
        let owner = self.owner(workspace).await?;
        let quota = self.quota(owner, plans).await?;
        quota.admit_file(&self.files_of(owner).await?, bytes)
    }

    /// Refuses transferred workspaces if the account exceeds its quota with them. A kind of object that they
    /// do not contain may exceed the quota: the plan may have been larger once.
    pub(crate) async fn check_transferred_workspaces(
        &mut self,
        account: AccountId,
        transferred: &[WorkspaceId],
        plans: &Plans,
    ) -> Result<()> {
        let quota = self.quota(account, plans).await?;
        let (mut workspaces, mut brought) = (0, StoredFiles::default());
        for workspace in transferred {
            workspaces += self.workspace_count(*workspace).await?;
            let more = self.files_in(*workspace).await?;
            brought = StoredFiles { count: brought.count + more.count, bytes: brought.bytes + more.bytes };
        }
        // Checked as if the last workspace were added now.
        if workspaces > 0 {
            let held = self.count(WORKSPACES, account).await?;
            quota.admit(CountedResource::Workspaces, held.saturating_sub(1))?;
        }
        if brought.count == 0 {
            return Ok(());
        }
        let held = self.files_of(account).await?;
        let before = StoredFiles {
            count: held.count.saturating_sub(1),
            bytes: held.bytes.saturating_sub(brought.bytes),
        };
        quota.admit_file(&before, brought.bytes)
    }

    /// Refuses an address without an account when no more accounts may be created by invitation, because the
    /// invitation could not be accepted.
    pub(crate) async fn check_invitee(
        &mut self,
        email: &str,
        workspace: WorkspaceId,
        plans: &Plans,
    ) -> Result<()> {
        let (known,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM accounts WHERE email = $1")
            .bind(email)
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("look for an account"))?;
        if known == 0 {
            self.admit_invited_account(workspace, plans).await?;
        }
        Ok(())
    }

    /// Stores the account that a new account was invited by: the workspace's owner, or the account at the
    /// start of its chain of invitations, so that the chain has one bound. Refuses one more account beyond
    /// the bound.
    pub(crate) async fn record_inviter(
        &mut self,
        fresh: AccountId,
        workspace: WorkspaceId,
        plans: &Plans,
    ) -> Result<()> {
        let first = self.admit_invited_account(workspace, plans).await?;
        sqlx::query("UPDATE accounts SET brought_by = $2 WHERE id = $1")
            .bind(fresh.to_string())
            .bind(first.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("store an account's inviter"))?;
        Ok(())
    }

    /// Refuses one more account by an invitation into a workspace. Returns the account at the start of the
    /// chain of invitations; the owner itself if that account was removed, as agents' accounts are.
    async fn admit_invited_account(&mut self, workspace: WorkspaceId, plans: &Plans) -> Result<AccountId> {
        let owner = self.owner(workspace).await?;
        let (first,): (String,) = sqlx::query_as(
            "SELECT COALESCE((SELECT b.id FROM accounts b WHERE b.id = a.brought_by), a.id) \
             FROM accounts a WHERE a.id = $1",
        )
        .bind(owner.to_string())
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("read an account's inviter"))?;
        let first: AccountId = id(&first)?;
        let held = self.count(BROUGHT, first).await?;
        self.quota(first, plans).await?.admit(CountedResource::BroughtAccounts, held)?;
        Ok(first)
    }

    async fn count(&mut self, select: &'static str, account: AccountId) -> Result<u64> {
        let (held,): (i64,) = sqlx::query_as(select)
            .bind(account.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("count an account's objects"))?;
        Ok(whole(held))
    }

    async fn workspace_count(&mut self, workspace: WorkspaceId) -> Result<u64> {
        let (held,): (i64,) = sqlx::query_as(NO_CLIENT)
            .bind(workspace.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("count a workspace"))?;
        Ok(whole(held))
    }

    async fn files_in(&mut self, workspace: WorkspaceId) -> Result<StoredFiles> {
        let row = sqlx::query_as(FILES_IN)
            .bind(workspace.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("add up a workspace's files"))?;
        Ok(files(row))
    }

    async fn quota(&mut self, account: AccountId, plans: &Plans) -> Result<Quota> {
        Ok(plans.terms(&self.standing(account).await?)?.plan.quota)
    }

    async fn files_of(&mut self, account: AccountId) -> Result<StoredFiles> {
        let row = sqlx::query_as(FILES)
            .bind(account.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("add up an account's files"))?;
        Ok(files(row))
    }
}
