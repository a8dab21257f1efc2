//! What is an account in a workspace? Its owner, or what a row says.

use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId, GrantId, WorkspaceId};
use hotdesk_domain::access::{Credential, Role};
use hotdesk_domain::error::{Error, Result};

/// That an account belongs to a workspace of another: what its requests there go on under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Belonging {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The account.
    pub account: AccountId,
}

/// One who belongs to a workspace.
#[derive(Clone, Debug)]
pub struct Member {
    /// The account.
    pub account: AccountId,
    /// What it is there.
    pub role: Role,
    /// The address that it signs in with.
    pub email: String,
    /// What it is called.
    pub full_name: String,
    /// Since when.
    pub created_at: i64,
}

/// What ends with somebody's belonging to a workspace, and is still to be told.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The computers whose stream is to be ended.
    pub streams: Vec<ComputerId>,
    /// The connections of MCP clients that are gone.
    pub grants: Vec<GrantId>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    role: String,
    email: String,
    full_name: String,
    created_at: i64,
}

impl TryFrom<Row> for Member {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            account: id(&row.id)?,
            role: role(&row.role)?,
            email: row.email,
            full_name: row.full_name,
            created_at: row.created_at,
        })
    }
}

impl Store {
    /// What an account is in a workspace that it does not own.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn membership(&self, workspace: WorkspaceId, account: AccountId) -> Result<Option<Role>> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT role FROM members WHERE workspace_id = $1 AND account_id = $2")
                .bind(workspace.to_string())
                .bind(account.to_string())
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("read a membership"))?;
        row.map(|(name,)| role(&name)).transpose()
    }

    /// Makes an account a member of a workspace, or changes what it is there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_member(&self, workspace: WorkspaceId, account: AccountId, role: Role) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO members (workspace_id, account_id, role, created_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (workspace_id, account_id) DO UPDATE SET role = excluded.role",
        )
        .bind(workspace.to_string())
        .bind(account.to_string())
        .bind(role.name())
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a member"))?;
        write.commit().await
    }

    /// Changes what a member is; whoever may not invite any more takes their invitations along, and whoever only looks from
    /// now on knows no password any more, and what they have under way there ends. The computers whose stream is to be ended; `None` when there is no such member.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn change_member(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        role: Role,
    ) -> Result<Option<Vec<ComputerId>>> {
        let mut write = self.write().await?;
        let Some(before) = write.role_of(workspace, account).await? else { return Ok(None) };
        sqlx::query("UPDATE members SET role = $3 WHERE workspace_id = $1 AND account_id = $2")
            .bind(workspace.to_string())
            .bind(account.to_string())
            .bind(role.name())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("change a member"))?;
        if role < Role::Admin {
            write.of_member(workspace, account, &[INVITATIONS_BY]).await?;
        }
        if role > Role::Viewer || before == Role::Viewer {
            write.commit().await?;
            return Ok(Some(Vec::new()));
        }
        self.lose(write, Belonging { workspace, account }).await.map(Some)
    }

    /// Takes a member out of a workspace, with their keys to it, the MCP clients that they let into it, their invitations and
    /// the passwords that they know; what they and those clients have under way there ends. `None` when there is no such
    /// member.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove_member(&self, workspace: WorkspaceId, account: AccountId) -> Result<Option<Removed>> {
        let mut write = self.write().await?;
        if write.role_of(workspace, account).await?.is_none() {
            return Ok(None);
        }
        sqlx::query("DELETE FROM members WHERE workspace_id = $1 AND account_id = $2")
            .bind(workspace.to_string())
            .bind(account.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a member"))?;
        let grants = write.grants_of(workspace, account).await?;
        write.of_member(workspace, account, &[INVITATIONS_BY, KEYS_OF, GRANTS_OF]).await?;
        let streams = self.lose(write, Belonging { workspace, account }).await?;
        grants.iter().for_each(|grant| self.live.end(&Credential::Grant(*grant)));
        Ok(Some(Removed { streams, grants }))
    }

    /// Commits that somebody lost what they could do in a workspace, and ends what is open there by the passwords, and by the
    /// tickets that a viewer has too, and what they have under way. The computers whose stream is to be ended.
    async fn lose(&self, mut write: Write, lost: Belonging) -> Result<Vec<ComputerId>> {
        let streams = write.streams_of_strangers(lost.workspace).await?;
        let before = write.change_passwords(lost.workspace).await?;
        write.commit().await?;
        self.end_passes(&before);
        self.belonging.end(&lost);
        Ok(streams)
    }

    /// Who belongs to a workspace, the owner first, then by age.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn members(&self, workspace: WorkspaceId) -> Result<Vec<Member>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT a.id AS id, 'owner' AS role, a.email, a.full_name, w.created_at AS created_at, 0 AS place \
             FROM workspaces w JOIN accounts a ON a.id = w.account_id WHERE w.id = $1 \
             UNION ALL SELECT a.id, m.role, a.email, a.full_name, m.created_at, 1 \
             FROM members m JOIN accounts a ON a.id = m.account_id WHERE m.workspace_id = $1 \
             ORDER BY place, created_at, id",
        )
        .bind(workspace.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list members"))?;
        rows.into_iter().map(Member::try_from).collect()
    }

    /// How many belong to a workspace, its owner included.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn member_count(&self, workspace: WorkspaceId) -> Result<u32> {
        let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM members WHERE workspace_id = $1")
            .bind(workspace.to_string())
            .fetch_one(&self.pool)
            .await
            .map_err(failed("count members"))?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1))
    }
}

const INVITATIONS_BY: &str = "DELETE FROM invitations WHERE workspace_id = $1 AND invited_by = $2";
const KEYS_OF: &str = "DELETE FROM api_keys WHERE workspace_id = $1 AND account_id = $2";
const GRANTS_OF: &str = "DELETE FROM oauth_grants WHERE workspace_id = $1 AND account_id = $2";

impl Write {
    /// What an account let MCP clients into a workspace by, codes that were not used yet among it.
    async fn grants_of(&mut self, workspace: WorkspaceId, account: AccountId) -> Result<Vec<GrantId>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT id FROM oauth_grants WHERE workspace_id = $1 AND account_id = $2")
                .bind(workspace.to_string())
                .bind(account.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("list a member's connections"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// What an account is in a workspace that it does not own, as this write sees it.
    async fn role_of(&mut self, workspace: WorkspaceId, account: AccountId) -> Result<Option<Role>> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT role FROM members WHERE workspace_id = $1 AND account_id = $2")
                .bind(workspace.to_string())
                .bind(account.to_string())
                .fetch_optional(&mut *self.tx)
                .await
                .map_err(failed("read a membership"))?;
        row.map(|(name,)| role(&name)).transpose()
    }

    /// Runs statements about a workspace and a member of it.
    async fn of_member(
        &mut self,
        workspace: WorkspaceId,
        account: AccountId,
        statements: &[&'static str],
    ) -> Result<()> {
        for statement in statements {
            sqlx::query(*statement)
                .bind(workspace.to_string())
                .bind(account.to_string())
                .execute(&mut *self.tx)
                .await
                .map_err(failed("take back what a member gave"))?;
        }
        Ok(())
    }
}

/// Reads a role that this store wrote.
pub(super) fn role(name: &str) -> Result<Role> {
    Role::named(name).ok_or_else(|| Error::internal(format!("the store holds a bad role: {name:?}")))
}
