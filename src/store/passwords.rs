//! Whose password is it that opens nothing here?

use super::{Store, failed};
use crate::base::ids::WorkspaceId;
use crate::base::secret::Secret;
use crate::domain::error::Result;

impl Store {
    /// Whether a computer outside of this workspace has this password. All are compared, each as a whole, so that how long
    /// it takes tells nothing of any (access.md A79); a thousand take a millisecond.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_password_outside(&self, shown: &str, workspace: WorkspaceId) -> Result<bool> {
        let passwords: Vec<(String,)> =
            sqlx::query_as("SELECT vnc_password FROM computers WHERE workspace_id <> $1")
                .bind(workspace.to_string())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("compare a password"))?;
        let matching = passwords.into_iter().filter(|(password,)| Secret::new(password).matches(shown));
        Ok(matching.count() > 0)
    }
}
