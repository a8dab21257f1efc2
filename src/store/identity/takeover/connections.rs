//! What becomes of the RTMP servers that an agent saved? Those that a key of its can still use go with that key; the rest ends.

use std::collections::HashSet;

use super::super::streams::check_room;
use super::super::{Write, failed};
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_domain::clone::free_name;
use hotdesk_domain::error::Result;
use hotdesk_domain::name::{Name, fold};

impl Write {
    /// Gives a person the connections that an agent's kept keys use, under names that are free there: those of the
    /// workspaces for which a key is kept. With `narrowed`, what was of the agent's account-wide keys is that workspace's
    /// from now on, as such a key is. What is left over goes.
    ///
    /// # Errors
    /// `Forbidden` when the person has too many connections then.
    pub(super) async fn give_connections(
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
            check_room(self, person).await?;
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
            .map_err(failed("give a connection to a person"))?;
        }
        sqlx::query("DELETE FROM stream_connections WHERE account_id = $1")
            .bind(agent.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("end the other connections"))?;
        Ok(())
    }
}
