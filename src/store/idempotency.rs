//! Records of requests with an `Idempotency-Key`: written before the handler runs, completed with its
//! response.
//!
//! ```text
//! (no row) --begin_request--> pending --store_response--> completed
//!    ^                           |
//!    +------forget_request-------+
//! ```

use std::collections::BTreeMap;

use crate::vault::columns::ANSWER;
use crate::vault::{SealedText, Vault};
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Credential;

/// Bounds on stored requests; the completed ones are evicted first.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// Requests of one credential.
    pub per_credential: i64,
    /// Requests of all credentials of one account.
    pub per_account: i64,
}

/// A client that sends ten requests a second finds those of the last quarter of an hour, which is when it
/// retries. The bound per account limits the disk use of an account with many keys: it allows three full
/// credentials, or three hundred with a hundred requests each.
pub const RETENTION_LIMITS: RetentionLimits = RetentionLimits { per_credential: 10_000, per_account: 30_000 };

/// A request with an idempotency key; key and content are stored as digests only.
#[derive(Clone, Debug)]
pub struct IdempotentRequest {
    /// The account of the caller.
    pub account: AccountId,
    /// The label of the credential that sent it ([`credential_label`]).
    pub holder: String,
    /// Digest of the credential and the key.
    pub digest: String,
    /// Digest of the request's content.
    pub request: String,
}

/// Returns the label of a credential in the store. Idempotency keys belong to their credential: one with a
/// narrower scope must not see the response to a wider one.
pub fn credential_label(credential: Credential) -> String {
    match credential {
        Credential::Key(key) => format!("key {key}"),
        Credential::Session(session) => format!("session {session}"),
        Credential::Grant(grant) => format!("grant {grant}"),
    }
}

/// A stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status.
    pub status: u16,
    /// Header fields, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; `None` when it is secret or too large to store.
    pub body: Option<String>,
}

/// State of an idempotency key.
///
/// ```text
/// (no row) --begin_request--> pending --store_response--> completed
///    ^                           |
///    +------forget_request-------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// The key is unused.
    New,
    /// The key was used with a different request.
    Mismatch,
    /// This request started and has no response yet; or an older record may be this request.
    Pending,
    /// This request completed with this response.
    Completed(StoredResponse),
}

row! {
    struct Row {
        holder: String,
        request: String,
        status: Option<i64>,
        headers: Option<String>,
        body: Option<SealedText>,
    }
}

impl Row {
    /// The state when the digest of the request differs. Rows without a credential predate migration 0019,
    /// which changed the digests: such a row may be this request.
    fn mismatch_state(&self) -> RequestState {
        if self.holder.is_empty() { RequestState::Pending } else { RequestState::Mismatch }
    }

    /// Returns the state of the request with this digest, with its answer opened.
    fn open(self, vault: &Vault, digest: &str) -> Result<RequestState> {
        let row = self;
        let Some(status) = row.status else { return Ok(RequestState::Pending) };
        let status = u16::try_from(status).map_err(Error::internal)?;
        let headers =
            serde_json::from_str(row.headers.as_deref().unwrap_or("{}")).map_err(Error::internal)?;
        let body = row.body.map(|sealed| vault.open(&ANSWER, digest, &sealed)).transpose()?;
        let body = body.map(|body| body.reveal().to_owned());
        Ok(RequestState::Completed(StoredResponse { status, headers, body }))
    }
}

impl Store {
    /// Returns the state of a key. If it is new and `may_begin` is set, stores the request as pending.
    /// Ignores records created before `since`. `most` bounds the stored requests, this one included.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; the request is not stored then.
    pub async fn begin_request(
        &self,
        keyed: &IdempotentRequest,
        may_begin: bool,
        since: UnixMillis,
        most: RetentionLimits,
    ) -> Result<RequestState> {
        let mut write = self.write().await?;
        let row: Option<Row> = sqlx::query_as(
            "SELECT holder, request, status, headers, body FROM idempotent_requests WHERE digest = $1 AND created_at > $2",
        )
        .bind(&keyed.digest)
        .bind(since.as_i64())
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("read an idempotent request"))?;
        match row {
            Some(row) if row.request != keyed.request => return Ok(row.mismatch_state()),
            Some(row) => return row.open(&write.vault, &keyed.digest),
            None if !may_begin => return Ok(RequestState::New),
            None => {}
        }
        evict(&mut write, keyed, most).await?;
        sqlx::query(
            "INSERT INTO idempotent_requests (digest, account_id, holder, request, created_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(&keyed.digest)
        .bind(keyed.account.to_string())
        .bind(&keyed.holder)
        .bind(&keyed.request)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store an idempotent request"))?;
        write.commit().await?;
        Ok(RequestState::New)
    }

    /// Stores the response to a pending request.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; the request stays pending then.
    pub async fn store_response(&self, keyed: &IdempotentRequest, answer: &StoredResponse) -> Result<()> {
        let mut write = self.write().await?;
        let body = answer.body.as_ref().map(|body| Secret::new(body.as_str()));
        let body = body.map(|body| write.vault.seal(&ANSWER, &keyed.digest, &body)).transpose()?;
        sqlx::query(
            "UPDATE idempotent_requests SET status = $3, headers = $4, body = $5 WHERE digest = $1 AND request = $2",
        )
        .bind(&keyed.digest)
        .bind(&keyed.request)
        .bind(i64::from(answer.status))
        .bind(serde_json::to_string(&answer.headers).map_err(Error::internal)?)
        .bind(body)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a response"))?;
        write.commit().await
    }

    /// Removes a request that had no effect, so that its key can be used again.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; the request stays pending then.
    pub async fn forget_request(&self, keyed: &IdempotentRequest) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM idempotent_requests WHERE digest = $1 AND request = $2")
            .bind(&keyed.digest)
            .bind(&keyed.request)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove an idempotent request"))?;
        write.commit().await
    }

    /// Removes requests created at or before `since`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn sweep_requests(&self, since: UnixMillis) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM idempotent_requests WHERE created_at <= $1")
            .bind(since.as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove expired idempotent requests"))?;
        write.commit().await
    }
}

/// Removes an expired record of this key, and the oldest completed requests beyond the bounds. Beyond the
/// bound of the account, the credential with the most requests loses its oldest, so that one client cannot
/// evict the others.
async fn evict(write: &mut Write, keyed: &IdempotentRequest, most: RetentionLimits) -> Result<()> {
    sqlx::query("DELETE FROM idempotent_requests WHERE digest = $1")
        .bind(&keyed.digest)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("remove an expired request"))?;
    let (own,): (i64,) =
        sqlx::query_as("SELECT COUNT(*) FROM idempotent_requests WHERE account_id = $1 AND holder = $2")
            .bind(keyed.account.to_string())
            .bind(&keyed.holder)
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count a credential's idempotent requests"))?;
    forget_oldest(write, keyed.account, &keyed.holder, own + 1 - most.per_credential).await?;
    let (all,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM idempotent_requests WHERE account_id = $1")
        .bind(keyed.account.to_string())
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count an account's idempotent requests"))?;
    for _ in most.per_account..=all {
        let holder: Option<(String,)> = sqlx::query_as(
            "SELECT holder FROM idempotent_requests WHERE account_id = $1 AND status IS NOT NULL GROUP BY holder \
             ORDER BY COUNT(*) DESC, CASE WHEN holder = $2 THEN 0 ELSE 1 END LIMIT 1",
        )
        .bind(keyed.account.to_string())
        .bind(&keyed.holder)
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("find the credential with the most requests"))?;
        // All requests are pending.
        let Some((holder,)) = holder else { break };
        forget_oldest(write, keyed.account, &holder, 1).await?;
    }
    Ok(())
}

/// Removes the `count` oldest completed requests of a credential. Pending ones stay, because they prevent a
/// second execution.
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
    .map_err(failed("evict idempotent requests"))?;
    Ok(())
}
