//! Accounts that AI agents created for themselves: claim links, expiry and removal.

use crate::identity::accounts::{NewKey, insert_key};
use crate::identity::people::Account;
use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, KeyId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// An unclaimed account of an agent.
#[derive(Clone, Debug)]
pub struct AgentAccount {
    /// The account.
    pub account: AccountId,
    /// Name of the agent, chosen by itself.
    pub name: String,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Expiry; an unclaimed account is removed then.
    pub expires_at: UnixMillis,
    /// Whether it has a claim link.
    pub claimable: bool,
}

row! {
    struct Row {
        account_id: String,
        full_name: String,
        created_at: i64,
        expires_at: i64,
        claimable: i64,
    }
}

const SELECT: &str = "SELECT g.account_id, a.full_name, a.created_at, g.expires_at, \
                      CASE WHEN g.claim_digest IS NULL THEN 0 ELSE 1 END AS claimable \
                      FROM agent_accounts g JOIN accounts a ON a.id = g.account_id \
                      WHERE g.closing = 0 AND g.claimed_by IS NULL AND g.expires_at > $1 ";

impl TryFrom<Row> for AgentAccount {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            account: id(&row.account_id)?,
            name: row.full_name,
            created_at: UnixMillis::new(row.created_at),
            expires_at: UnixMillis::new(row.expires_at),
            claimable: row.claimable != 0,
        })
    }
}

impl Store {
    /// Creates an agent's account with a key (its digest and last four characters) and the digest of its
    /// claim code.
    ///
    /// # Errors
    /// `Unavailable` (`agent_accounts_full`) when `most` accounts are unclaimed; `Unavailable` or `Internal`
    /// when the store fails. Nothing is changed then.
    pub async fn add_agent_account(
        &self,
        account: &Account,
        key: (&str, &str),
        claim: &str,
        expires_at: UnixMillis,
        most: u32,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let (waiting,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM agent_accounts WHERE claimed_by IS NULL")
                .fetch_one(&mut *write.tx)
                .await
                .map_err(failed("count agents' accounts"))?;
        if waiting >= i64::from(most) {
            return Err(Error::unavailable("Too many agents' accounts are unclaimed: try again later")
                .code(ErrorCode::AgentAccountsFull)
                .retry_after(3600));
        }
        write.insert_account(account).await?;
        let (digest, last_four) = key;
        let key =
            NewKey { account: account.id, workspace: None, name: "agent's first key", digest, last_four };
        insert_key(&mut write, KeyId::random(), &key).await?;
        sqlx::query("INSERT INTO agent_accounts (account_id, claim_digest, expires_at) VALUES ($1, $2, $3)")
            .bind(account.id.to_string())
            .bind(claim)
            .bind(expires_at.as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store an agent's account"))?;
        write.commit().await
    }

    /// Returns an unclaimed agent's account by its id.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn agent_account(&self, account: AccountId) -> Result<Option<AgentAccount>> {
        self.agent_where("AND g.account_id = $2", &account.to_string()).await
    }

    /// Returns the unclaimed agent's account whose claim code has this digest.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn agent_account_of_claim(&self, digest: &str) -> Result<Option<AgentAccount>> {
        self.agent_where("AND g.claim_digest = $2", digest).await
    }

    async fn agent_where(&self, clause: &'static str, value: &str) -> Result<Option<AgentAccount>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} {clause}")))
            .bind(clock::now().as_i64())
            .bind(value)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an agent's account"))?;
        row.map(AgentAccount::try_from).transpose()
    }

    /// Replaces the claim code of an agent's account, or removes it. The previous code becomes invalid.
    ///
    /// # Errors
    /// `Conflict` (`not_claimable`) when the account was claimed, has expired or is being removed;
    /// `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn set_claim(&self, account: AccountId, digest: Option<&str>) -> Result<()> {
        let mut write = self.write().await?;
        let set = sqlx::query(
            "UPDATE agent_accounts SET claim_digest = $2 WHERE account_id = $1 AND claimed_by IS NULL AND closing = 0 \
             AND expires_at > $3",
        )
        .bind(account.to_string())
        .bind(digest)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("set a claim link"))?;
        if set.rows_affected() == 0 {
            return Err(Error::conflict("This account cannot be claimed").code(ErrorCode::NotClaimable));
        }
        write.commit().await
    }

    /// Returns the agents' accounts to be removed: expired ones, and the remains of claimed ones.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn expired_agents(&self) -> Result<Vec<AccountId>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT account_id FROM agent_accounts WHERE closing = 1 OR expires_at <= $1")
                .bind(clock::now().as_i64())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list agents' accounts"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Starts the removal of an agent's account: removes its keys and its claim code, so that nobody can add
    /// to it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn begin_agent_removal(&self, account: AccountId) -> Result<()> {
        let mut write = self.write().await?;
        for step in [
            "UPDATE agent_accounts SET closing = 1, claim_digest = NULL WHERE account_id = $1",
            "DELETE FROM api_keys WHERE account_id = $1",
        ] {
            let done = sqlx::query(step).bind(account.to_string()).execute(&mut *write.tx).await;
            done.map_err(failed("begin to remove an agent's account"))?;
        }
        write.commit().await
    }

    /// Removes an agent's account that owns no workspace any more, with its saved streaming connections.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when it still owns something or the store fails.
    pub async fn finish_agent_removal(&self, account: AccountId) -> Result<()> {
        let mut write = self.write().await?;
        for step in
            ["DELETE FROM stream_connections WHERE account_id = $1", "DELETE FROM accounts WHERE id = $1"]
        {
            let done = sqlx::query(step).bind(account.to_string()).execute(&mut *write.tx).await;
            done.map_err(failed("remove an agent's account"))?;
        }
        write.commit().await
    }
}
