//! How does a workspace lose all of its computers? Each is told to go, then all are waited for.

use crate::App;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_domain::error::{Kind, Result};
use hotdesk_domain::lifecycle::Command;
use hotdesk_store::find::Filter;

impl App {
    /// Removes the computers of a workspace. Those that somebody else removes meanwhile are gone as well.
    ///
    /// # Errors
    /// Why one could not be removed; the others go on.
    pub async fn remove_computers(&self, owner: AccountId, workspace: WorkspaceId) -> Result<()> {
        let filter = Filter { workspace: Some(workspace), ..Filter::default() };
        let (computers, _) = self.store.computers(owner, &filter).await?;
        let mut deletions = Vec::new();
        for computer in &computers {
            match self.fleet.command(computer, Command::Delete).await {
                Ok(deletion) => deletions.push(deletion),
                // Somebody else was quicker.
                Err(error) if error.kind == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        for deletion in deletions {
            match deletion.finish().await {
                Err(error) if error.kind != Kind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}
