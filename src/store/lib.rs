//! Embedded SQLite store of the controller: all state that survives a restart.
//!
//! The database uses WAL and `synchronous=FULL`. One writer runs at a time. Each method is one transaction
//! unless its documentation says otherwise.
//!
//! The SQL also runs on PostgreSQL (`$1` placeholders, no booleans, times as BIGINT), so that one code path
//! can serve both. Only this crate contains SQL.
//!
//! Errors of every method: `Unavailable` with a retry time for a temporary failure (locked database, full or
//! unreadable disk), `Internal` for a defect. A write that fails is rolled back. Times in the database
//! are Unix milliseconds.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyPool, ConnectOptions, Executor, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use fleet::changes::{CommitNotices, RecordChange, RecordChanges};
use fleet::passwords::PasswordDigest;
use hotdesk_base::clock;
use hotdesk_base::revocation_registry::RevocationRegistry;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Credential;
use identity::members::Membership;
use vault::{KeyFile, Vault};

#[macro_use]
mod row;

pub mod audit;
pub mod billing;
mod disk_reserve;
pub mod files;
pub mod fleet;
pub mod idempotency;
pub mod identity;
mod schema;
pub mod secrets;
pub mod templates;
mod vault;

/// Pool size: one connection writes and the others read; more would only queue on two cores.
const CONNECTIONS: u32 = 4;
/// Longest wait for a connection, after which the request fails with 503.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// The store of one data folder. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Store {
    /// Leases of credentials in use; the store revokes them when it removes the credential.
    pub credentials: RevocationRegistry<Credential>,
    /// Leases of passwords that opened a socket; the store revokes them when it changes the password, except
    /// at a boot.
    pub passwords: RevocationRegistry<PasswordDigest>,
    /// Leases of members who work in a workspace of another account; the store revokes them when a member is
    /// removed or becomes a viewer.
    pub memberships: RevocationRegistry<Membership>,
    /// Notices of changed records. Parts of a computer's record that are not stored are noted here, too.
    pub changes: RecordChanges,
    pool: AnyPool,
    writer: Arc<Mutex<()>>,
    file: PathBuf,
    key_file: KeyFile,
    vault: Vault,
    /// Time at which the store was opened. A run that was not seen since then may have ended.
    opened_at: UnixMillis,
}

/// A write transaction. It holds the writer lock until it is committed; dropping it rolls it back.
struct Write {
    _turn: OwnedMutexGuard<()>,
    tx: Transaction<'static, Any>,
    vault: Vault,
    opened_at: UnixMillis,
    notices: CommitNotices,
}

impl Write {
    /// Notes that this transaction changes a record that others watch.
    pub(crate) fn note(&mut self, change: RecordChange) {
        self.notices.note(change);
    }

    async fn commit(mut self) -> Result<()> {
        self.notices.begin_commit();
        self.tx.commit().await.map_err(failed("commit"))
    }
}

impl Store {
    /// Opens the store file as [`Store::open_with`], with the key file of [`default_key_file`].
    ///
    /// # Errors
    /// Those of [`Store::open_with`].
    pub async fn open(file: &Path) -> Result<Self> {
        Self::open_with(file, &default_key_file(file)).await
    }

    /// Opens the store file (mode 0600), creates it if needed, and runs the migrations. `key_file` seals the secrets
    /// in it; a new database gets a new one unless it exists.
    ///
    /// # Errors
    /// `Internal` when the reserve cannot be released, the file cannot be opened or a migration fails, or, with the
    /// remedy, when the key file is missing or belongs to another database; `Unavailable` when the disk is full or
    /// the database is locked.
    pub async fn open_with(file: &Path, key_file: &Path) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        sqlx::any::install_default_drivers();
        let released = disk_reserve::release(file);
        released.map_err(|error| {
            Error::internal(format!("release the disk reserve of {}: {error}", file.display()))
        })?;
        let created = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file);
        created.map_err(|error| Error::internal(format!("open {}: {error}", file.display())))?;
        let url = format!("sqlite://{}", file.display());
        // Statement logs at debug level would hide the other log lines.
        let options =
            AnyConnectOptions::from_str(&url).map_err(failed("open the store"))?.disable_statement_logging();
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    // FULL: an acknowledged write survives a power cut.
                    let pages = disk_reserve::CHECKPOINT_PAGES;
                    connection
                        .execute(sqlx::AssertSqlSafe(format!(
                            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                             PRAGMA busy_timeout = 5000; PRAGMA wal_autocheckpoint = {pages};",
                        )))
                        .await?;
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(failed("open the store"))?;
        schema::migrate(&pool).await?;
        let key_file = KeyFile::new(key_file);
        let vault = vault::open(&pool, &key_file).await?;
        disk_reserve::reserve_in_files(&pool).await;
        Ok(Self {
            pool,
            key_file,
            vault,
            writer: Arc::default(),
            file: file.to_owned(),
            credentials: RevocationRegistry::default(),
            passwords: RevocationRegistry::default(),
            memberships: RevocationRegistry::default(),
            changes: RecordChanges::default(),
            opened_at: clock::now(),
        })
    }

    /// Closes all connections, which merges the write-ahead log into the file, and reserves disk space for
    /// the next start.
    pub async fn close(&self) {
        self.pool.close().await;
        disk_reserve::reserve_on_close(&self.file);
    }

    /// Runs an empty query to check that the store responds.
    ///
    /// # Errors
    /// `Unavailable` when no connection is free or the disk fails; `Internal` for any other failure.
    pub async fn check(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await.map(|_| ()).map_err(failed("check the store"))
    }

    async fn write(&self) -> Result<Write> {
        let turn = Arc::clone(&self.writer).lock_owned().await;
        let tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a write"))?;
        let notices = CommitNotices::new(self.changes.clone());
        Ok(Write { _turn: turn, tx, vault: self.vault.clone(), opened_at: self.opened_at, notices })
    }
}

/// The key file of a store that has no other one: `hotdesk.key` beside `hotdesk.db`.
pub fn default_key_file(store: &Path) -> PathBuf {
    store.with_extension("key")
}

/// Maps a database error: temporary failures become `Unavailable`, all others `Internal`.
fn failed(step: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| {
        let is_temporary_error =
            matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_))
                || matches!(&error, sqlx::Error::Database(inner) if is_temporary(inner.message()));
        if is_temporary_error {
            let refused = Error::unavailable("Service temporarily unavailable").retry_after(5);
            let full = error.to_string().contains("disk is full");
            let refused = if full { refused.code(ErrorCode::DiskFull) } else { refused };
            refused.context(format!("{step}: {error}"))
        } else {
            Error::internal(format!("{step}: {error}"))
        }
    }
}

/// Whether SQLite's message says that the database is locked or its disk is full or unreadable.
fn is_temporary(message: &str) -> bool {
    [
        "database is locked",
        "locking protocol",
        "disk is full",
        "disk I/O error",
        "unable to open database file",
        "readonly database",
    ]
    .iter()
    .any(|known| message.contains(known))
}

/// Whether a write failed because it violates a UNIQUE constraint.
fn is_duplicate(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(inner) if inner.is_unique_violation())
}

/// Parses an id that this store wrote.
fn id<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::internal(format!("the store holds a bad id: {text:?}")))
}
