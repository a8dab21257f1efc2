//! Which programs wait for a key that a person approves? Both codes as SHA-256 only; a key's text is never here.

use super::accounts::{NewKey, insert_key};
use super::{Store, Write, failed, id};
use hotdesk_base::clock::Moment;
use hotdesk_base::ids::{AccountId, KeyId};
use hotdesk_domain::device::is_alive;
use hotdesk_domain::error::{Error, Result};

/// Programs that wait at once (access.md A32): the one that has waited longest makes room.
pub const MAX_WAITING: usize = 1000;

/// What a program that asks for a key stores.
#[derive(Clone, Debug)]
pub struct NewDevice<'a> {
    /// SHA-256 of the code that it polls with, hex.
    pub device_digest: &'a str,
    /// SHA-256 of the code that its person types, hex.
    pub user_digest: &'a str,
    /// What it calls itself, as a page may show it.
    pub client: &'a str,
    /// Where it says that it runs, as a page may show it.
    pub hostname: &'a str,
    /// From where it asked, for people.
    pub source: &'a str,
    /// When it asked.
    pub began: &'a Moment,
}

/// How a person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Not yet.
    Pending,
    /// Yes.
    Approved,
    /// No.
    Denied,
}

impl Decision {
    /// Its word in the store.
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

/// A program that waits.
#[derive(Clone, Debug)]
pub struct Device {
    /// What it calls itself.
    pub client: String,
    /// Where it says that it runs.
    pub hostname: String,
    /// From where it asked.
    pub source: String,
    /// How its person decided.
    pub decision: Decision,
    digest: String,
    key: Option<KeyId>,
    began: Moment,
}

#[derive(sqlx::FromRow)]
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

impl TryFrom<Row> for Device {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            client: row.client,
            hostname: row.hostname,
            source: row.source,
            decision: Decision::named(&row.status)?,
            digest: row.device_digest,
            key: row.key_id.as_deref().map(id).transpose()?,
            began: Moment { wall_ms: row.began_at, boot_id: row.boot_id, up_ms: row.began_up_ms },
        })
    }
}

/// By which of its codes a program is looked for.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// The digest of its own.
    Device(&'a str),
    /// The digest of its person's.
    User(&'a str),
}

impl By<'_> {
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
    /// Stores a program that asks for a key; those whose time is over go, and with them keys that nobody fetched.
    ///
    /// # Errors
    /// When the store fails.
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
        .bind(new.began.wall_ms)
        .bind(&new.began.boot_id)
        .bind(new.began.up_ms)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a device's request"))?;
        write.commit().await
    }

    /// A program whose time is not over.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn device(&self, by: By<'_>, now: &Moment) -> Result<Option<Device>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(by.select()))
            .bind(by.digest())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a device's request"))?;
        alive(row, now)
    }

    /// Approves a program that waits, by its person's code: makes the record of its key, whose text is made when it is
    /// fetched. That record; `None` when nothing waits there (any more).
    ///
    /// # Errors
    /// `Forbidden` (`KEY_LIMIT`) for an account with as many keys as may be; or the store fails.
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
        write.decide(&device, Decision::Approved, Some(made)).await?;
        write.commit().await?;
        Ok(Some(made))
    }

    /// Denies a program that waits, by its person's code. False when nothing waits there (any more).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn deny_device(&self, user_digest: &str, now: &Moment) -> Result<bool> {
        let mut write = self.write().await?;
        let Some(device) = write.waiting(user_digest, now).await? else { return Ok(false) };
        write.decide(&device, Decision::Denied, None).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Gives the key of an approved program the text with this digest, and forgets the program: of many polls at once one
    /// gets here. Whose key it is, with the address that they sign in with; `None` for the others.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn hand_out(
        &self,
        device_digest: &str,
        digest: &str,
        last_four: &str,
        now: &Moment,
    ) -> Result<Option<(AccountId, String)>> {
        let mut write = self.write().await?;
        let device = write.device(By::Device(device_digest), now).await?;
        let Some(key) = device.and_then(|device| device.key) else { return Ok(None) };
        write.forget_device(device_digest).await?;
        sqlx::query("UPDATE api_keys SET digest = $2, last_four = $3 WHERE id = $1")
            .bind(key.to_string())
            .bind(digest)
            .bind(last_four)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("hand out a key"))?;
        let owner: Option<(String, String)> = sqlx::query_as(
            "SELECT a.id, a.email FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.id = $1",
        )
        .bind(key.to_string())
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("read whose key it is"))?;
        write.commit().await?;
        owner.map(|(account, email)| Ok((id(&account)?, email))).transpose()
    }

    /// Forgets a program that was told what there was to tell; false when it was told before.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_device(&self, device_digest: &str) -> Result<bool> {
        let mut write = self.write().await?;
        let forgotten = write.forget_device(device_digest).await?;
        write.commit().await?;
        Ok(forgotten)
    }
}

fn alive(row: Option<Row>, now: &Moment) -> Result<Option<Device>> {
    let device = row.map(Device::try_from).transpose()?;
    Ok(device.filter(|device| is_alive(now.since(&device.began))))
}

impl Write {
    async fn device(&mut self, by: By<'_>, now: &Moment) -> Result<Option<Device>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(by.select()))
            .bind(by.digest())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read a device's request"))?;
        alive(row, now)
    }

    /// The program that waits for its person's decision.
    async fn waiting(&mut self, user_digest: &str, now: &Moment) -> Result<Option<Device>> {
        let found = self.device(By::User(user_digest), now).await?;
        Ok(found.filter(|device| device.decision == Decision::Pending))
    }

    async fn decide(&mut self, device: &Device, decision: Decision, key: Option<KeyId>) -> Result<()> {
        sqlx::query("UPDATE device_requests SET status = $2, key_id = $3 WHERE device_digest = $1")
            .bind(&device.digest)
            .bind(decision.name())
            .bind(key.map(|key| key.to_string()))
            .execute(&mut *self.tx)
            .await
            .map(drop)
            .map_err(failed("decide a device's request"))
    }

    async fn forget_device(&mut self, device_digest: &str) -> Result<bool> {
        let forgotten = sqlx::query("DELETE FROM device_requests WHERE device_digest = $1")
            .bind(device_digest)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("forget a device's request"))?;
        Ok(forgotten.rows_affected() > 0)
    }

    /// Removes what is over, and makes room for one more.
    async fn sweep_devices(&mut self, now: &Moment) -> Result<()> {
        let rows: Vec<Row> = sqlx::query_as("SELECT * FROM device_requests ORDER BY began_at, device_digest")
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list devices' requests"))?;
        let all: Vec<Device> = rows.into_iter().map(Device::try_from).collect::<Result<_>>()?;
        let (alive, over): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|device| is_alive(now.since(&device.began)));
        let excess = (alive.len() + 1).saturating_sub(MAX_WAITING);
        let undecided = alive.iter().filter(|device| device.decision != Decision::Approved);
        for device in over.iter().chain(undecided.take(excess)) {
            self.forget_device(&device.digest).await?;
            if let Some(key) = device.key {
                sqlx::query("DELETE FROM api_keys WHERE id = $1")
                    .bind(key.to_string())
                    .execute(&mut *self.tx)
                    .await
                    .map_err(failed("remove a key that nobody fetched"))?;
            }
        }
        Ok(())
    }
}
