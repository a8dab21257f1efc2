//! Who is asked into a workspace? An address and a role; of the link only its token's SHA-256.

use super::members::role;
use super::people::Account;
use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_domain::access::Role;
use hotdesk_domain::email::Email;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::plan::Plans;

/// An invitation as it is stored.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Into which workspace.
    pub workspace: WorkspaceId,
    /// That workspace's name.
    pub workspace_name: String,
    /// Who is invited.
    pub email: String,
    /// What they become.
    pub role: Role,
    /// The address of who invites.
    pub inviter: String,
    /// When it was made.
    pub created_at: i64,
    /// When it is worth nothing any more.
    pub expires_at: i64,
}

/// What an invitation stores.
#[derive(Clone, Debug)]
pub struct NewInvitation<'a> {
    /// Into which workspace.
    pub workspace: WorkspaceId,
    /// Who is invited.
    pub email: &'a Email,
    /// What they become.
    pub role: Role,
    /// Who invites.
    pub inviter: AccountId,
    /// SHA-256 of the link's token, hex.
    pub digest: &'a str,
    /// When it is made.
    pub created_at: i64,
    /// When it is worth nothing any more.
    pub expires_at: i64,
}

#[derive(sqlx::FromRow)]
struct Row {
    workspace_id: String,
    workspace_name: String,
    email: String,
    role: String,
    inviter: String,
    created_at: i64,
    expires_at: i64,
}

impl TryFrom<Row> for Invitation {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            workspace: id(&row.workspace_id)?,
            workspace_name: row.workspace_name,
            email: row.email,
            role: role(&row.role)?,
            inviter: row.inviter,
            created_at: row.created_at,
            expires_at: row.expires_at,
        })
    }
}

const SELECT: &str = "SELECT i.workspace_id, w.name AS workspace_name, i.email, i.role, a.email AS inviter, i.created_at, \
    i.expires_at FROM invitations i JOIN workspaces w ON w.id = i.workspace_id JOIN accounts a ON a.id = i.invited_by";

impl Store {
    /// Stores an invitation in the place of the one that the address has.
    ///
    /// # Errors
    /// `NotFound` when the workspace is gone; `ALREADY_MEMBER`; [`Quota::admit`](hotdesk_domain::quota::Quota::admit)'s when
    /// it has as many people as its owner's plan gives, or the address has no account and none may come any more; or the
    /// store fails.
    pub async fn invite(&self, new: &NewInvitation<'_>, plans: &Plans) -> Result<()> {
        let mut write = self.write().await?;
        // Whether it is there.
        write.owner(new.workspace).await?;
        write.check_no_member(new).await?;
        write.check_people(new.workspace, new.email.as_str(), plans).await?;
        write.check_comer(new.email.as_str(), new.workspace, plans).await?;
        sqlx::query(
            "INSERT INTO invitations (workspace_id, email, role, digest, invited_by, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (workspace_id, email) DO UPDATE SET \
             role = excluded.role, digest = excluded.digest, invited_by = excluded.invited_by, \
             created_at = excluded.created_at, expires_at = excluded.expires_at",
        )
        .bind(new.workspace.to_string())
        .bind(new.email.as_str())
        .bind(new.role.name())
        .bind(new.digest)
        .bind(new.inviter.to_string())
        .bind(new.created_at)
        .bind(new.expires_at)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store an invitation"))?;
        write.commit().await
    }

    /// A workspace's invitations by age.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn invitations(&self, workspace: WorkspaceId) -> Result<Vec<Invitation>> {
        let select = format!("{SELECT} WHERE i.workspace_id = $1 ORDER BY i.created_at, i.email");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(workspace.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list invitations"))?;
        rows.into_iter().map(Invitation::try_from).collect()
    }

    /// Takes an invitation back. False when the address has none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn uninvite(&self, workspace: WorkspaceId, email: &Email) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query("DELETE FROM invitations WHERE workspace_id = $1 AND email = $2")
            .bind(workspace.to_string())
            .bind(email.as_str())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove an invitation"))?;
        write.commit().await?;
        Ok(removed.rows_affected() > 0)
    }

    /// The invitation whose token has this digest, while it may be taken.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn invitation(&self, digest: &str) -> Result<Option<Invitation>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(open()))
            .bind(digest)
            .bind(now_ms())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an invitation"))?;
        row.map(Invitation::try_from).transpose()
    }

    /// Takes an invitation for the account that signs in with its address; the workspace, or `None` when nobody may take
    /// this one (any more).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn join(&self, digest: &str, account: AccountId) -> Result<Option<WorkspaceId>> {
        let mut write = self.write().await?;
        let joined = write.join(digest, account).await?;
        write.commit().await?;
        Ok(joined)
    }

    /// As [`Store::join`], for an account that is made for it.
    ///
    /// # Errors
    /// `EMAIL_TAKEN`; [`Quota::admit`](hotdesk_domain::quota::Quota::admit)'s when as many accounts came by these invitations
    /// as may; or the store fails.
    pub async fn join_anew(
        &self,
        digest: &str,
        account: &Account,
        plans: &Plans,
    ) -> Result<Option<WorkspaceId>> {
        let mut write = self.write().await?;
        write.insert_account(account).await?;
        let Some(workspace) = write.join(digest, account.id).await? else { return Ok(None) };
        write.bring(account.id, workspace, plans).await?;
        write.commit().await?;
        Ok(Some(workspace))
    }
}

fn open() -> String {
    format!("{SELECT} WHERE i.digest = $1 AND i.expires_at > $2")
}

impl Write {
    async fn check_no_member(&mut self, new: &NewInvitation<'_>) -> Result<()> {
        let (there,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM accounts a WHERE a.email = $2 AND (EXISTS (SELECT 1 FROM members m \
             WHERE m.workspace_id = $1 AND m.account_id = a.id) OR EXISTS (SELECT 1 FROM workspaces w \
             WHERE w.id = $1 AND w.account_id = a.id))",
        )
        .bind(new.workspace.to_string())
        .bind(new.email.as_str())
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("look for a member"))?;
        if there > 0 {
            return Err(Error::conflict(format!("{} belongs to the workspace already", new.email))
                .code("ALREADY_MEMBER"));
        }
        Ok(())
    }

    async fn join(&mut self, digest: &str, account: AccountId) -> Result<Option<WorkspaceId>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(open()))
            .bind(digest)
            .bind(now_ms())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read an invitation"))?;
        let Some(row) = row else { return Ok(None) };
        let joined = sqlx::query(
            "INSERT INTO members (workspace_id, account_id, role, created_at) \
             SELECT $1, a.id, $4, $5 FROM accounts a WHERE a.id = $2 AND a.email = $3 \
             ON CONFLICT (workspace_id, account_id) DO UPDATE SET role = excluded.role",
        )
        .bind(&row.workspace_id)
        .bind(account.to_string())
        .bind(&row.email)
        .bind(&row.role)
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store a member"))?;
        if joined.rows_affected() == 0 {
            return Ok(None);
        }
        sqlx::query("DELETE FROM invitations WHERE digest = $1")
            .bind(digest)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("use an invitation up"))?;
        id(&row.workspace_id).map(Some)
    }
}
