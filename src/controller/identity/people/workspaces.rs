//! Creation of workspaces, for the API and the HTML pages.

use crate::{App, audit};
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::{self, Caller, Role};
use hotdesk_domain::name::Name;
use hotdesk_store::identity::workspaces::Workspace;

impl App {
    /// Creates a workspace of the caller's account, within its plan.
    ///
    /// # Errors
    /// `Forbidden` for a scoped key; the errors of [`Name::parse`] and
    /// [`hotdesk_store::Store::add_workspace`].
    pub async fn make_workspace(
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
}
