//! Which computer or workspace does a request mean, and may the caller touch it?

use axum::http::Method;

use super::super::auth::grounds;
use super::super::origin::Origin;
use super::super::{App, audit};
use super::view;
use hotdesk_base::ids::{AccountId, ComputerRef, WorkspaceId};
use hotdesk_base::living::Hold;
use hotdesk_domain::access::{self, Caller, Role, Target};
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::Guest;
use hotdesk_store::computers::Computer;
use hotdesk_store::members::Belonging;
use hotdesk_store::workspaces::Workspace;
use hotdesk_wire::computer::Computer as Record;

impl App {
    /// Finds a computer by UUID or instance handle, for a caller who may touch it.
    ///
    /// # Errors
    /// 404 "Desktop not found"; 403 by [`access::check`].
    pub async fn find_computer(&self, caller: &Caller, reference: &str) -> Result<Computer> {
        Ok(self.find_computer_as(caller, reference).await?.0)
    }

    /// As [`App::find_computer`], with what the caller is in its workspace.
    ///
    /// # Errors
    /// As that.
    pub async fn find_computer_as(&self, caller: &Caller, reference: &str) -> Result<(Computer, Role)> {
        let unknown = || Error::not_found("Desktop not found");
        let reference: ComputerRef = reference.parse().map_err(|()| unknown())?;
        let computer = self.store.computer(&reference).await?.ok_or_else(unknown)?;
        audit::on(computer.id);
        let role =
            self.admit_to(caller, computer.workspace, &computer.workspace_name, computer.owner).await?;
        Ok((computer, role))
    }

    /// What is told of a computer after something was done to it: with its password, unless the caller has lost it
    /// meanwhile. The deed is done all the same, and to refuse would say that it is not.
    pub async fn told(&self, caller: &Caller, computer: &Computer, origin: &Origin) -> Record {
        // The row was read before this: what tells the password of after a loss knows of the loss.
        let role = self.admit_to(caller, computer.workspace, &computer.workspace_name, computer.owner).await;
        if let Err(error) = &role {
            tracing::info!(computer = %computer.id, %error, "who asked for a computer is not told its password");
        }
        let record = if role.is_ok() { view::full } else { view::listed };
        record(computer, self.fleet.live(computer.id), origin)
    }

    /// The guest that serves a request with this method on a computer.
    ///
    /// # Errors
    /// As [`Fleet::guest`](super::fleet::Fleet::guest), or as
    /// [`Fleet::guest_to_read`](super::fleet::Fleet::guest_to_read) for a method that changes nothing.
    pub async fn guest_for(&self, method: &Method, computer: &Computer) -> Result<Guest> {
        if method.is_safe() {
            self.fleet.guest_to_read(computer).await
        } else {
            self.fleet.guest(computer).await
        }
    }

    /// Finds a workspace by id, for a caller who may touch it.
    ///
    /// # Errors
    /// 404 "Workspace not found"; 403 by [`access::check`].
    pub async fn find_workspace(&self, caller: &Caller, id: &str) -> Result<Workspace> {
        Ok(self.find_workspace_as(caller, id, Role::Viewer).await?.0)
    }

    /// As [`App::find_workspace`], for a caller who is at least this there; with what it is.
    ///
    /// # Errors
    /// As that; 403 by [`access::check_role`].
    pub async fn find_workspace_as(
        &self,
        caller: &Caller,
        id: &str,
        least: Role,
    ) -> Result<(Workspace, Role)> {
        let unknown = || Error::not_found("Workspace not found");
        let id: WorkspaceId = id.parse().map_err(|_| unknown())?;
        let workspace = self.store.workspace(id).await?.ok_or_else(unknown)?;
        let role = self.admit_to(caller, workspace.id, &workspace.name, workspace.account).await?;
        access::check_role(role, least)?;
        Ok((workspace, role))
    }

    /// Lets a caller do what it is about to do in a workspace, for as long as it belongs there; says what it is there.
    ///
    /// # Errors
    /// 403 by [`access::check`].
    pub async fn admit_to(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
        name: &str,
        owner: AccountId,
    ) -> Result<Role> {
        let (role, hold) = if caller.account == owner {
            (Some(Role::Owner), None)
        } else {
            let (role, hold) = self.hold_membership(workspace, caller.account).await?;
            (role, Some(hold))
        };
        audit::about(workspace, owner, role);
        let role = access::check(caller, &Target { id: workspace, name, role })?;
        if let Some(hold) = hold {
            grounds::note(hold);
        }
        Ok(role)
    }

    /// What an account is in a workspace of another, and that it belongs there for as long as a request goes on. Held before the
    /// look, so that an end is heard or seen; what ended in between is looked up again, because a viewer may go on looking.
    async fn hold_membership(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
    ) -> Result<(Option<Role>, Hold<Belonging>)> {
        loop {
            let hold = self.store.belonging.hold(Belonging { workspace, account });
            let role = self.store.membership(workspace, account).await?;
            if !hold.has_ended() {
                return Ok((role, hold));
            }
        }
    }
}
