//! Members of workspaces and their roles. The owner has no row.

use crate::fleet::changes::RecordChange;
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId, GrantId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Credential, Role};

/// Membership of an account in a workspace of another account; the key of leases on its requests there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The account.
    pub account: AccountId,
}

/// A member of a workspace, or its owner.
#[derive(Clone, Debug)]
pub struct Member {
    /// The account.
    pub account: AccountId,
    /// Its role.
    pub role: Role,
    /// E-mail address that it signs in with.
    pub email: String,
    /// Whether a link that was mailed to the address was opened.
    pub email_verified: bool,
    /// Its name.
    pub full_name: String,
    /// Start of the membership.
    pub created_at: UnixMillis,
}

row! {
    struct Row {
        id: String,
        role: String,
        email: String,
        email_verified_at: Option<i64>,
        full_name: String,
        created_at: i64,
    }
}

impl TryFrom<Row> for Member {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            account: id(&row.id)?,
            role: role(&row.role)?,
            email: row.email,
            email_verified: row.email_verified_at.is_some(),
            full_name: row.full_name,
            created_at: UnixMillis::new(row.created_at),
        })
    }
}

impl Store {
    /// Returns an account's role in a workspace that it does not own, or `None`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
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

    /// Makes an account a member of a workspace, or changes its role.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_member(&self, workspace: WorkspaceId, account: AccountId, role: Role) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO members (workspace_id, account_id, role, created_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (workspace_id, account_id) DO UPDATE SET role = excluded.role",
        )
        .bind(workspace.to_string())
        .bind(account.to_string())
        .bind(role.name())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a member"))?;
        write.note(RecordChange::Account(account));
        write.commit().await
    }

    /// Changes a member's role. Without the right to invite, the member's invitations are removed. A member
    /// who becomes a viewer loses access to passwords, and its running requests end. Returns the computers
    /// whose stream must end; `None` when there is no such member.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
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
        self.commit_access_loss(write, Membership { workspace, account }).await.map(Some)
    }

    /// Removes a member with its keys, MCP connections and invitations in this workspace, and changes the
    /// passwords that it knows. Requests of the member and of those clients end. Returns the computers whose
    /// stream must end, or `None` when there is no such member.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_member(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
    ) -> Result<Option<Vec<ComputerId>>> {
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
        write.note(RecordChange::Account(account));
        let grants = write.grants_of(workspace, account).await?;
        write.of_member(workspace, account, &[INVITATIONS_BY, KEYS_OF, GRANTS_OF]).await?;
        let streams = self.commit_access_loss(write, Membership { workspace, account }).await?;
        grants.iter().for_each(|grant| self.credentials.revoke(&Credential::Grant(*grant)));
        Ok(Some(streams))
    }

    /// Commits a loss of access: ends streams and changes passwords in the workspace, and revokes the
    /// member's leases. Tickets of viewers end with the passwords. Returns the computers whose stream must
    /// end.
    async fn commit_access_loss(&self, mut write: Write, lost: Membership) -> Result<Vec<ComputerId>> {
        let streams = write.end_unauthorized_streams(lost.workspace).await?;
        let before = write.change_passwords(lost.workspace).await?;
        write.commit().await?;
        self.end_password_sessions(&before);
        self.memberships.revoke(&lost);
        Ok(streams)
    }

    /// Returns the owner, then the members, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn members(&self, workspace: WorkspaceId) -> Result<Vec<Member>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT a.id AS id, 'owner' AS role, a.email, a.email_verified_at, a.full_name, w.created_at AS created_at, 0 AS place \
             FROM workspaces w JOIN accounts a ON a.id = w.account_id WHERE w.id = $1 \
             UNION ALL SELECT a.id, m.role, a.email, a.email_verified_at, a.full_name, m.created_at, 1 \
             FROM members m JOIN accounts a ON a.id = m.account_id WHERE m.workspace_id = $1 \
             ORDER BY place, created_at, id",
        )
        .bind(workspace.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list members"))?;
        rows.into_iter().map(Member::try_from).collect()
    }

    /// Returns the number of members, the owner included.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
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
    /// Returns the grants by which an account let MCP clients into a workspace, unused codes included.
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

    /// Returns an account's role as this transaction sees it.
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

    /// Runs statements with a workspace and a member as parameters.
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
                .map_err(failed("remove what a member granted"))?;
        }
        Ok(())
    }
}

/// Parses a role that this store wrote.
pub(crate) fn role(name: &str) -> Result<Role> {
    Role::from_name(name).ok_or_else(|| Error::internal(format!("the store holds a bad role: {name:?}")))
}
