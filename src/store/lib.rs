//! Store of the controller, in the embedded SQLite or in PostgreSQL: all state that survives a restart.
//!
//! One writer runs at a time. Each method is one transaction unless its documentation says otherwise.
//!
//! The same SQL runs on both databases (`$1` placeholders, no booleans, times as BIGINT); `database` has all that differs.
//! Only this crate contains SQL.
//!
//! Errors of every method: `Unavailable` with a retry time for a temporary failure (locked database, full or
//! unreadable disk, a server that does not answer), `Internal` for a defect. A write that fails is rolled back. Times in
//! the database are Unix milliseconds.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use sqlx::{Any, AnyPool, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use database::{
    Access, Connections, Database, FailureKind, LeaseClient, SharedValue, classify, is_duplicate,
};
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
pub mod database;
pub mod files;
pub mod fleet;
pub mod hosts;
pub mod idempotency;
pub mod identity;
pub mod secrets;
pub mod templates;
mod vault;

/// The store of one installation. Clones share the connections.
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
    /// Connections for reads.
    pool: AnyPool,
    connections: Connections,
    writer: Arc<Mutex<()>>,
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
    /// Opens a SQLite file as [`Store::open_with`], with the key file of [`default_key_file`].
    ///
    /// # Errors
    /// Those of [`Store::open_database`].
    pub async fn open(file: &Path) -> Result<Self> {
        Self::open_with(file, &default_key_file(file)).await
    }

    /// Opens a SQLite file as [`Store::open_database`].
    ///
    /// # Errors
    /// Those of [`Store::open_database`].
    pub async fn open_with(file: &Path, key_file: &Path) -> Result<Self> {
        Self::open_database(&Database::Sqlite(file.to_owned()), key_file, Access::Shared).await
    }

    /// Opens the database, and runs the migrations. A SQLite file (mode 0600) is created if needed. `key_file` seals the
    /// secrets in it; a new database gets a new one unless it exists.
    ///
    /// # Errors
    /// `Internal` when the reserve cannot be released, the database cannot be opened or a migration fails, or, with the
    /// remedy, when another controller has the database of PostgreSQL, or the key file is missing or belongs to another
    /// database; `Unavailable` when the disk is full, the database is locked or its server does not answer.
    pub async fn open_database(database: &Database, key_file: &Path, access: Access) -> Result<Self> {
        let connections = Connections::open(database, access).await?;
        database::migrate(&connections).await?;
        let key_file = KeyFile::new(key_file);
        let vault = vault::open(&connections, &key_file).await?;
        connections.reserve().await;
        Ok(Self {
            pool: connections.pool.clone(),
            connections,
            key_file,
            vault,
            writer: Arc::default(),
            credentials: RevocationRegistry::default(),
            passwords: RevocationRegistry::default(),
            memberships: RevocationRegistry::default(),
            changes: RecordChanges::default(),
            opened_at: clock::now(),
        })
    }

    /// Closes all connections. On SQLite this merges the write-ahead log into the file, and reserves disk space for the
    /// next start.
    pub async fn close(&self) {
        self.connections.close().await;
    }

    /// Runs an empty query to check that the store responds.
    ///
    /// # Errors
    /// `Unavailable` when no connection is free or the disk fails; `Internal` for any other failure.
    pub async fn check(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await.map(|_| ()).map_err(failed("check the store"))
    }

    /// Checks that a key file belongs to the database of a lease, before its controller leads.
    ///
    /// # Errors
    /// `Internal`, with the file and the remedy, when it is missing or belongs to another database; those of the database.
    pub async fn check_key_file(lease: &mut LeaseClient, key_file: &Path) -> Result<()> {
        vault::check(lease.connection().await?, &KeyFile::new(key_file)).await
    }

    /// Returns a value that all controllers over the database have in common. Stores `own` if there is none.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn share(&self, value: SharedValue, own: &str) -> Result<String> {
        let mut write = self.write().await?;
        sqlx::query("INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
            .bind(value.name())
            .bind(own)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a value that controllers share"))?;
        let stored: String = sqlx::query_scalar("SELECT value FROM meta WHERE name = $1")
            .bind(value.name())
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("read a value that controllers share"))?;
        write.commit().await?;
        Ok(stored)
    }

    async fn write(&self) -> Result<Write> {
        let turn = Arc::clone(&self.writer).lock_owned().await;
        let tx = self.connections.begin_write().await.map_err(failed("begin a write"))?;
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
        let temporary = || Error::unavailable("Service temporarily unavailable").retry_after(5);
        let refused = match classify(&error) {
            FailureKind::Temporary => temporary(),
            FailureKind::DiskFull => temporary().code(ErrorCode::DiskFull),
            FailureKind::Unstorable => Error::invalid("a text contains the character NUL (U+0000)"),
            FailureKind::Defect => return Error::internal(format!("{step}: {error}")),
        };
        refused.context(format!("{step}: {error}"))
    }
}

/// Parses an id that this store wrote.
fn id<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::internal(format!("the store holds a bad id: {text:?}")))
}
