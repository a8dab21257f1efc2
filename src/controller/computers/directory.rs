//! Look-up of computers and workspaces with access checks.

use std::collections::HashSet;

use axum::http::Method;

use super::fleet::Fleet;
use super::view;
use crate::audit;
use crate::web::origin::Origin;
use crate::web::request_lease;
use hotdesk_base::ids::{AccountId, ComputerRef, WorkspaceId};
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{self, Caller, Role, Target};
use hotdesk_guest::Guest;
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::find::ComputerFilter;
use hotdesk_store::identity::members::Membership;
use hotdesk_store::identity::workspaces::Workspace;
use hotdesk_wire::computer::Computer as Record;

/// The computers that an account reaches: its own, and those of the workspaces that it is a member of.
#[derive(Clone, Debug)]
pub struct AccountReach {
    account: AccountId,
    workspaces: HashSet<WorkspaceId>,
}

impl AccountReach {
    /// Whether the account reaches a computer, with any role.
    pub fn includes(&self, computer: &Computer) -> bool {
        computer.owner == self.account || self.workspaces.contains(&computer.workspace)
    }
}

/// Look-up of computers and workspaces; cheap to clone.
#[derive(Clone)]
pub struct Directory {
    store: Store,
    fleet: Fleet,
}

impl Directory {
    /// Creates a directory of the stored computers and workspaces.
    pub fn new(store: Store, fleet: Fleet) -> Self {
        Self { store, fleet }
    }

    /// Finds a computer by UUID or instance handle, and checks that the caller may use it.
    ///
    /// # Errors
    /// `NotFound` ("Desktop not found"); `Forbidden` by [`access::check`].
    pub async fn find_computer(&self, caller: &Caller, reference: &str) -> Result<Computer> {
        Ok(self.find_computer_as(caller, reference).await?.0)
    }

    /// Does the same as [`Directory::find_computer`], and returns the caller's role in the computer's
    /// workspace.
    ///
    /// # Errors
    /// The errors of [`Directory::find_computer`].
    pub async fn find_computer_as(&self, caller: &Caller, reference: &str) -> Result<(Computer, Role)> {
        let unknown = || Error::not_found("Desktop not found");
        let reference: ComputerRef = reference.parse().map_err(|()| unknown())?;
        let computer = self.store.computer(&reference).await?.ok_or_else(unknown)?;
        audit::set_computer(computer.id);
        let role =
            self.admit_to(caller, computer.workspace, &computer.workspace_name, computer.owner).await?;
        Ok((computer, role))
    }

    /// Returns the computers that an account reaches, oldest first, and what it reaches. The list is read last.
    /// A change of access in between is noted as a change of the account.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn reachable(&self, account: AccountId) -> Result<(AccountReach, Vec<Computer>)> {
        let workspaces = self.store.workspaces(account).await?.into_iter().map(|workspace| workspace.id);
        let reach = AccountReach { account, workspaces: workspaces.collect() };
        let (computers, _) = self.store.computers(account, &ComputerFilter::default()).await?;
        Ok((reach, computers))
    }

    /// Checks whether a caller with this role in a computer's workspace may read the computer's files.
    ///
    /// # Errors
    /// `Forbidden` by [`access::check_files`]; `Unavailable` or `Internal` when the store fails.
    pub async fn check_files(&self, role: Role, computer: &Computer) -> Result<()> {
        if role > Role::Viewer {
            return Ok(());
        }
        let workspace = self.store.workspace(computer.workspace).await?;
        access::check_files(role, workspace.is_some_and(|it| it.viewers_read_files))
    }

    /// Returns a computer's API record after a command on it. It has the password only if the caller still
    /// has access. The command has succeeded in any case, so a refusal would be wrong.
    pub async fn record_for(&self, caller: &Caller, computer: &Computer, origin: &Origin) -> Record {
        // The check is later than the read of the row, so a password that was changed after a loss of access
        // is never revealed.
        let role = self.admit_to(caller, computer.workspace, &computer.workspace_name, computer.owner).await;
        if let Err(error) = &role {
            tracing::info!(
                computer = %computer.id,
                error = format_args!("{error:#}"),
                "the caller lost access: the record has no password"
            );
        }
        let record = if role.is_ok() { view::full_record } else { view::listed_record };
        record(computer, self.fleet.live_details(computer.id), origin)
    }

    /// Returns the guest for a request with this method.
    ///
    /// # Errors
    /// The errors of [`Fleet::guest`], or of [`Fleet::guest_to_read`] for a safe method.
    pub async fn guest_for(&self, method: &Method, computer: &Computer) -> Result<Guest> {
        if method.is_safe() {
            self.fleet.guest_to_read(computer).await
        } else {
            self.fleet.guest(computer).await
        }
    }

    /// Finds a workspace by id, and checks that the caller may use it.
    ///
    /// # Errors
    /// `NotFound` ("Workspace not found"); `Forbidden` by [`access::check`].
    pub async fn find_workspace(&self, caller: &Caller, id: &str) -> Result<Workspace> {
        Ok(self.find_workspace_as(caller, id, Role::Viewer).await?.0)
    }

    /// Does the same as [`Directory::find_workspace`] for a caller with at least the role `least`, and
    /// returns its role.
    ///
    /// # Errors
    /// The errors of [`Directory::find_workspace`]; `Forbidden` by [`access::check_role`].
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

    /// Checks a caller's access to a workspace and returns its role. The request ends if the caller loses the
    /// membership meanwhile.
    ///
    /// # Errors
    /// `Forbidden` by [`access::check`]; `Internal` when the database fails.
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
        audit::set_workspace(workspace, owner, role);
        let role = access::check(caller, &Target { id: workspace, name, role })?;
        if let Some(hold) = hold {
            request_lease::note(hold);
        }
        Ok(role)
    }

    /// Returns an account's role in a workspace, with a lease on the membership. The lease is taken before
    /// the look-up. If the membership ended in between, the look-up is repeated, because the account may have
    /// a lower role now.
    async fn hold_membership(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
    ) -> Result<(Option<Role>, Lease<Membership>)> {
        loop {
            let hold = self.store.memberships.lease(Membership { workspace, account });
            let role = self.store.membership(workspace, account).await?;
            if !hold.is_revoked() {
                return Ok((role, hold));
            }
        }
    }
}
