//! API keys of an agent in a takeover: transfer, removal and revoked leases.

use std::collections::HashSet;

use super::TakeoverSelection;
use crate::fleet::passwords::PasswordDigest;
use crate::idempotency::credential_label;
use crate::{Write, failed, id};
use hotdesk_base::ids::{AccountId, KeyId, WorkspaceId};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Credential;

/// Id of an agent's key, and the workspace that it is limited to.
type KeyRow = (String, Option<String>);

/// Access that an agent loses by a takeover.
pub(super) struct Losses {
    /// Previous passwords of all its computers.
    pub(super) passwords: Vec<PasswordDigest>,
    /// Keys whose leases are revoked: those that end, and those that lose scope.
    pub(super) keys: Vec<Credential>,
    /// The workspace to which the account-wide key is limited from now on; with several such keys, that of
    /// the key with the first id.
    pub(super) narrowed: Option<WorkspaceId>,
}

impl Write {
    /// Changes the passwords of an agent's computers, and determines which keys lose access. Runs before
    /// anything is transferred.
    pub(super) async fn revoke_access(
        &mut self,
        agent: AccountId,
        choice: &TakeoverSelection,
    ) -> Result<Losses> {
        let own = self.workspaces_of(agent, "SELECT id FROM workspaces WHERE account_id = $1").await?;
        let guest = "SELECT workspace_id FROM members WHERE account_id = $1";
        let mut reached: HashSet<WorkspaceId> = self.workspaces_of(agent, guest).await?.into_iter().collect();
        reached.extend(&own);
        let mut losses = Losses { passwords: Vec::new(), keys: Vec::new(), narrowed: None };
        // Keys to these workspaces lose computers.
        let mut reduced = HashSet::new();
        for workspace in own {
            let passwords = self.change_passwords(workspace).await?;
            if passwords.iter().any(|password| !choice.computers.contains(&password.computer)) {
                reduced.insert(workspace);
            }
            losses.passwords.extend(passwords);
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
                alone && !reduced.contains(&kept)
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

    /// Transfers the selected keys to a person, each limited to a transferred workspace, and removes the
    /// others.
    pub(super) async fn transfer_keys(
        &mut self,
        agent: AccountId,
        person: AccountId,
        choice: &TakeoverSelection,
    ) -> Result<()> {
        for (key, workspace) in &choice.keys {
            if !choice.workspaces.contains(workspace) {
                return Err(Error::invalid(
                    "a key can stay valid only for a workspace that is taken over: select that workspace too",
                ));
            }
            self.check_keys(person, Some(*workspace)).await?;
            self.transfer_key(agent, *key, person, *workspace).await?;
        }
        sqlx::query("DELETE FROM api_keys WHERE account_id = $1")
            .bind(agent.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("remove the other keys"))?;
        Ok(())
    }

    async fn transfer_key(
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
        .map_err(failed("transfer a key"))?;
        if given.rows_affected() == 0 {
            return Err(Error::invalid("a selected key does not exist, or is limited to another workspace"));
        }
        // The stored requests follow the key. Otherwise a retry would execute again after the agent's account
        // is removed.
        sqlx::query("UPDATE idempotent_requests SET account_id = $3 WHERE account_id = $1 AND holder = $2")
            .bind(agent.to_string())
            .bind(credential_label(Credential::Key(key)))
            .bind(person.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("transfer a key's idempotent requests"))?;
        Ok(())
    }
}
