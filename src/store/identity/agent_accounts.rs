//! Which accounts did AI agents make for themselves, who may claim them, and which of them go?

use super::accounts::{NewKey, insert_key};
use super::people::Account;
use super::{Store, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, KeyId};
use hotdesk_domain::error::{Error, Result};

/// An agent's account that waits to be claimed.
#[derive(Clone, Debug)]
pub struct AgentAccount {
    /// The account.
    pub account: AccountId,
    /// What the agent calls itself.
    pub name: String,
    /// When it was made.
    pub created_at: i64,
    /// When it goes if nobody claims it.
    pub expires_at: i64,
    /// Whether it has a claim link.
    pub claimable: bool,
}

#[derive(sqlx::FromRow)]
struct Row {
    account_id: String,
    full_name: String,
    created_at: i64,
    expires_at: i64,
    claimable: i64,
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
            created_at: row.created_at,
            expires_at: row.expires_at,
            claimable: row.claimable != 0,
        })
    }
}

impl Store {
    /// Makes an agent's account with its key and the digest of its claim link's code.
    ///
    /// # Errors
    /// `Unavailable` (`agent_accounts_full`) when `most` wait to be claimed; or the store fails.
    pub async fn add_agent_account(
        &self,
        account: &Account,
        key: (&str, &str),
        claim: &str,
        expires_at: i64,
        most: u32,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let (waiting,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM agent_accounts WHERE claimed_by IS NULL")
                .fetch_one(&mut *write.tx)
                .await
                .map_err(failed("count agents' accounts"))?;
        if waiting >= i64::from(most) {
            return Err(Error::unavailable("Too many agents' accounts wait to be claimed")
                .code("agent_accounts_full")
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
            .bind(expires_at)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store an agent's account"))?;
        write.commit().await
    }

    /// An agent's account that nobody has claimed, by the account.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn agent_account(&self, account: AccountId) -> Result<Option<AgentAccount>> {
        self.agent_where("AND g.account_id = $2", &account.to_string()).await
    }

    /// The agent's account that a claim link's code with this digest leads to.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn agent_of_claim(&self, digest: &str) -> Result<Option<AgentAccount>> {
        self.agent_where("AND g.claim_digest = $2", digest).await
    }

    async fn agent_where(&self, clause: &'static str, value: &str) -> Result<Option<AgentAccount>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} {clause}")))
            .bind(now_ms())
            .bind(value)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an agent's account"))?;
        row.map(AgentAccount::try_from).transpose()
    }

    /// Gives an agent's account another claim link, or none; the one before is dead.
    ///
    /// # Errors
    /// `Conflict` when it was claimed or goes; or the store fails.
    pub async fn set_claim(&self, account: AccountId, digest: Option<&str>) -> Result<()> {
        let mut write = self.write().await?;
        let set = sqlx::query(
            "UPDATE agent_accounts SET claim_digest = $2 WHERE account_id = $1 AND claimed_by IS NULL AND closing = 0 \
             AND expires_at > $3",
        )
        .bind(account.to_string())
        .bind(digest)
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("set a claim link"))?;
        if set.rows_affected() == 0 {
            return Err(Error::conflict("This account cannot be claimed").code("not_claimable"));
        }
        write.commit().await
    }

    /// Agents' accounts that go: nobody claimed them in time, or what is left of them was not wanted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn expired_agents(&self) -> Result<Vec<AccountId>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT account_id FROM agent_accounts WHERE closing = 1 OR expires_at <= $1")
                .bind(now_ms())
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list agents' accounts"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Begins to remove an agent's account: its keys and its claim link end, so that nobody makes more of it.
    ///
    /// # Errors
    /// When the store fails.
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

    /// Removes an agent's account that holds nothing any more.
    ///
    /// # Errors
    /// When it holds something still, or the store fails.
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
