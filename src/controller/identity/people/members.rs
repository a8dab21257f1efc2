//! Members of a workspace.
//!
//! Its admins manage the members; its owner stays; everybody may leave.

use crate::audit;
use crate::computers::directory::Directory;
use crate::computers::rtmp::streams::RtmpStreams;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, Role, check_account_wide};
use hotdesk_store::Store;
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

/// Members of all workspaces.
pub struct Members {
    store: Store,
    directory: Directory,
    streams: RtmpStreams,
}

impl Members {
    /// Creates the service of the stored members.
    pub fn new(store: Store, directory: Directory, streams: RtmpStreams) -> Self {
        Self { store, directory, streams }
    }

    /// Returns the members and invitations of a workspace.
    ///
    /// # Errors
    /// The errors of [`Directory::find_workspace`].
    pub async fn list(&self, caller: &Caller, workspace: &str) -> Result<People> {
        let (workspace, role) = self.directory.find_workspace_as(caller, workspace, Role::Viewer).await?;
        let members = self.store.members(workspace.id).await?;
        let invitations =
            if role >= Role::Admin { self.store.invitations(workspace.id).await? } else { Vec::new() };
        Ok(People { workspace, role, members, invitations })
    }

    /// Changes a member's role. If the member becomes a viewer, the passwords of the computers change.
    ///
    /// # Errors
    /// The errors of [`Directory::find_workspace_as`]; `NotFound` for an unknown member; `Forbidden` for the
    /// owner.
    pub async fn change(&self, caller: &Caller, workspace: &str, member: &str, role: Role) -> Result<()> {
        let (workspace, _) = self.directory.find_workspace_as(caller, workspace, Role::Admin).await?;
        check_account_wide(caller, "change members")?;
        let member = member_of(&workspace, member)?;
        audit::set_target(member);
        let streams = self.store.change_member(workspace.id, member, role).await?.ok_or_else(unknown)?;
        self.streams.end(streams);
        Ok(())
    }

    /// Removes a member, or lets the caller leave, whatever its role. A scoped key may do neither.
    ///
    /// The passwords of the workspace's computers change, and sockets that use the old ones end. The member's
    /// MCP connections to the workspace end too.
    ///
    /// # Errors
    /// The errors of [`Members::change`].
    pub async fn remove(&self, caller: &Caller, workspace: &str, member: &str) -> Result<()> {
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
        let streams = self.store.remove_member(workspace.id, member).await?.ok_or_else(unknown)?;
        self.streams.end(streams);
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
