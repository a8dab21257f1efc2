//! Who belongs to a workspace? Its admins manage its people; its owner stays; everybody may leave.

use crate::{App, audit};
use hotdesk_base::ids::AccountId;
use hotdesk_domain::access::{Caller, Role, check_account_wide};
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::invitations::Invitation;
use hotdesk_store::members::Member;
use hotdesk_store::workspaces::Workspace;

/// A workspace's people, as one of them sees them.
#[derive(Clone, Debug)]
pub struct People {
    /// The workspace.
    pub workspace: Workspace,
    /// What the one who asks is there.
    pub role: Role,
    /// The owner first, then by age.
    pub members: Vec<Member>,
    /// By age; none for those who may not invite.
    pub invitations: Vec<Invitation>,
}

impl App {
    /// Who belongs to a workspace, and who is asked to.
    ///
    /// # Errors
    /// As [`App::find_workspace`].
    pub async fn people(&self, caller: &Caller, workspace: &str) -> Result<People> {
        let (workspace, role) = self.find_workspace_as(caller, workspace, Role::Viewer).await?;
        let members = self.store.members(workspace.id).await?;
        let invitations =
            if role >= Role::Admin { self.store.invitations(workspace.id).await? } else { Vec::new() };
        Ok(People { workspace, role, members, invitations })
    }

    /// Changes what a member is. Where they only look from now on, the computers get other passwords.
    ///
    /// # Errors
    /// As [`App::find_workspace_as`]; `NotFound` for no member; `Forbidden` for the owner.
    pub async fn change_member(
        &self,
        caller: &Caller,
        workspace: &str,
        member: &str,
        role: Role,
    ) -> Result<()> {
        let (workspace, _) = self.find_workspace_as(caller, workspace, Role::Admin).await?;
        check_account_wide(caller, "change members")?;
        let member = member_of(&workspace, member)?;
        audit::target(member);
        let streams = self.store.change_member(workspace.id, member, role).await?.ok_or_else(unknown)?;
        self.end_streams(streams);
        Ok(())
    }

    /// Takes a member out of a workspace, or lets the caller leave it, whatever it is there. Neither is a scoped key's to do. Its
    /// computers get other passwords, and what is open by those before ends; so do the connections of the MCP clients that it let in
    /// there.
    ///
    /// # Errors
    /// As [`App::change_member`].
    pub async fn remove_member(&self, caller: &Caller, workspace: &str, member: &str) -> Result<()> {
        let leaves = member.parse() == Ok(caller.account);
        let ((workspace, _), what) = if leaves {
            (self.find_workspace_as(&caller.looking(), workspace, Role::Viewer).await?, "leave workspaces")
        } else {
            (self.find_workspace_as(caller, workspace, Role::Admin).await?, "remove members")
        };
        check_account_wide(caller, what)?;
        let member = member_of(&workspace, member)?;
        audit::target(member);
        let removed = self.store.remove_member(workspace.id, member).await?.ok_or_else(unknown)?;
        self.end_streams(removed.streams);
        // Beside this request, which ends here for whoever has left.
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
