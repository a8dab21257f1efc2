//! Device authorization requests: programs that wait until a person approves a key. Both codes are stored as
//! SHA-256; the key's text is never stored.

use crate::identity::accounts::{NewKey, insert_key};
use crate::{Store, Write, failed, id};
use hotdesk_base::clock::Moment;
use hotdesk_base::ids::{AccountId, KeyId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::device::is_alive;

/// Most requests at once (A32, docs/authentication-rules.md); the oldest is evicted.
pub const MAX_WAITING: usize = 1000;

/// Record of a new device authorization request.
#[derive(Clone, Debug)]
pub struct NewDevice<'a> {
    /// SHA-256 of the code with which the program polls, in hex.
    pub device_digest: &'a str,
    /// SHA-256 of the code that the person types, in hex.
    pub user_digest: &'a str,
    /// Name of the program, cleaned for display.
    pub client: &'a str,
    /// Host name that the program reports, cleaned for display.
    pub hostname: &'a str,
    /// Client address, for display.
    pub source: &'a str,
    /// Time of the request.
    pub began: &'a Moment,
}

/// Decision of the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceDecision {
    /// No decision yet.
    Pending,
    /// The key was approved.
    Approved,
    /// The key was denied.
    Denied,
}

impl DeviceDecision {
    /// Its value in the database.
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
        }
    }

    fn named(name: &str) -> Result<Self> {
        [Self::Pending, Self::Approved, Self::Denied]
            .into_iter()
            .find(|known| known.name() == name)
            .ok_or_else(|| Error::internal(format!("the store holds a bad decision: {name:?}")))
    }
}

/// A device authorization request.
#[derive(Clone, Debug)]
pub struct DeviceRequest {
    /// Name of the program.
    pub client: String,
    /// Host name that the program reports.
    pub hostname: String,
    /// Client address.
    pub source: String,
    /// Decision of the person.
    pub decision: DeviceDecision,
    digest: String,
    key: Option<KeyId>,
    began: Moment,
}

row! {
    struct Row {
        device_digest: String,
        client: String,
        hostname: String,
        source: String,
        status: String,
        key_id: Option<String>,
        began_at: i64,
        boot_id: String,
        began_up_ms: i64,
    }
}

impl TryFrom<Row> for DeviceRequest {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            client: row.client,
            hostname: row.hostname,
            source: row.source,
            decision: DeviceDecision::named(&row.status)?,
            digest: row.device_digest,
            key: row.key_id.as_deref().map(id).transpose()?,
            began: Moment {
                wall: UnixMillis::new(row.began_at),
                boot_id: row.boot_id,
                up_ms: row.began_up_ms,
            },
        })
    }
}

/// Digest of the code by which a device request is looked up.
#[derive(Clone, Copy, Debug)]
pub enum CodeDigest<'a> {
    /// Digest of the program's code.
    Device(&'a str),
    /// Digest of the person's code.
    User(&'a str),
}

impl CodeDigest<'_> {
    fn select(self) -> String {
        let column = match self {
            Self::Device(_) => "device_digest",
            Self::User(_) => "user_digest",
        };
        format!("SELECT * FROM device_requests WHERE {column} = $1")
    }

    fn digest(&self) -> &str {
        match self {
            Self::Device(digest) | Self::User(digest) => digest,
        }
    }
}

impl Store {
    /// Stores a request. Removes expired requests, and the keys of approved ones that were never fetched.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn add_device(&self, new: &NewDevice<'_>) -> Result<()> {
        let mut write = self.write().await?;
        write.sweep_devices(new.began).await?;
        sqlx::query(
            "INSERT INTO device_requests (device_digest, user_digest, client, hostname, source, status, began_at, \
             boot_id, began_up_ms) VALUES ($1, $2, $3, $4, $5, 'pending', $6, $7, $8)",
        )
        .bind(new.device_digest)
        .bind(new.user_digest)
        .bind(new.client)
        .bind(new.hostname)
        .bind(new.source)
        .bind(new.began.wall.as_i64())
        .bind(&new.began.boot_id)
        .bind(new.began.up_ms)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a device request"))?;
        write.commit().await
    }

    /// Returns a request that has not expired, or `None`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn device(&self, by: CodeDigest<'_>, now: &Moment) -> Result<Option<DeviceRequest>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(by.select()))
            .bind(by.digest())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a device request"))?;
        alive(row, now)
    }

    /// Approves a request by the person's code: stores a key without a text, which is generated when the
    /// program fetches it. Returns the key's id, or `None` when no request is undecided.
    ///
    /// # Errors
    /// `Forbidden` (`KEY_LIMIT`) when the account has the most keys that it may have; `Unavailable` or
    /// `Internal` when the store fails. Nothing is changed then.
    pub async fn approve_device(
        &self,
        user_digest: &str,
        key: &NewKey<'_>,
        now: &Moment,
    ) -> Result<Option<KeyId>> {
        let mut write = self.write().await?;
        let Some(device) = write.waiting(user_digest, now).await? else { return Ok(None) };
        write.check_keys(key.account, key.workspace).await?;
        let made = KeyId::random();
        insert_key(&mut write, made, key).await?;
        write.decide(&device, DeviceDecision::Approved, Some(made)).await?;
        write.commit().await?;
        Ok(Some(made))
    }

    /// Denies a request by the person's code. Returns false when no request is undecided.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn deny_device(&self, user_digest: &str, now: &Moment) -> Result<bool> {
        let mut write = self.write().await?;
        let Some(device) = write.waiting(user_digest, now).await? else { return Ok(false) };
        write.decide(&device, DeviceDecision::Denied, None).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Sets the digest of an approved request's key and removes the request, so that only one of several
    /// polls gets the key. Returns the owner's account and e-mail address; `None` for the other polls.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn issue_device_key(
        &self,
        device_digest: &str,
        digest: &str,
        last_four: &str,
        now: &Moment,
    ) -> Result<Option<(AccountId, String)>> {
        let mut write = self.write().await?;
        let device = write.device(CodeDigest::Device(device_digest), now).await?;
        let Some(key) = device.and_then(|device| device.key) else { return Ok(None) };
        write.forget_device(device_digest).await?;
        sqlx::query("UPDATE api_keys SET digest = $2, last_four = $3 WHERE id = $1")
            .bind(key.to_string())
            .bind(digest)
            .bind(last_four)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("issue a device's key"))?;
        let owner: Option<(String, String)> = sqlx::query_as(
            "SELECT a.id, a.email FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.id = $1",
        )
        .bind(key.to_string())
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("read the owner of a key"))?;
        write.commit().await?;
        owner.map(|(account, email)| Ok((id(&account)?, email))).transpose()
    }

    /// Removes a request whose outcome was delivered; returns false when it did not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn forget_device(&self, device_digest: &str) -> Result<bool> {
        let mut write = self.write().await?;
        let forgotten = write.forget_device(device_digest).await?;
        write.commit().await?;
        Ok(forgotten)
    }
}

fn alive(row: Option<Row>, now: &Moment) -> Result<Option<DeviceRequest>> {
    let device = row.map(DeviceRequest::try_from).transpose()?;
    Ok(device.filter(|device| is_alive(now.since(&device.began))))
}

impl Write {
    async fn device(&mut self, by: CodeDigest<'_>, now: &Moment) -> Result<Option<DeviceRequest>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(by.select()))
            .bind(by.digest())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read a device request"))?;
        alive(row, now)
    }

    /// Returns the undecided request with the person's code.
    async fn waiting(&mut self, user_digest: &str, now: &Moment) -> Result<Option<DeviceRequest>> {
        let found = self.device(CodeDigest::User(user_digest), now).await?;
        Ok(found.filter(|device| device.decision == DeviceDecision::Pending))
    }

    async fn decide(
        &mut self,
        device: &DeviceRequest,
        decision: DeviceDecision,
        key: Option<KeyId>,
    ) -> Result<()> {
        sqlx::query("UPDATE device_requests SET status = $2, key_id = $3 WHERE device_digest = $1")
            .bind(&device.digest)
            .bind(decision.name())
            .bind(key.map(|key| key.to_string()))
            .execute(&mut *self.tx)
            .await
            .map(drop)
            .map_err(failed("store a decision on a device request"))
    }

    async fn forget_device(&mut self, device_digest: &str) -> Result<bool> {
        let forgotten = sqlx::query("DELETE FROM device_requests WHERE device_digest = $1")
            .bind(device_digest)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("remove a device request"))?;
        Ok(forgotten.rows_affected() > 0)
    }

    /// Removes expired requests, and the oldest ones beyond the bound.
    async fn sweep_devices(&mut self, now: &Moment) -> Result<()> {
        let rows: Vec<Row> = sqlx::query_as("SELECT * FROM device_requests ORDER BY began_at, device_digest")
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list device requests"))?;
        let all: Vec<DeviceRequest> = rows.into_iter().map(DeviceRequest::try_from).collect::<Result<_>>()?;
        let (alive, over): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|device| is_alive(now.since(&device.began)));
        let excess = (alive.len() + 1).saturating_sub(MAX_WAITING);
        let undecided = alive.iter().filter(|device| device.decision != DeviceDecision::Approved);
        for device in over.iter().chain(undecided.take(excess)) {
            self.forget_device(&device.digest).await?;
            if let Some(key) = device.key {
                sqlx::query("DELETE FROM api_keys WHERE id = $1")
                    .bind(key.to_string())
                    .execute(&mut *self.tx)
                    .await
                    .map_err(failed("remove an unfetched key"))?;
            }
        }
        Ok(())
    }
}
