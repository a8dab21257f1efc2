//! Keys of workspaces, which seal states of their computers in object storage.

use crate::vault::SealedText;
use crate::vault::columns::WORKSPACE_KEY;
use crate::{Write, failed};
use hotdesk_base::ids::WorkspaceId;
use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_domain::error::Result;

impl Write {
    /// Makes the key of a workspace, unless it has one.
    pub(crate) async fn ensure_workspace_key(&mut self, workspace: WorkspaceId) -> Result<()> {
        let stored: Option<(SealedText,)> =
            sqlx::query_as("SELECT sealing_key FROM workspace_keys WHERE workspace_id = $1")
                .bind(workspace.to_string())
                .fetch_optional(&mut *self.tx)
                .await
                .map_err(failed("read the key of a workspace"))?;
        if stored.is_some() {
            return Ok(());
        }
        let key = self.vault.seal(&WORKSPACE_KEY, workspace, &SealingKey::random().digits())?;
        sqlx::query("INSERT INTO workspace_keys (workspace_id, sealing_key) VALUES ($1, $2)")
            .bind(workspace.to_string())
            .bind(key)
            .execute(&mut *self.tx)
            .await
            .map(drop)
            .map_err(failed("store the key of a workspace"))
    }

    /// Removes the keys of removed workspaces that no copy needs any more.
    pub(crate) async fn remove_unused_workspace_keys(&mut self) -> Result<()> {
        sqlx::query(
            "DELETE FROM workspace_keys WHERE NOT EXISTS (SELECT 1 FROM workspaces w \
             WHERE w.id = workspace_keys.workspace_id) AND NOT EXISTS (SELECT 1 FROM saved_copies c \
             WHERE c.sealed_for = workspace_keys.workspace_id)",
        )
        .execute(&mut *self.tx)
        .await
        .map(drop)
        .map_err(failed("remove keys of removed workspaces"))
    }
}
