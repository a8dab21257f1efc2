//! Invitations into workspaces: an e-mail address and a role. Of the link only the SHA-256 of its token is
//! stored.

use crate::fleet::changes::RecordChange;
use crate::identity::members::role;
use crate::identity::people::Account;
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Role;
use hotdesk_domain::identity::email::Email;

/// An invitation.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Name of the workspace.
    pub workspace_name: String,
    /// E-mail address of the invited person.
    pub email: String,
    /// Role that the invited person gets.
    pub role: Role,
    /// E-mail address of the inviting account.
    pub inviter: String,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Expiry.
    pub expires_at: UnixMillis,
}

/// Record of a new invitation.
#[derive(Clone, Debug)]
pub struct NewInvitation<'a> {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// E-mail address of the invited person.
    pub email: &'a Email,
    /// Role that the invited person gets.
    pub role: Role,
    /// The inviting account.
    pub inviter: AccountId,
    /// SHA-256 of the link's token, in hex.
    pub digest: &'a str,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Expiry.
    pub expires_at: UnixMillis,
}

row! {
    struct Row {
        workspace_id: String,
        workspace_name: String,
        email: String,
        role: String,
        inviter: String,
        created_at: i64,
        expires_at: i64,
    }
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
            created_at: UnixMillis::new(row.created_at),
            expires_at: UnixMillis::new(row.expires_at),
        })
    }
}

const SELECT: &str = "SELECT i.workspace_id, w.name AS workspace_name, i.email, i.role, a.email AS inviter, i.created_at, \
    i.expires_at FROM invitations i JOIN workspaces w ON w.id = i.workspace_id JOIN accounts a ON a.id = i.invited_by";

impl Store {
    /// Stores an invitation, replacing the address's previous one to this workspace.
    ///
    /// # Errors
    /// `NotFound` when the workspace does not exist; `Conflict` (`ALREADY_MEMBER`); those of
    /// [`Quota::admit`](hotdesk_domain::billing::quota::Quota::admit) when the workspace is full, or when the
    /// address has no account and no more accounts may be created by invitation; `Unavailable` or `Internal`
    /// when the store fails. Nothing is changed then.
    pub async fn invite(&self, new: &NewInvitation<'_>, plans: &Plans) -> Result<()> {
        let mut write = self.write().await?;
        // Fails when the workspace does not exist.
        write.owner(new.workspace).await?;
        write.check_no_member(new).await?;
        write.check_people(new.workspace, new.email.as_str(), plans).await?;
        write.check_invitee(new.email.as_str(), new.workspace, plans).await?;
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
        .bind(new.created_at.as_i64())
        .bind(new.expires_at.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store an invitation"))?;
        write.commit().await
    }

    /// Returns a workspace's invitations, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn invitations(&self, workspace: WorkspaceId) -> Result<Vec<Invitation>> {
        let select = format!("{SELECT} WHERE i.workspace_id = $1 ORDER BY i.created_at, i.email");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(workspace.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list invitations"))?;
        rows.into_iter().map(Invitation::try_from).collect()
    }

    /// Removes an invitation. Returns false when the address has none.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_invitation(&self, workspace: WorkspaceId, email: &Email) -> Result<bool> {
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

    /// Returns the valid invitation whose token has this digest.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn invitation(&self, digest: &str) -> Result<Option<Invitation>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select_valid()))
            .bind(digest)
            .bind(clock::now().as_i64())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an invitation"))?;
        row.map(Invitation::try_from).transpose()
    }

    /// Makes an account a member by an invitation to its address. Returns the workspace, or `None` when no
    /// valid invitation matches.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn accept_invitation(&self, digest: &str, account: AccountId) -> Result<Option<WorkspaceId>> {
        let mut write = self.write().await?;
        let joined = write.accept_invitation(digest, account).await?;
        write.commit().await?;
        Ok(joined)
    }

    /// Creates an account and makes it a member by an invitation to its address. Returns the workspace, or
    /// `None` when no valid invitation matches.
    ///
    /// # Errors
    /// `Conflict` (`EMAIL_TAKEN`); those of [`Quota::admit`](hotdesk_domain::billing::quota::Quota::admit)
    /// when no more accounts may be created by these invitations; `Unavailable` or `Internal` when the store
    /// fails. Nothing is changed then.
    pub async fn accept_invitation_with_new_account(
        &self,
        digest: &str,
        account: &Account,
        plans: &Plans,
    ) -> Result<Option<WorkspaceId>> {
        let mut write = self.write().await?;
        write.insert_account(account).await?;
        let Some(workspace) = write.accept_invitation(digest, account.id).await? else { return Ok(None) };
        write.record_inviter(account.id, workspace, plans).await?;
        write.commit().await?;
        Ok(Some(workspace))
    }
}

fn select_valid() -> String {
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
                .code(ErrorCode::AlreadyMember));
        }
        Ok(())
    }

    async fn accept_invitation(&mut self, digest: &str, account: AccountId) -> Result<Option<WorkspaceId>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select_valid()))
            .bind(digest)
            .bind(clock::now().as_i64())
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
        .bind(clock::now().as_i64())
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
            .map_err(failed("remove a used invitation"))?;
        self.note(RecordChange::Account(account));
        id(&row.workspace_id).map(Some)
    }
}
