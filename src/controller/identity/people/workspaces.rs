//! Creation and removal of workspaces, for the API and the HTML pages.

use crate::audit;
use crate::computers::fleet::Fleet;
use crate::data_dir::blobs::BlobStore;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::{self, Caller, Role};
use hotdesk_domain::name::Name;
use hotdesk_store::Store;
use hotdesk_store::identity::workspaces::Workspace;

/// Workspaces of all accounts.
pub struct Workspaces {
    store: Store,
    plans: Plans,
    fleet: Fleet,
    blobs: BlobStore,
}

impl Workspaces {
    /// Creates the service of the stored workspaces.
    pub fn new(store: Store, plans: Plans, fleet: Fleet, blobs: BlobStore) -> Self {
        Self { store, plans, fleet, blobs }
    }

    /// Creates a workspace of the caller's account, within its plan.
    ///
    /// # Errors
    /// `Forbidden` for a scoped key; the errors of [`Name::parse`] and [`Store::add_workspace`].
    pub async fn create(
        &self,
        caller: &Caller,
        name: &str,
        icon_url: Option<&str>,
        status: &str,
    ) -> Result<Workspace> {
        access::check_create_workspace(caller)?;
        let name = Name::parse(name)?;
        let made = self.store.add_workspace(caller.account, &name, icon_url, status, &self.plans).await?;
        audit::set_workspace(made.id, caller.account, Some(Role::Owner));
        Ok(made)
    }

    /// Removes a workspace with its computers and files. The caller has checked access.
    ///
    /// # Errors
    /// The first error of a computer's deletion; `Internal` when the database fails. A repeated call
    /// continues.
    pub async fn remove(&self, workspace: &Workspace) -> Result<()> {
        self.fleet.remove_computers(workspace.account, workspace.id).await?;
        let files = self.store.remove_workspace(workspace.id).await?;
        self.blobs.forget(&files).await;
        Ok(())
    }
}
