//! Members of a workspace.
//!
//! Its admins manage the members; its owner stays; everybody may leave.

use crate::{App, audit};
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, Role, check_account_wide};
use hotdesk_store::identity::invitations::Invitation;
use hotdesk_store::identity::members::Member;
use hotdesk_store::identity::workspaces::Workspace;

/// Members and invitations of a workspace, as one member sees them.
#[derive(Clone, Debug)]
pub struct People {
    /// The workspace.
    pub workspace: Workspace,
    /// Role of the caller.
    pub role: Role,
    /// The owner first, then by age.
    pub members: Vec<Member>,
    /// By age; empty for those who may not invite.
    pub invitations: Vec<Invitation>,
}

impl App {
    /// Returns the members and invitations of a workspace.
    ///
    /// # Errors
    /// The errors of [`Directory::find_workspace`].
    pub async fn people(&self, caller: &Caller, workspace: &str) -> Result<People> {
        let (workspace, role) = self.directory.find_workspace_as(caller, workspace, Role::Viewer).await?;
        let members = self.store.members(workspace.id).await?;
        let invitations =
            if role >= Role::Admin { self.store.invitations(workspace.id).await? } else { Vec::new() };
        Ok(People { workspace, role, members, invitations })
    }

    /// Changes a member's role. If the member becomes a viewer, the passwords of the computers change.
    ///
    /// # Errors
    /// The errors of [`Directory::find_workspace_as`]; `NotFound` for an unknown member; `Forbidden` for the owner.
    pub async fn change_member(
        &self,
        caller: &Caller,
        workspace: &str,
        member: &str,
        role: Role,
    ) -> Result<()> {
        let (workspace, _) = self.directory.find_workspace_as(caller, workspace, Role::Admin).await?;
        check_account_wide(caller, "change members")?;
        let member = member_of(&workspace, member)?;
        audit::set_target(member);
        let streams = self.store.change_member(workspace.id, member, role).await?.ok_or_else(unknown)?;
        self.end_streams(streams);
        Ok(())
    }

    /// Removes a member, or lets the caller leave, whatever its role. A scoped key may do neither.
    ///
    /// The passwords of the workspace's computers change, and sockets that use the old ones end. The member's
    /// MCP connections to the workspace end too.
    ///
    /// # Errors
    /// The errors of [`App::change_member`].
    pub async fn remove_member(&self, caller: &Caller, workspace: &str, member: &str) -> Result<()> {
        let leaves = member.parse() == Ok(caller.account);
        let ((workspace, _), what) = if leaves {
            (
                self.directory.find_workspace_as(&caller.for_read(), workspace, Role::Viewer).await?,
                "leave workspaces",
            )
        } else {
            (self.directory.find_workspace_as(caller, workspace, Role::Admin).await?, "remove members")
        };
        check_account_wide(caller, what)?;
        let member = member_of(&workspace, member)?;
        audit::set_target(member);
        let removed = self.store.remove_member(workspace.id, member).await?.ok_or_else(unknown)?;
        self.end_streams(removed.streams);
        // In a separate task, because this request ends when the caller has left.
        let clients = self.mcp.clone();
        let _task = self.tasks.spawn("end connections", async move {
            for grant in removed.grants {
                clients.end(grant).await;
            }
        });
        Ok(())
    }
}

fn unknown() -> Error {
    Error::not_found("Member not found")
}

fn member_of(workspace: &Workspace, member: &str) -> Result<AccountId> {
    let member = member.parse().map_err(|_| unknown())?;
    if member == workspace.account {
        return Err(Error::forbidden("The owner of a workspace stays its owner"));
    }
    Ok(member)
}
