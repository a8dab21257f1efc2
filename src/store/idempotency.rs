//! What became of a request that had an `Idempotency-Key`? Noted before it is carried out, answered afterwards.
//!
//! ```text
//! (no row) -> begun -> answered
//! ```

use std::collections::BTreeMap;

use super::{Store, Write, failed};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};

/// How many requests are remembered; the ones that were answered first make room.
#[derive(Clone, Copy, Debug)]
pub struct Remembered {
    /// Of one credential.
    pub of_credential: i64,
    /// Of all credentials of one account.
    pub of_account: i64,
}

/// A client that sends ten a second finds its last quarter of an hour, which is when retries come. An account may have a thousand
/// keys and what is kept is on the service's disk, so there is a bound on all of them: three that remember the most, or three
/// hundred that sent a hundred each today.
pub const REMEMBERED: Remembered = Remembered { of_credential: 10_000, of_account: 30_000 };

/// A request under a key, by digests only.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// Whose it is.
    pub account: AccountId,
    /// The credential that it came with.
    pub holder: String,
    /// Of the credential and the key.
    pub digest: String,
    /// Of what is asked.
    pub request: String,
}

/// How a credential is called beside what it asked. Keys belong to the credential that they were sent with: one of a narrower scope
/// must not be told what a wider one did.
pub fn holder(credential: Credential) -> String {
    match credential {
        Credential::Key(key) => format!("key {key}"),
        Credential::Session(session) => format!("session {session}"),
        Credential::Grant(grant) => format!("grant {grant}"),
    }
}

/// An answer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Header fields, by their names in small letters.
    pub headers: BTreeMap<String, String>,
    /// The body; `None` when it was not kept.
    pub body: Option<String>,
}

/// What a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing so far.
    Nothing,
    /// Another request.
    Another,
    /// This request, which was begun and not answered; or one of before that may be this one.
    Begun,
    /// This request and its answer.
    Answered(Answer),
}

#[derive(sqlx::FromRow)]
struct Row {
    holder: String,
    request: String,
    status: Option<i64>,
    headers: Option<String>,
    body: Option<String>,
}

impl Row {
    /// What it stands for when the request is named otherwise now. Rows without a credential are from before 0019, when
    /// requests had other names: it may be this one, and nobody can tell.
    fn of_another_name(&self) -> Known {
        if self.holder.is_empty() { Known::Begun } else { Known::Another }
    }
}

impl TryFrom<Row> for Known {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let Some(status) = row.status else { return Ok(Self::Begun) };
        let status = u16::try_from(status).map_err(Error::internal)?;
        let headers =
            serde_json::from_str(row.headers.as_deref().unwrap_or("{}")).map_err(Error::internal)?;
        Ok(Self::Answered(Answer { status, headers, body: row.body }))
    }
}

impl Store {
    /// What a key stands for. Where that is nothing, and the caller may begin, the request is noted as begun; what is older than
    /// `since` counts as nothing. `most` is how many are remembered with it.
    ///
    /// # Errors
    /// When the store fails; nothing is begun then.
    pub async fn begin_request(
        &self,
        keyed: &Keyed,
        may_begin: bool,
        since: i64,
        most: Remembered,
    ) -> Result<Known> {
        let mut write = self.write().await?;
        let row: Option<Row> = sqlx::query_as(
            "SELECT holder, request, status, headers, body FROM idempotent_requests WHERE digest = $1 AND created_at > $2",
        )
        .bind(&keyed.digest)
        .bind(since)
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("read a keyed request"))?;
        match row {
            Some(row) if row.request != keyed.request => return Ok(row.of_another_name()),
            Some(row) => return row.try_into(),
            None if !may_begin => return Ok(Known::Nothing),
            None => {}
        }
        make_room(&mut write, keyed, most).await?;
        sqlx::query(
            "INSERT INTO idempotent_requests (digest, account_id, holder, request, created_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(&keyed.digest)
        .bind(keyed.account.to_string())
        .bind(&keyed.holder)
        .bind(&keyed.request)
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("note a keyed request"))?;
        write.commit().await?;
        Ok(Known::Nothing)
    }

    /// Keeps the answer to a request that was begun.
    ///
    /// # Errors
    /// When the store fails; the request counts as begun then.
    pub async fn answer_request(&self, keyed: &Keyed, answer: &Answer) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE idempotent_requests SET status = $3, headers = $4, body = $5 WHERE digest = $1 AND request = $2",
        )
        .bind(&keyed.digest)
        .bind(&keyed.request)
        .bind(i64::from(answer.status))
        .bind(serde_json::to_string(&answer.headers).map_err(Error::internal)?)
        .bind(&answer.body)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("keep an answer"))?;
        write.commit().await
    }

    /// Nothing was done: the key may be used again.
    ///
    /// # Errors
    /// When the store fails; the request counts as begun then.
    pub async fn forget_request(&self, keyed: &Keyed) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM idempotent_requests WHERE digest = $1 AND request = $2")
            .bind(&keyed.digest)
            .bind(&keyed.request)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("forget a keyed request"))?;
        write.commit().await
    }

    /// Removes requests from before `since`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sweep_requests(&self, since: i64) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM idempotent_requests WHERE created_at <= $1")
            .bind(since)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("sweep keyed requests"))?;
        write.commit().await
    }
}

/// Removes what this key stood for too long ago, and what its credential has too much of. Where the account has too much, whoever has
/// the most makes room, so that nobody who has no more than a fair share loses anything to others.
async fn make_room(write: &mut Write, keyed: &Keyed, most: Remembered) -> Result<()> {
    sqlx::query("DELETE FROM idempotent_requests WHERE digest = $1")
        .bind(&keyed.digest)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("forget an old request"))?;
    let (own,): (i64,) =
        sqlx::query_as("SELECT COUNT(*) FROM idempotent_requests WHERE account_id = $1 AND holder = $2")
            .bind(keyed.account.to_string())
            .bind(&keyed.holder)
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count a credential's keyed requests"))?;
    forget_oldest(write, keyed.account, &keyed.holder, own + 1 - most.of_credential).await?;
    let (all,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM idempotent_requests WHERE account_id = $1")
        .bind(keyed.account.to_string())
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count an account's keyed requests"))?;
    for _ in most.of_account..=all {
        let holder: Option<(String,)> = sqlx::query_as(
            "SELECT holder FROM idempotent_requests WHERE account_id = $1 AND status IS NOT NULL GROUP BY holder \
             ORDER BY COUNT(*) DESC, CASE WHEN holder = $2 THEN 0 ELSE 1 END LIMIT 1",
        )
        .bind(keyed.account.to_string())
        .bind(&keyed.holder)
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("find who remembers the most"))?;
        // All of it is being carried out.
        let Some((holder,)) = holder else { break };
        forget_oldest(write, keyed.account, &holder, 1).await?;
    }
    Ok(())
}

/// Removes so many of a credential's requests that were answered, the oldest first. The others say that something must not be done
/// again: they stay.
async fn forget_oldest(write: &mut Write, account: AccountId, holder: &str, count: i64) -> Result<()> {
    if count <= 0 {
        return Ok(());
    }
    sqlx::query(
        "DELETE FROM idempotent_requests WHERE digest IN (SELECT digest FROM idempotent_requests \
         WHERE account_id = $1 AND holder = $2 AND status IS NOT NULL ORDER BY created_at, digest LIMIT $3)",
    )
    .bind(account.to_string())
    .bind(holder)
    .bind(count)
    .execute(&mut *write.tx)
    .await
    .map_err(failed("make room for a keyed request"))?;
    Ok(())
}
