//! Which computer or workspace does a request mean, and may the caller touch it?

use axum::http::Method;

use super::super::App;
use crate::base::ids::{ComputerRef, WorkspaceId};
use crate::domain::access::{self, Caller, Target};
use crate::domain::error::{Error, Result};
use crate::guest::Guest;
use crate::store::computers::Computer;
use crate::store::workspaces::Workspace;

impl App {
    /// Finds a computer by UUID or instance handle, for a caller who may touch it.
    ///
    /// # Errors
    /// 404 "Desktop not found"; 403 by [`access::check`].
    pub async fn find_computer(&self, caller: &Caller, reference: &str) -> Result<Computer> {
        let unknown = || Error::not_found("Desktop not found");
        let reference: ComputerRef = reference.parse().map_err(|()| unknown())?;
        let computer = self.store.computer(&reference).await?.ok_or_else(unknown)?;
        let target = Target { id: computer.workspace, name: &computer.workspace_name, owner: computer.owner };
        access::check(caller, &target)?;
        Ok(computer)
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
        let unknown = || Error::not_found("Workspace not found");
        let id: WorkspaceId = id.parse().map_err(|_| unknown())?;
        let workspace = self.store.workspace(id).await?.ok_or_else(unknown)?;
        let target = Target { id: workspace.id, name: &workspace.name, owner: workspace.account };
        access::check(caller, &target)?;
        Ok(workspace)
    }
}
