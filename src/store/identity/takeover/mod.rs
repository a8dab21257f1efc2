//! Takeover of an agent's account by a person: one transaction, with a claim code that works once.

mod keys;
mod plan_check;
mod stream_connections;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::fleet::changes::RecordChange;
use crate::identity::members::Membership;
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId, KeyId, WorkspaceId};
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::clone::free_name;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::name::{Name, fold};

/// The parts of an agent's account that a person takes over; the others are removed.
#[derive(Clone, Debug, Default)]
pub struct TakeoverSelection {
    /// The workspaces, with their files.
    pub workspaces: Vec<WorkspaceId>,
    /// Computers in those workspaces that are taken over.
    pub computers: BTreeSet<ComputerId>,
    /// The keys that stay valid, each limited to one of those workspaces. An agent's account-wide key must
    /// not become an account-wide key of the person.
    pub keys: BTreeMap<KeyId, WorkspaceId>,
}

/// Result of a takeover.
#[derive(Clone, Debug)]
pub struct Takeover {
    /// The agent's account; the caller removes what is left of it.
    pub agent: AccountId,
    /// Computers whose stream must end, because the account that started it lost access.
    pub streams: Vec<ComputerId>,
}

/// Returns the `NotFound` error of an invalid claim code; it does not tell why the code is invalid.
pub fn claim_not_found() -> Error {
    Error::not_found("This link is not valid: it was used, revoked or has expired")
}

impl Store {
    /// Takes over the selected parts of the account with this claim code's digest, and uses the code up. The
    /// other parts are to be removed by the caller. All computers get new passwords. The leases of keys that
    /// end or lose scope, and of members who lose access, are revoked.
    ///
    /// # Errors
    /// `NotFound` for a code that is used, revoked or expired; `Forbidden` or `PaymentRequired` when the
    /// person's plan does not admit it; `Conflict` while a computer is being rolled back; `Invalid` for a
    /// selection that the account does not own; `Unavailable` or `Internal` when the store fails. Nothing is
    /// changed then.
    pub async fn take_over(
        &self,
        digest: &str,
        person: AccountId,
        choice: &TakeoverSelection,
        plans: &Plans,
    ) -> Result<Takeover> {
        let mut write = self.write().await?;
        let agent = write.use_claim(digest, person).await?;
        let losses = write.revoke_access(agent, choice).await?;
        let kept: HashSet<WorkspaceId> = choice.keys.values().copied().collect();
        let (mut taken, mut streams, mut out) = (Vec::<ComputerId>::new(), Vec::new(), Vec::new());
        let mut names = write.workspace_names(person).await?;
        for workspace in &choice.workspaces {
            let (name, computers) = write.claimed_workspace(agent, *workspace).await?;
            let (selected, left): (Vec<_>, Vec<_>) =
                computers.into_iter().partition(|computer| choice.computers.contains(computer));
            streams.extend(write.move_to_leftover_workspace(agent, &name, &left).await?);
            let free = if names.contains(&fold(&name)) {
                free_name(&name, "agent", |folded| names.contains(folded))?
            } else {
                Name::parse(&name)?
            };
            names.insert(free.folded());
            write.transfer_workspace(*workspace, person, &free).await?;
            out.extend(write.remove_other_access(*workspace, agent, person).await?);
            if kept.contains(workspace) {
                write.transfer_streams(*workspace, agent, person).await?;
            }
            streams.extend(write.end_unauthorized_streams(*workspace).await?);
            for computer in &selected {
                write.meter(*computer).await?;
            }
            taken.extend(selected);
        }
        for computer in choice.computers.iter().filter(|computer| !taken.contains(computer)) {
            write.check_agent_owns(*computer, agent).await?;
        }
        if !choice.workspaces.is_empty() {
            write.apply_plan(person, &taken, plans).await?;
            write.check_transferred_workspaces(person, &choice.workspaces, plans).await?;
        }
        write.transfer_keys(agent, person, choice).await?;
        write.transfer_stream_connections(agent, person, &kept, losses.narrowed).await?;
        write.commit().await?;
        self.end_password_sessions(&losses.passwords);
        losses.keys.iter().for_each(|key| self.credentials.revoke(key));
        out.iter().for_each(|member| self.memberships.revoke(member));
        Ok(Takeover { agent, streams })
    }
}

impl Write {
    /// Uses a claim code up; only one of several concurrent requests finds it.
    async fn use_claim(&mut self, digest: &str, person: AccountId) -> Result<AccountId> {
        let found: Option<(String,)> = sqlx::query_as(
            "SELECT account_id FROM agent_accounts WHERE claim_digest = $1 AND claimed_by IS NULL AND closing = 0 \
             AND expires_at > $2",
        )
        .bind(digest)
        .bind(clock::now().as_i64())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("look up a claim"))?;
        let (agent,) = found.ok_or_else(claim_not_found)?;
        sqlx::query(
            "UPDATE agent_accounts SET claim_digest = NULL, claimed_by = $2, closing = 1 WHERE account_id = $1",
        )
        .bind(&agent)
        .bind(person.to_string())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("use up a claim"))?;
        id(&agent)
    }

    /// Returns the name and the computers of an agent's workspace.
    async fn claimed_workspace(
        &mut self,
        agent: AccountId,
        workspace: WorkspaceId,
    ) -> Result<(String, Vec<ComputerId>)> {
        let name: Option<(String,)> =
            sqlx::query_as("SELECT name FROM workspaces WHERE id = $1 AND account_id = $2")
                .bind(workspace.to_string())
                .bind(agent.to_string())
                .fetch_optional(&mut *self.tx)
                .await
                .map_err(failed("read a workspace"))?;
        let (name,) = name
            .ok_or_else(|| Error::invalid("a selected workspace does not exist any more: reload the page"))?;
        let computers: Vec<(String,)> = sqlx::query_as("SELECT id FROM computers WHERE workspace_id = $1")
            .bind(workspace.to_string())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list a workspace's computers"))?;
        Ok((name, computers.iter().map(|(text,)| id(text)).collect::<Result<_>>()?))
    }

    /// Checks that a computer selected without its workspace belongs to the agent, where it stays. A browser
    /// sends checked computers below an unchecked workspace.
    async fn check_agent_owns(&mut self, computer: ComputerId, agent: AccountId) -> Result<()> {
        match self.computer(computer).await {
            Ok(row) if row.owner == agent => Ok(()),
            Err(error) if error.kind != Kind::NotFound => Err(error),
            Ok(_) | Err(_) => {
                Err(Error::invalid("a selected computer does not exist any more: reload the page"))
            }
        }
    }

    /// Moves the unselected computers of a workspace to a new workspace of the agent, which is removed with
    /// its account. Returns those whose stream must end, because a member loses access.
    async fn move_to_leftover_workspace(
        &mut self,
        agent: AccountId,
        workspace: &str,
        computers: &[ComputerId],
    ) -> Result<Vec<ComputerId>> {
        if computers.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.workspace_names(agent).await?;
        let name = free_name(workspace, "left", |folded| names.contains(folded))?;
        let leftover = self.add_workspace(agent, &name, None, "active").await?.id;
        let mut streams = Vec::new();
        for computer in computers {
            let row = self.computer(*computer).await?;
            self.move_to_workspace(&row, leftover).await?;
            streams.extend(self.end_unauthorized_stream(*computer).await?);
            self.meter(*computer).await?;
        }
        Ok(streams)
    }

    async fn transfer_workspace(
        &mut self,
        workspace: WorkspaceId,
        person: AccountId,
        name: &Name,
    ) -> Result<()> {
        sqlx::query(
            "UPDATE workspaces SET account_id = $2, name = $3, name_folded = $4, updated_at = $5 WHERE id = $1",
        )
        .bind(workspace.to_string())
        .bind(person.to_string())
        .bind(name.as_str())
        .bind(name.folded())
        .bind(clock::now().as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("transfer a workspace"))?;
        // They would get those of the person, who did not decide that.
        sqlx::query("UPDATE computers SET account_secrets = 0 WHERE workspace_id = $1")
            .bind(workspace.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("withhold the secrets of an account"))?;
        self.note(RecordChange::Workspace(workspace));
        Ok(())
    }

    /// Removes the members, invitations, keys and connections of other accounts from a workspace: the person
    /// was not shown them. Also removes the person's own membership, but not its keys. Returns the
    /// memberships that ended.
    async fn remove_other_access(
        &mut self,
        workspace: WorkspaceId,
        agent: AccountId,
        person: AccountId,
    ) -> Result<Vec<Membership>> {
        let members: Vec<(String,)> =
            sqlx::query_as("SELECT account_id FROM members WHERE workspace_id = $1 AND account_id <> $2")
                .bind(workspace.to_string())
                .bind(person.to_string())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("list members"))?;
        for statement in
            ["DELETE FROM members WHERE workspace_id = $1", "DELETE FROM invitations WHERE workspace_id = $1"]
        {
            sqlx::query(statement)
                .bind(workspace.to_string())
                .execute(&mut *self.tx)
                .await
                .map_err(failed("remove memberships and invitations"))?;
        }
        for statement in [
            "DELETE FROM api_keys WHERE workspace_id = $1 AND account_id NOT IN ($2, $3)",
            "DELETE FROM oauth_grants WHERE workspace_id = $1 AND account_id NOT IN ($2, $3)",
        ] {
            sqlx::query(statement)
                .bind(workspace.to_string())
                .bind(agent.to_string())
                .bind(person.to_string())
                .execute(&mut *self.tx)
                .await
                .map_err(failed("remove the keys and connections of others"))?;
        }
        let mut ended = Vec::with_capacity(members.len());
        for (account,) in &members {
            let account = id(account)?;
            self.note(RecordChange::Account(account));
            ended.push(Membership { workspace, account });
        }
        Ok(ended)
    }
}
