//! Connection of a controller to the lease of its database, and to what all controllers over it must have in common.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{AnyConnection, Connection, Executor};
use tokio::time::timeout;
use uuid::Uuid;

use super::address::PostgresAddress;
use super::connections::{SESSION, START_TIMEOUT, check_texts, connect};
use super::lease::{self, Epoch, LeaseAnswer, RENEWAL_PAUSE, remaining};
use crate::failed;
use hotdesk_base::clock;
use hotdesk_base::time::deadline::SharedDeadline;
use hotdesk_domain::error::{Error, Result};

/// Longest time of a request for the lease, a new connection included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before a failed renewal is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Longest sleep of the thread that watches the lease. Sleeps do not count the time while the host is suspended.
const WATCH_STEP: Duration = Duration::from_millis(500);

/// A value that all controllers over one database have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedValue {
    /// Id of the folder of stored files.
    Blobs,
    /// Id of the machines that belong to this service.
    Machines,
}

impl SharedValue {
    /// The name of its row in `meta`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blobs => "blobs_id",
            Self::Machines => "machines_id",
        }
    }
}

/// The lease of a database, for one process.
#[derive(Debug)]
pub struct LeaseClient {
    database: PostgresAddress,
    /// Id of this process.
    holder: Uuid,
    /// URL at which other controllers reach this one.
    address: String,
    connection: Option<AnyConnection>,
    /// Beginning of the last request that took or renewed the lease, on the boot clock.
    requested_at: Duration,
    watch: LeaseWatch,
}

/// Clock of a lease for a thread of its own, which runs out also while the async runtime stands still. It counts the time while
/// the host is suspended.
#[derive(Clone, Debug)]
pub struct LeaseWatch {
    /// Beginning of the last request that took or renewed the lease, on the boot clock; `None` without a lease.
    requested_at: Arc<Mutex<Option<Duration>>>,
    deadline: SharedDeadline,
}

impl Default for LeaseWatch {
    /// The clock of a process without the lease.
    fn default() -> Self {
        Self { requested_at: Arc::default(), deadline: SharedDeadline::passed() }
    }
}

impl LeaseWatch {
    /// Blocks this thread until the lease has run out, which is `true`, or was released.
    pub fn has_run_out(&self) -> bool {
        loop {
            let requested_at = *self.requested_at.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(requested_at) = requested_at else { return false };
            let Some(left) = remaining(since(requested_at)) else { return true };
            std::thread::sleep(left.min(WATCH_STEP));
        }
    }

    /// Returns the end of the lease for those that act by it. It has passed while this process has no lease.
    pub fn deadline(&self) -> SharedDeadline {
        self.deadline.clone()
    }

    fn set(&self, requested_at: Option<Duration>) {
        let mut stored = self.requested_at.lock().unwrap_or_else(PoisonError::into_inner);
        let end = |began: Duration| began.saturating_add(remaining(Duration::ZERO).unwrap_or_default());
        self.deadline.set(requested_at.map(end).unwrap_or_default());
        *stored = requested_at;
    }
}

impl LeaseClient {
    /// Connects to a database. Waits up to a minute for a server that starts.
    ///
    /// # Errors
    /// `Internal` with a text for people when the database has another encoding or order of texts than hotdesk needs;
    /// `Unavailable` or `Internal` when it cannot be reached.
    pub async fn open(database: PostgresAddress, address: &str) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let options = database.options().map_err(failed("open the store"))?;
        let mut connection = connect(&options, START_TIMEOUT).await.map_err(failed("open the store"))?;
        check_texts(&mut connection, &database).await?;
        connection.execute(SESSION).await.map_err(failed("open the store"))?;
        Ok(Self {
            database,
            holder: Uuid::new_v4(),
            address: address.to_owned(),
            connection: Some(connection),
            requested_at: clock::since_boot(),
            watch: LeaseWatch::default(),
        })
    }

    /// Returns the clock of the lease that this process has.
    pub fn watch(&self) -> LeaseWatch {
        self.watch.clone()
    }

    /// Whether the database has the table of the lease: not before its first controller, and the first start of this version.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the database fails.
    pub async fn has_table(&mut self) -> Result<bool> {
        let tables: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'leases'",
        )
        .fetch_one(self.connection().await?)
        .await
        .map_err(failed("look for the lease"))?;
        Ok(tables > 0)
    }

    /// Takes or renews the lease, unless another controller holds it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the database fails or does not answer.
    pub async fn request(&mut self) -> Result<LeaseAnswer> {
        let began = clock::since_boot();
        let asked = timeout(REQUEST_TIMEOUT, self.request_once()).await;
        let silent =
            || Error::unavailable("Service temporarily unavailable").context("the database is silent");
        let answer = asked.map_err(|_| silent())??;
        if matches!(answer, LeaseAnswer::Leading(_)) {
            self.requested_at = began;
            self.watch.set(Some(began));
        }
        Ok(answer)
    }

    async fn request_once(&mut self) -> Result<LeaseAnswer> {
        self.connection().await?;
        // A request that fails or is dropped leaves no connection with a transaction.
        let mut connection = self.connection.take().ok_or_else(no_connection)?;
        let (holder, address) = (self.holder, &self.address);
        let answer = async {
            let mut tx = connection.begin().await?;
            let now: i64 =
                sqlx::query_scalar("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)")
                    .fetch_one(&mut *tx)
                    .await?;
            let answer = lease::request_at(&mut tx, holder, address, now).await?;
            tx.commit().await?;
            Ok::<_, sqlx::Error>(answer)
        };
        let answer = answer.await.map_err(failed("request the lease"))?;
        self.connection = Some(connection);
        Ok(answer)
    }

    /// Renews the lease of an epoch. Returns why it is lost, when it is.
    pub async fn keep(&mut self, epoch: Epoch) -> &'static str {
        let expired = "it could not be renewed in time";
        // The first steps of a leader took some of it.
        let mut pause = RENEWAL_PAUSE.saturating_sub(since(self.requested_at));
        loop {
            let Some(left) = remaining(since(self.requested_at)) else { return expired };
            tokio::time::sleep(pause.min(left)).await;
            // This process may have stood still meanwhile.
            let Some(left) = remaining(since(self.requested_at)) else { return expired };
            match timeout(left, self.request()).await {
                Ok(Ok(LeaseAnswer::Leading(found))) if found == epoch => pause = RENEWAL_PAUSE,
                Ok(Ok(LeaseAnswer::Leading(_) | LeaseAnswer::Following(_))) => {
                    return "another controller has taken it";
                }
                Ok(Err(error)) => {
                    tracing::warn!(
                        error = format_args!("{error:#}"),
                        "cannot renew the lease; it is tried again"
                    );
                    pause = RETRY_PAUSE;
                }
                Err(_) => return expired,
            }
        }
    }

    /// Ends the lease, so that another controller takes it at once. A failure only delays that.
    pub async fn release(&mut self) {
        self.watch.set(None);
        let holder = self.holder;
        let released = timeout(REQUEST_TIMEOUT, async {
            let connection = self.connection().await?;
            lease::release(connection, holder).await.map_err(failed("release the lease"))
        });
        if let Ok(Err(error)) = released.await {
            tracing::debug!(error = format_args!("{error:#}"), "the lease is released by its end");
        }
    }

    /// Returns a value that controllers have in common; `None` before the first one of several has led.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the database fails.
    pub async fn shared_value(&mut self, value: SharedValue) -> Result<Option<String>> {
        sqlx::query_scalar("SELECT value FROM meta WHERE name = $1")
            .bind(value.name())
            .fetch_optional(self.connection().await?)
            .await
            .map_err(failed("read a value that controllers share"))
    }

    /// Stores a value that controllers have in common, in place of the former one. Only the leader does.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the database fails.
    pub async fn share(&mut self, value: SharedValue, text: &str) -> Result<()> {
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(value.name())
        .bind(text)
        .execute(self.connection().await?)
        .await
        .map(drop)
        .map_err(failed("store a value that controllers share"))
    }

    /// Whether the database has computers.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the database fails.
    pub async fn has_computers(&mut self) -> Result<bool> {
        let computers: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM computers")
            .fetch_one(self.connection().await?)
            .await
            .map_err(failed("count the computers"))?;
        Ok(computers > 0)
    }

    /// Returns the connection, a new one if the former has failed.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the database cannot be reached.
    pub(crate) async fn connection(&mut self) -> Result<&mut AnyConnection> {
        if self.connection.is_none() {
            let options = self.database.options().map_err(failed("connect to the store"))?;
            let mut fresh =
                connect(&options, Duration::ZERO).await.map_err(failed("connect to the store"))?;
            fresh.execute(SESSION).await.map_err(failed("connect to the store"))?;
            self.connection = Some(fresh);
        }
        self.connection.as_mut().ok_or_else(no_connection)
    }
}

/// The time since an earlier time of the boot clock.
fn since(earlier: Duration) -> Duration {
    clock::since_boot().saturating_sub(earlier)
}

fn no_connection() -> Error {
    Error::internal("the connection of the lease is in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_lease_runs_out_unless_it_was_released() {
        let watch = LeaseWatch::default();
        let deadline = watch.deadline();
        assert!(!watch.has_run_out() && deadline.has_passed());
        watch.set(Some(clock::since_boot()));
        assert!(!deadline.has_passed());
        let past = clock::since_boot().checked_sub(Duration::from_millis(9_400));
        watch.set(past);
        // A host that has just booted has no such past.
        if let Some(past) = past {
            assert!(watch.has_run_out() && deadline.has_passed());
            assert!(since(past) >= Duration::from_millis(9_500));
        }
        watch.set(Some(clock::since_boot()));
        watch.set(None);
        assert!(!watch.has_run_out() && deadline.has_passed());
    }
}
