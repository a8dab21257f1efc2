//! How does a person take over what an agent's account holds? All of it in one transaction, by a code that counts once.

mod connections;
mod keys;
mod room;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::members::Belonging;
use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId, KeyId, WorkspaceId};
use hotdesk_domain::clone::free_name;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::name::{Name, fold};
use hotdesk_domain::plan::Plans;

/// What a person wants of an agent's account; the rest goes.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The workspaces, with their files.
    pub workspaces: Vec<WorkspaceId>,
    /// Those of their computers that come along.
    pub computers: BTreeSet<ComputerId>,
    /// The keys that stay valid, each for one of those workspaces alone: a key of a whole account must not become one of
    /// the person's whole account.
    pub keys: BTreeMap<KeyId, WorkspaceId>,
}

/// What was taken over.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The agent's account; what is left of it is to be removed.
    pub agent: AccountId,
    /// The computers whose stream is to be ended: whoever began it has no key to them any more.
    pub streams: Vec<ComputerId>,
}

/// The refusal of a code that leads nowhere, whatever the reason.
pub fn no_claim() -> Error {
    Error::not_found("This link is not valid: it was used, revoked or has expired")
}

impl Store {
    /// Takes over what was chosen of the account that a claim link's code with this digest leads to. The code is used up,
    /// and what was not chosen is to be removed. Computers get other passwords, chosen or not; what goes on under keys that
    /// end, or that reached more than they do now, or by whoever belongs there no more, ends.
    ///
    /// # Errors
    /// `NotFound` for a code that is used up, revoked or past its time; `Forbidden` or `PaymentRequired` when the person's
    /// plan has no room for it or for one computer, `Conflict` while that is being rolled back; `Invalid` for a choice of
    /// what the account does not hold; or the store fails. Nothing has changed then.
    pub async fn take_over(
        &self,
        digest: &str,
        person: AccountId,
        choice: &Choice,
        plans: &Plans,
    ) -> Result<Taken> {
        let mut write = self.write().await?;
        let agent = write.use_claim(digest, person).await?;
        let losses = write.shut_out(agent, choice).await?;
        let kept: HashSet<WorkspaceId> = choice.keys.values().copied().collect();
        let (mut taken, mut streams, mut out) = (Vec::<ComputerId>::new(), Vec::new(), Vec::new());
        let mut names = write.workspace_names(person).await?;
        for workspace in &choice.workspaces {
            let (name, computers) = write.hand_over(agent, *workspace).await?;
            let (come, left): (Vec<_>, Vec<_>) =
                computers.into_iter().partition(|computer| choice.computers.contains(computer));
            streams.extend(write.leave_behind(agent, &name, &left).await?);
            let free = if names.contains(&fold(&name)) {
                free_name(&name, "agent", |folded| names.contains(folded))?
            } else {
                Name::parse(&name)?
            };
            names.insert(free.folded());
            write.give(*workspace, person, &free).await?;
            out.extend(write.close_to_others(*workspace, agent, person).await?);
            if kept.contains(workspace) {
                write.give_streams(*workspace, agent, person).await?;
            }
            streams.extend(write.streams_of_strangers(*workspace).await?);
            for computer in &come {
                write.meter(*computer).await?;
            }
            taken.extend(come);
        }
        for computer in choice.computers.iter().filter(|computer| !taken.contains(computer)) {
            write.check_agent_s(*computer, agent).await?;
        }
        if !choice.workspaces.is_empty() {
            write.take_in(person, &taken, plans).await?;
            write.check_come(person, &choice.workspaces, plans).await?;
        }
        write.give_keys(agent, person, choice).await?;
        write.give_connections(agent, person, &kept, losses.narrowed).await?;
        write.commit().await?;
        self.end_passes(&losses.passes);
        losses.keys.iter().for_each(|key| self.live.end(key));
        out.iter().for_each(|member| self.belonging.end(member));
        Ok(Taken { agent, streams })
    }
}

impl Write {
    /// Uses a code up: of many at once, one finds it.
    async fn use_claim(&mut self, digest: &str, person: AccountId) -> Result<AccountId> {
        let found: Option<(String,)> = sqlx::query_as(
            "SELECT account_id FROM agent_accounts WHERE claim_digest = $1 AND claimed_by IS NULL AND closing = 0 \
             AND expires_at > $2",
        )
        .bind(digest)
        .bind(now_ms())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("look up a claim"))?;
        let (agent,) = found.ok_or_else(no_claim)?;
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

    /// The name and the computers of a workspace that is an agent's.
    async fn hand_over(
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
        let (name,) =
            name.ok_or_else(|| Error::invalid("a workspace that was chosen is not there any more"))?;
        let computers: Vec<(String,)> = sqlx::query_as("SELECT id FROM computers WHERE workspace_id = $1")
            .bind(workspace.to_string())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list a workspace's computers"))?;
        Ok((name, computers.iter().map(|(text,)| id(text)).collect::<Result<_>>()?))
    }

    /// Whether a computer that was chosen without its workspace is the agent's, so that it stays there. A page sends what it has
    /// checked below a workspace that it has not.
    async fn check_agent_s(&mut self, computer: ComputerId, agent: AccountId) -> Result<()> {
        match self.computer(computer).await {
            Ok(row) if row.owner == agent => Ok(()),
            Err(error) if error.kind != Kind::NotFound => Err(error),
            Ok(_) | Err(_) => Err(Error::invalid("a computer that was chosen is not there any more")),
        }
    }

    /// Puts the computers of a workspace that were not chosen into a fresh one, which stays the agent's and goes with its
    /// account. Those whose stream is to be ended: a guest loses them here.
    async fn leave_behind(
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
        let rest = self.add_workspace(agent, &name, None, "active").await?.id;
        let mut streams = Vec::new();
        for computer in computers {
            let row = self.computer(*computer).await?;
            self.put(&row, rest).await?;
            streams.extend(self.stream_of_a_stranger(*computer).await?);
            self.meter(*computer).await?;
        }
        Ok(streams)
    }

    async fn give(&mut self, workspace: WorkspaceId, person: AccountId, name: &Name) -> Result<()> {
        sqlx::query(
            "UPDATE workspaces SET account_id = $2, name = $3, name_folded = $4, updated_at = $5 WHERE id = $1",
        )
        .bind(workspace.to_string())
        .bind(person.to_string())
        .bind(name.as_str())
        .bind(name.folded())
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("give a workspace to a person"))?;
        Ok(())
    }

    /// Takes back whatever others were given of a workspace: the person who takes it over was not shown them, and invites
    /// whom it wants there. The person was a member itself, perhaps: as its owner it is none, and its own keys stay. Whoever
    /// does not belong there any more.
    async fn close_to_others(
        &mut self,
        workspace: WorkspaceId,
        agent: AccountId,
        person: AccountId,
    ) -> Result<Vec<Belonging>> {
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
                .map_err(failed("end memberships and invitations"))?;
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
                .map_err(failed("end the keys and connections of others"))?;
        }
        members.iter().map(|(account,)| Ok(Belonging { workspace, account: id(account)? })).collect()
    }
}
