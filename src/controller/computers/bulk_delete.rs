//! Deletion of all computers of a workspace.
//!
//! Every deletion is started before the first one is awaited.

use super::fleet::Fleet;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_domain::computer::lifecycle::Command;
use hotdesk_domain::error::{Kind, Result};
use hotdesk_store::fleet::find::ComputerFilter;

impl Fleet {
    /// Deletes the computers of a workspace. Computers that another request deletes meanwhile are not an
    /// error.
    ///
    /// # Errors
    /// The first error of a deletion; the other deletions continue.
    pub async fn remove_computers(&self, owner: AccountId, workspace: WorkspaceId) -> Result<()> {
        let filter = ComputerFilter { workspace: Some(workspace), ..ComputerFilter::default() };
        let (computers, _) = self.shared.store.computers(owner, &filter).await?;
        let mut deletions = Vec::new();
        for computer in &computers {
            match self.command(computer, Command::Delete).await {
                Ok(deletion) => deletions.push(deletion),
                // Another request deleted it.
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
