//! How does an account come by a workspace? By the API and by the console's page alike.

use crate::{App, audit};
use hotdesk_domain::access::{self, Caller, Role};
use hotdesk_domain::error::Result;
use hotdesk_domain::name::Name;
use hotdesk_store::workspaces::Workspace;

impl App {
    /// Makes a workspace of the caller's account, as far as its plan goes.
    ///
    /// # Errors
    /// `Forbidden` for a key that reaches one workspace only; as [`Name::parse`] and
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
        audit::about(made.id, caller.account, Some(Role::Owner));
        Ok(made)
    }
}
