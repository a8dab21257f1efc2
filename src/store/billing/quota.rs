//! What does an account keep beside its computers, and is there room for more? Counted in the transaction that stores it, so
//! that of many at once only as many win as there is room (threats.md T23).
//!
//! What an account owns is counted, never what it reaches: a workspace that it is a member of is its owner's.

use super::{Store, Write, failed, id};
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_domain::error::Result;
use hotdesk_domain::plan::Plans;
use hotdesk_domain::quota::{Files, Kept, Quota};

/// A client's workspace counts as the client.
const WORKSPACES: &str = "SELECT COUNT(*) FROM workspaces w WHERE w.account_id = $1 \
    AND NOT EXISTS (SELECT 1 FROM clients k WHERE k.workspace_id = w.id)";
const CLIENTS: &str = "SELECT COUNT(*) FROM clients WHERE account_id = $1 AND removed_at IS NULL";
const BROUGHT: &str = "SELECT COUNT(*) FROM accounts WHERE brought_by = $1";
/// SUM of BIGINT is NUMERIC in PostgreSQL, hence the cast.
const FILES: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(f.size_bytes), 0) AS BIGINT) FROM files f \
    JOIN workspaces w ON w.id = f.workspace_id WHERE w.account_id = $1";

/// One if a workspace counts as that, and is no client's.
const NO_CLIENT: &str = "SELECT COUNT(*) FROM workspaces w WHERE w.id = $1 \
    AND NOT EXISTS (SELECT 1 FROM clients k WHERE k.workspace_id = w.id)";
const FILES_IN: &str =
    "SELECT COUNT(*), CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM files WHERE workspace_id = $1";

fn files((count, bytes): (i64, i64)) -> Files {
    Files { count: whole(count), bytes: whole(bytes) }
}

fn whole(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

impl Store {
    /// The files that an account's workspaces hold.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stored_files(&self, account: AccountId) -> Result<Files> {
        let row = sqlx::query_as(FILES)
            .bind(account.to_string())
            .fetch_one(&self.pool)
            .await
            .map_err(failed("add up an account's files"))?;
        Ok(files(row))
    }
}

impl Write {
    /// Refuses one more workspace of an account.
    pub(super) async fn check_workspaces(&mut self, account: AccountId, plans: &Plans) -> Result<()> {
        let held = self.count(WORKSPACES, account).await?;
        self.quota(account, plans).await?.admit(Kept::Workspaces, held)
    }

    /// Refuses one more client of an account.
    pub(super) async fn check_clients(&mut self, account: AccountId, plans: &Plans) -> Result<()> {
        let held = self.count(CLIENTS, account).await?;
        self.quota(account, plans).await?.admit(Kept::Clients, held)
    }

    /// Refuses one more invitation into a workspace, but in the place of the one that the address has.
    pub(super) async fn check_people(
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
        quota.admit(Kept::People, whole(people))
    }

    /// Refuses one more file of so many bytes in a workspace.
    pub(super) async fn check_file(
        &mut self,
        workspace: WorkspaceId,
        bytes: u64,
        plans: &Plans,
    ) -> Result<()> {
        let owner = self.owner(workspace).await?;
        let quota = self.quota(owner, plans).await?;
        quota.admit_file(&self.files_of(owner).await?, bytes)
    }

    /// Refuses workspaces that have just come to an account together, when it keeps more with them than its plan gives. Of
    /// what they do not bring it may keep too much: the plan was larger once.
    pub(super) async fn check_come(
        &mut self,
        account: AccountId,
        come: &[WorkspaceId],
        plans: &Plans,
    ) -> Result<()> {
        let quota = self.quota(account, plans).await?;
        let (mut workspaces, mut brought) = (0, Files::default());
        for workspace in come {
            workspaces += self.counts(*workspace).await?;
            let more = self.files_in(*workspace).await?;
            brought = Files { count: brought.count + more.count, bytes: brought.bytes + more.bytes };
        }
        // As if the last of them came now.
        if workspaces > 0 {
            let held = self.count(WORKSPACES, account).await?;
            quota.admit(Kept::Workspaces, held.saturating_sub(1))?;
        }
        if brought.count == 0 {
            return Ok(());
        }
        let held = self.files_of(account).await?;
        let before =
            Files { count: held.count.saturating_sub(1), bytes: held.bytes.saturating_sub(brought.bytes) };
        quota.admit_file(&before, brought.bytes)
    }

    /// Refuses an address for which an account would have to come into being, where none may any more: nobody could take
    /// the invitation.
    pub(super) async fn check_comer(
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
            self.admit_comer(workspace, plans).await?;
        }
        Ok(())
    }

    /// Notes by whom a new account came: the owner of the workspace that it is invited into, or whoever brought that one, so
    /// that a chain of invitations has one bound. Refuses one too many.
    pub(super) async fn bring(
        &mut self,
        fresh: AccountId,
        workspace: WorkspaceId,
        plans: &Plans,
    ) -> Result<()> {
        let first = self.admit_comer(workspace, plans).await?;
        sqlx::query("UPDATE accounts SET brought_by = $2 WHERE id = $1")
            .bind(fresh.to_string())
            .bind(first.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("note by whom an account came"))?;
        Ok(())
    }

    /// Refuses one more account that comes by an invitation into a workspace. Who began the chain of invitations: that is the
    /// owner, too, when whoever brought that one is gone (agents' accounts go).
    async fn admit_comer(&mut self, workspace: WorkspaceId, plans: &Plans) -> Result<AccountId> {
        let owner = self.owner(workspace).await?;
        let (first,): (String,) = sqlx::query_as(
            "SELECT COALESCE((SELECT b.id FROM accounts b WHERE b.id = a.brought_by), a.id) \
             FROM accounts a WHERE a.id = $1",
        )
        .bind(owner.to_string())
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("read by whom an account came"))?;
        let first: AccountId = id(&first)?;
        let held = self.count(BROUGHT, first).await?;
        self.quota(first, plans).await?.admit(Kept::BroughtAccounts, held)?;
        Ok(first)
    }

    async fn count(&mut self, select: &'static str, account: AccountId) -> Result<u64> {
        let (held,): (i64,) = sqlx::query_as(select)
            .bind(account.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("count what an account keeps"))?;
        Ok(whole(held))
    }

    async fn counts(&mut self, workspace: WorkspaceId) -> Result<u64> {
        let (held,): (i64,) = sqlx::query_as(NO_CLIENT)
            .bind(workspace.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("count a workspace"))?;
        Ok(whole(held))
    }

    async fn files_in(&mut self, workspace: WorkspaceId) -> Result<Files> {
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

    async fn files_of(&mut self, account: AccountId) -> Result<Files> {
        let row = sqlx::query_as(FILES)
            .bind(account.to_string())
            .fetch_one(&mut *self.tx)
            .await
            .map_err(failed("add up an account's files"))?;
        Ok(files(row))
    }
}
