//! Saved RTMP servers in a takeover: those that a transferred key can use go with it, the others are removed.

use std::collections::HashSet;

use crate::fleet::streams::stream_connections::check_connection_limit;
use crate::{Write, failed};
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_domain::computer::clone::free_name;
use hotdesk_domain::error::Result;
use hotdesk_domain::name::{Name, fold};

impl Write {
    /// Transfers the connections of workspaces with a transferred key to a person, under free names, and
    /// removes the others. With `narrowed`, the connections of account-wide keys become that workspace's,
    /// like the keys.
    ///
    /// # Errors
    /// `Forbidden` when the person would have too many connections.
    pub(super) async fn transfer_stream_connections(
        &mut self,
        agent: AccountId,
        person: AccountId,
        kept: &HashSet<WorkspaceId>,
        narrowed: Option<WorkspaceId>,
    ) -> Result<()> {
        let names: Vec<(String,)> =
            sqlx::query_as("SELECT name_folded FROM stream_connections WHERE account_id = $1")
                .bind(person.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("list connections' names"))?;
        let mut names: HashSet<String> = names.into_iter().map(|(name,)| name).collect();
        let saved: Vec<(String, Option<String>, String)> = sqlx::query_as(
            "SELECT id, workspace_id, name FROM stream_connections WHERE account_id = $1 ORDER BY name_folded",
        )
        .bind(agent.to_string())
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("list an agent's connections"))?;
        let kept: HashSet<String> = kept.iter().map(ToString::to_string).collect();
        for (connection, workspace, name) in saved {
            let workspace = workspace.or_else(|| narrowed.map(|workspace| workspace.to_string()));
            let Some(workspace) = workspace.filter(|workspace| kept.contains(workspace)) else { continue };
            check_connection_limit(self, person).await?;
            let free = if names.contains(&fold(&name)) {
                free_name(&name, "agent", |folded| names.contains(folded))?
            } else {
                Name::parse(&name)?
            };
            names.insert(free.folded());
            sqlx::query(
                "UPDATE stream_connections SET account_id = $2, workspace_id = $3, name = $4, name_folded = $5 \
                 WHERE id = $1",
            )
            .bind(connection)
            .bind(person.to_string())
            .bind(workspace)
            .bind(free.as_str())
            .bind(free.folded())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("transfer a connection"))?;
        }
        sqlx::query("DELETE FROM stream_connections WHERE account_id = $1")
            .bind(agent.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("remove the other connections"))?;
        Ok(())
    }
}
