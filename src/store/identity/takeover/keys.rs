//! Which of an agent's keys stay valid, and does what goes on under them?

use std::collections::HashSet;

use super::super::idempotency::holder;
use super::super::passwords::Pass;
use super::super::{Write, failed, id};
use super::Choice;
use hotdesk_base::ids::{AccountId, KeyId, WorkspaceId};
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};

/// A key of an agent's, and the only workspace that it reaches.
type KeyRow = (String, Option<String>);

/// What an agent loses by a claim.
pub(super) struct Losses {
    /// What opened its computers, those too that nobody wants.
    pub(super) passes: Vec<Pass>,
    /// The keys under which nothing goes on: those that end, and those that are kept and reached more than they will.
    pub(super) keys: Vec<Credential>,
    /// The workspace for which an account-wide key is kept; of several that of the key with the first id.
    pub(super) narrowed: Option<WorkspaceId>,
}

impl Write {
    /// Gives the computers of an agent's account other passwords, and finds out which of its keys lose something: to be
    /// called while all of it is the agent's.
    pub(super) async fn shut_out(&mut self, agent: AccountId, choice: &Choice) -> Result<Losses> {
        let own = self.workspaces_of(agent, "SELECT id FROM workspaces WHERE account_id = $1").await?;
        let guest = "SELECT workspace_id FROM members WHERE account_id = $1";
        let mut reached: HashSet<WorkspaceId> = self.workspaces_of(agent, guest).await?.into_iter().collect();
        reached.extend(&own);
        let mut losses = Losses { passes: Vec::new(), keys: Vec::new(), narrowed: None };
        // Whoever keeps a key to one of these loses computers there.
        let mut parted = HashSet::new();
        for workspace in own {
            let passes = self.change_passwords(workspace).await?;
            if passes.iter().any(|pass| !choice.computers.contains(&pass.computer)) {
                parted.insert(workspace);
            }
            losses.passes.extend(passes);
        }
        let keys: Vec<KeyRow> =
            sqlx::query_as("SELECT id, workspace_id FROM api_keys WHERE account_id = $1 ORDER BY id")
                .bind(agent.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("list an agent's keys"))?;
        for (key, scope) in keys {
            let key: KeyId = id(&key)?;
            let keeps = choice.keys.get(&key).copied();
            if scope.is_none() {
                losses.narrowed = losses.narrowed.or(keeps);
            }
            let same = keeps.is_some_and(|kept| {
                let alone = match &scope {
                    Some(only) => *only == kept.to_string(),
                    None => reached.len() == 1 && reached.contains(&kept),
                };
                alone && !parted.contains(&kept)
            });
            if !same {
                losses.keys.push(Credential::Key(key));
            }
        }
        Ok(losses)
    }

    async fn workspaces_of(&mut self, agent: AccountId, select: &'static str) -> Result<Vec<WorkspaceId>> {
        let rows: Vec<(String,)> = sqlx::query_as(select)
            .bind(agent.to_string())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list an agent's workspaces"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Gives the keys that were chosen to a person, each for one of the workspaces that are taken over, and ends the others.
    pub(super) async fn give_keys(
        &mut self,
        agent: AccountId,
        person: AccountId,
        choice: &Choice,
    ) -> Result<()> {
        for (key, workspace) in &choice.keys {
            if !choice.workspaces.contains(workspace) {
                return Err(Error::invalid("a key stays valid for a workspace that is taken over"));
            }
            self.check_keys(person, Some(*workspace)).await?;
            self.give_key(agent, *key, person, *workspace).await?;
        }
        sqlx::query("DELETE FROM api_keys WHERE account_id = $1")
            .bind(agent.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("end the other keys"))?;
        Ok(())
    }

    async fn give_key(
        &mut self,
        agent: AccountId,
        key: KeyId,
        person: AccountId,
        workspace: WorkspaceId,
    ) -> Result<()> {
        let given = sqlx::query(
            "UPDATE api_keys SET account_id = $3, workspace_id = $4 WHERE id = $1 AND account_id = $2 \
             AND (workspace_id IS NULL OR workspace_id = $4)",
        )
        .bind(key.to_string())
        .bind(agent.to_string())
        .bind(person.to_string())
        .bind(workspace.to_string())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("give a key to a person"))?;
        if given.rows_affected() == 0 {
            return Err(Error::invalid("a key that was chosen is not there, or is another workspace's"));
        }
        // Its retries are its own wherever it goes: with the agent's account it would forget what it has done.
        sqlx::query("UPDATE idempotent_requests SET account_id = $3 WHERE account_id = $1 AND holder = $2")
            .bind(agent.to_string())
            .bind(holder(Credential::Key(key)))
            .bind(person.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("give a key's requests to a person"))?;
        Ok(())
    }
}
