//! Browser sessions of people. Of a session's cookie only the SHA-256 is stored.

use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, KeyId, SessionId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Credential;

/// Sessions of one account, more than a person has browsers; the oldest is evicted.
const MAX_SESSIONS: i64 = 100;
/// Sessions removed in one go; usually there is one.
const ENDED_AT_ONCE: i64 = 1000;

/// Record of a new session.
#[derive(Clone, Debug)]
pub struct NewSession<'a> {
    /// SHA-256 of its cookie, in hex.
    pub digest: &'a str,
    /// End of its life.
    pub expires_at: UnixMillis,
    /// `User-Agent` field of the browser, bounded by the caller.
    pub user_agent: Option<&'a str>,
    /// IP address of the browser; `None` for a process on this host that used a Unix socket.
    pub address: Option<String>,
}

impl<'a> NewSession<'a> {
    /// Returns a session of a browser that is not known.
    pub fn new(digest: &'a str, expires_at: UnixMillis) -> Self {
        Self { digest, expires_at, user_agent: None, address: None }
    }
}

/// Record of a session, without its cookie.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Time of the sign-in.
    pub created_at: UnixMillis,
    /// End of its life.
    pub expires_at: UnixMillis,
    /// Its last use that is stored; `None` for a session that was not used since its sign-in.
    pub last_used_at: Option<UnixMillis>,
    /// `User-Agent` field of the browser at the sign-in, if it was recorded.
    pub user_agent: Option<String>,
    /// IP address of the browser at the sign-in, if it was recorded.
    pub address: Option<String>,
    /// Whether a sign-in link began it. It ends with the link's API key.
    pub by_link: bool,
}

row! {
    struct Row {
        id: String,
        created_at: i64,
        expires_at: i64,
        last_used_at: Option<i64>,
        user_agent: Option<String>,
        address: Option<String>,
        key_id: Option<String>,
    }
}

impl TryFrom<Row> for Session {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: id(&row.id)?,
            created_at: UnixMillis::new(row.created_at),
            expires_at: UnixMillis::new(row.expires_at),
            last_used_at: row.last_used_at.map(UnixMillis::new),
            user_agent: row.user_agent,
            address: row.address,
            by_link: row.key_id.is_some(),
        })
    }
}

impl Store {
    /// Stores a session that no API key began. Removes expired sessions, and the account's oldest ones beyond
    /// the bound.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn add_session(&self, account: AccountId, new: &NewSession<'_>) -> Result<SessionId> {
        let mut write = self.write().await?;
        let (session, excess) = write.insert_session(account, None, new).await?;
        write.commit().await?;
        self.revoke_sessions(&excess);
        Ok(session)
    }

    /// Returns the unexpired session whose cookie has this digest, with its account.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn session(&self, digest: &str) -> Result<Option<(SessionId, AccountId)>> {
        let row: Option<(String, String)> =
            sqlx::query_as("SELECT id, account_id FROM sessions WHERE digest = $1 AND expires_at > $2")
                .bind(digest)
                .bind(clock::now().as_i64())
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look up a session"))?;
        row.map(|(session, account)| Ok((id(&session)?, id(&account)?))).transpose()
    }

    /// Returns the unexpired sessions of an account, the newest sign-in first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn sessions_of(&self, account: AccountId) -> Result<Vec<Session>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, created_at, expires_at, last_used_at, user_agent, address, key_id FROM sessions \
             WHERE account_id = $1 AND expires_at > $2 ORDER BY created_at DESC, id",
        )
        .bind(account.to_string())
        .bind(clock::now().as_i64())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list sessions"))?;
        rows.into_iter().map(Session::try_from).collect()
    }

    /// Removes a session of an account and revokes its leases. Returns false when the account has no such
    /// session.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_session(&self, account: AccountId, session: SessionId) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query("DELETE FROM sessions WHERE id = $1 AND account_id = $2")
            .bind(session.to_string())
            .bind(account.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a session"))?;
        write.commit().await?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        self.revoke_sessions(&[session]);
        Ok(true)
    }

    /// Removes the sessions of an account, except `keep`, and revokes their leases.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_sessions(&self, account: AccountId, keep: Option<SessionId>) -> Result<()> {
        let mut write = self.write().await?;
        let ended = write.remove_sessions_of(account, keep).await?;
        write.commit().await?;
        self.revoke_sessions(&ended);
        Ok(())
    }

    /// Revokes the leases of removed sessions, after the commit.
    pub(crate) fn revoke_sessions(&self, ended: &[SessionId]) {
        ended.iter().for_each(|session| self.credentials.revoke(&Credential::Session(*session)));
    }
}

impl Write {
    /// Stores a session; it ends with the key, if any. Removes expired sessions, and the oldest ones of the
    /// account beyond the bound. Returns the session and those that made place for it.
    pub(crate) async fn insert_session(
        &mut self,
        account: AccountId,
        key: Option<KeyId>,
        new: &NewSession<'_>,
    ) -> Result<(SessionId, Vec<SessionId>)> {
        sqlx::query("DELETE FROM sessions WHERE expires_at <= $1")
            .bind(clock::now().as_i64())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("sweep sessions"))?;
        let excess = self.make_room_for_session(account).await?;
        let session = SessionId::random();
        sqlx::query(
            "INSERT INTO sessions (id, account_id, key_id, digest, created_at, expires_at, user_agent, address) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(session.to_string())
        .bind(account.to_string())
        .bind(key.map(|key| key.to_string()))
        .bind(new.digest)
        .bind(clock::now().as_i64())
        .bind(new.expires_at.as_i64())
        .bind(new.user_agent)
        .bind(&new.address)
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store a session"))?;
        Ok((session, excess))
    }

    /// Removes the sessions of an account, except `keep`; returns those.
    pub(crate) async fn remove_sessions_of(
        &mut self,
        account: AccountId,
        keep: Option<SessionId>,
    ) -> Result<Vec<SessionId>> {
        let removed: Vec<(String,)> =
            sqlx::query_as("DELETE FROM sessions WHERE account_id = $1 AND id <> $2 RETURNING id")
                .bind(account.to_string())
                .bind(keep.map(|session| session.to_string()).unwrap_or_default())
                .fetch_all(&mut *self.tx)
                .await
                .map_err(failed("remove sessions"))?;
        removed.iter().map(|(text,)| id(text)).collect()
    }

    /// Removes the oldest sessions of an account beyond the bound; returns those.
    async fn make_room_for_session(&mut self, account: AccountId) -> Result<Vec<SessionId>> {
        let oldest: Vec<(String,)> = sqlx::query_as(
            "SELECT id FROM sessions WHERE account_id = $1 ORDER BY created_at DESC, id LIMIT $2 OFFSET $3",
        )
        .bind(account.to_string())
        .bind(ENDED_AT_ONCE)
        .bind(MAX_SESSIONS - 1)
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("look for an account's oldest sessions"))?;
        for (session,) in &oldest {
            sqlx::query("DELETE FROM sessions WHERE id = $1")
                .bind(session)
                .execute(&mut *self.tx)
                .await
                .map_err(failed("remove an old session"))?;
        }
        oldest.iter().map(|(text,)| id(text)).collect()
    }
}
