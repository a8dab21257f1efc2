//! Connections to the database of a store. All that SQLite and PostgreSQL need differently is here.
//!
//! | | SQLite | PostgreSQL |
//! |---|---|---|
//! | a write begins with | `BEGIN IMMEDIATE` | `BEGIN`, then the advisory lock [`WRITE_LOCK`] |
//! | one controller | lock of the data folder | advisory lock [`CONTROLLER_LOCK`], held by the connection that writes |
//! | durable writes | `synchronous = FULL` | `synchronous_commit = on` |
//! | reserve for a full disk | `disk_reserve.rs` | the operator's |
//!
//! The controller's lock belongs to the session of its only writing connection. When that session ends, for example with the
//! server, the next write takes the lock again or fails: no controller writes while another one has the lock.
//!
//! Of several controllers, only the holder of the lease opens the database (`lease.rs`). It ends the writing session of the
//! former holder before it takes the lock, and each of its writes checks that it is still the holder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyConnection, AnyPool, ConnectOptions, Connection, Executor, Transaction};

use super::address::PostgresAddress;
use super::disk_reserve;
use super::errors::{FailureKind, classify};
use super::lease::{self, Epoch};
use crate::failed;
use hotdesk_domain::error::{Error, Result};

/// Connections of a store: one writes and the others read; more would only queue on two cores.
const CONNECTIONS: u32 = 4;
/// Longest wait for a connection, after which the request fails with 503.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the lock of a controller that was killed: its server ends the session when it notices.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait of a controller's start for a server that does not answer, such as one that starts with the host.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two attempts to connect, or to take the lock.
const PAUSE: Duration = Duration::from_millis(100);

/// Advisory lock of each write transaction: "hotdesk" in ASCII, and a number. It gives PostgreSQL the one writer that counts
/// before an insert, and numbers of the audit log, rely on. Such locks belong to one database.
const WRITE_LOCK: i64 = 0x686f_7464_6573_6b01;
/// Advisory lock of the controller.
const CONTROLLER_LOCK: i64 = WRITE_LOCK + 1;

/// Settings of a session of PostgreSQL, whatever the server's defaults are. Writes wait as long for each other as on SQLite,
/// and a server notices within a minute that the controller's host is gone.
pub(super) const SESSION: &str = "SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; \
    SET lock_timeout = '5s'; SET client_min_messages = warning; SET tcp_keepalives_idle = 20; \
    SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3";

/// Database of a store.
#[derive(Clone, Debug)]
pub enum Database {
    /// File of the embedded SQLite.
    Sqlite(PathBuf),
    /// Database of a PostgreSQL server.
    Postgres(PostgresAddress),
}

/// Who else may use the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No controller: the caller is one, or changes what one relies on. On SQLite the caller holds the data folder's lock.
    Exclusive,
    /// A controller, and others.
    Shared,
    /// No controller, as [`Self::Exclusive`]: the caller holds the lease of PostgreSQL in this epoch. Its writes are refused
    /// when another one has taken the lease.
    Leader(Epoch),
}

impl Access {
    fn epoch(self) -> Option<Epoch> {
        match self {
            Self::Leader(epoch) => Some(epoch),
            Self::Exclusive | Self::Shared => None,
        }
    }
}

impl Database {
    /// Returns the statement that lists all tables, that of the migrations included, in alphabetical order.
    pub(super) fn list_of_tables(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => {
                "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
            }
            Self::Postgres(_) => {
                "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
            }
        }
    }
}

/// The path of the file, or the URL without its parameters.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(file) => write!(f, "{}", file.display()),
            Self::Postgres(address) => write!(f, "{address}"),
        }
    }
}

/// Open connections. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    /// Connections for reads outside of a write.
    pub(crate) pool: AnyPool,
    /// Connection of writes; on SQLite any of the pool.
    writer: AnyPool,
    database: Database,
    /// Epoch of the lease that the controller holds, if it is one of several.
    epoch: Option<Epoch>,
}

impl Connections {
    /// Opens the database; creates the file of SQLite (mode 0600) if it is missing.
    ///
    /// # Errors
    /// `Internal`, with a text for people, when another controller has the database, or it has another encoding or order
    /// of texts than hotdesk needs; `Internal` when it cannot be opened; `Unavailable` when it does not answer.
    pub(crate) async fn open(database: &Database, access: Access) -> Result<Self> {
        sqlx::any::install_default_drivers();
        match database {
            Database::Sqlite(file) => Self::open_sqlite(file).await,
            Database::Postgres(address) => Self::open_postgres(address, access).await,
        }
    }

    async fn open_sqlite(file: &Path) -> Result<Self> {
        let pool = pool_options(CONNECTIONS)
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
            .connect_with(open_file(file)?)
            .await
            .map_err(failed("open the store"))?;
        Ok(Self { writer: pool.clone(), pool, database: Database::Sqlite(file.to_owned()), epoch: None })
    }

    async fn open_postgres(address: &PostgresAddress, access: Access) -> Result<Self> {
        let options = address.options().map_err(failed("open the store"))?;
        let (is_exclusive, epoch) = (access != Access::Shared, access.epoch());
        check_server(&options, address, access).await?;
        let pool = pool_options(CONNECTIONS - 1)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute(SESSION).await?;
                    Ok(())
                })
            })
            .connect_with(options.clone())
            .await
            .map_err(failed("open the store"))?;
        let writer = pool_options(1)
            // The lock is released with the connection.
            .idle_timeout(None::<Duration>)
            .max_lifetime(None::<Duration>)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    connection.execute(SESSION).await?;
                    if let Some(epoch) = epoch {
                        let name = lease::session_name(epoch);
                        let set = format!("SET application_name = '{name}'");
                        connection.execute(sqlx::AssertSqlSafe(set)).await?;
                    }
                    if is_exclusive && !try_controller_lock(connection).await? {
                        return Err(sqlx::Error::Configuration(
                            "another controller uses the database".into(),
                        ));
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(failed("open the store"))?;
        Ok(Self { pool, writer, database: Database::Postgres(address.clone()), epoch })
    }

    /// Begins the only write transaction of the database. Dropping it rolls it back.
    ///
    /// # Errors
    /// Those of the database, and one that is temporary for clients when this controller leads no more.
    pub(crate) async fn begin_write(&self) -> sqlx::Result<Transaction<'static, Any>> {
        match &self.database {
            // What is read stays true until the first write. A transaction that has read fails at its first write,
            // without a wait, when another program has written meanwhile.
            Database::Sqlite(_) => self.writer.begin_with("BEGIN IMMEDIATE").await,
            Database::Postgres(_) => {
                let mut tx = self.writer.begin().await?;
                // Each later statement sees what was committed before this one returned (READ COMMITTED).
                sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(WRITE_LOCK).execute(&mut *tx).await?;
                if let Some(epoch) = self.epoch {
                    lease::check_epoch(&mut tx, epoch).await?;
                }
                Ok(tx)
            }
        }
    }

    /// Reserves disk space in the open files of SQLite.
    pub(crate) async fn reserve(&self) {
        match &self.database {
            Database::Sqlite(_) => disk_reserve::reserve_in_files(&self.pool).await,
            Database::Postgres(_) => {}
        }
    }

    /// Writes the tables anew, without replaced values of their rows. Backups, and the write-ahead log of PostgreSQL, keep
    /// them.
    pub(crate) async fn remove_replaced_values(&self, tables: &[&'static str]) -> sqlx::Result<()> {
        let mut connection = self.writer.acquire().await?;
        match &self.database {
            Database::Sqlite(_) => {
                // VACUUM writes every page of all tables anew, without free space. The checkpoint then empties the log.
                connection.execute("VACUUM").await?;
                let (busy, _, _): (i64, i64, i64) =
                    sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await?;
                if busy != 0 {
                    return Err(sqlx::Error::Io(std::io::Error::other("another program uses the store")));
                }
            }
            Database::Postgres(_) => {
                for table in tables {
                    connection.execute(sqlx::AssertSqlSafe(format!("VACUUM FULL {table}"))).await?;
                }
            }
        }
        Ok(())
    }

    /// Closes all connections. That of SQLite merges its log into the file; disk space is reserved for the next start.
    pub(crate) async fn close(&self) {
        self.writer.close().await;
        self.pool.close().await;
        match &self.database {
            Database::Sqlite(file) => disk_reserve::reserve_on_close(file),
            Database::Postgres(_) => {}
        }
    }
}

fn pool_options(connections: u32) -> AnyPoolOptions {
    AnyPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_TIMEOUT)
}

/// Creates the file of SQLite if it is missing, and releases its reserve.
fn open_file(file: &Path) -> Result<AnyConnectOptions> {
    use std::os::unix::fs::OpenOptionsExt;
    let released = disk_reserve::release(file);
    released.map_err(|error| {
        Error::internal(format!("release the disk reserve of {}: {error}", file.display()))
    })?;
    let created = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file);
    created.map_err(|error| Error::internal(format!("open {}: {error}", file.display())))?;
    sqlite_options(file)
}

/// Returns the options of a connection to a file, which must exist.
pub(super) fn sqlite_options(file: &Path) -> Result<AnyConnectOptions> {
    let options = AnyConnectOptions::from_str(&format!("sqlite://{}", file.display()));
    // Statement logs at debug level would hide the other log lines.
    Ok(options.map_err(failed("open the store"))?.disable_statement_logging())
}

/// Takes the lock of the controller for a session, unless another session has it.
async fn try_controller_lock(connection: &mut AnyConnection) -> sqlx::Result<bool> {
    let (is_taken,): (bool,) =
        sqlx::query_as("SELECT pg_try_advisory_lock($1)").bind(CONTROLLER_LOCK).fetch_one(connection).await?;
    Ok(is_taken)
}

/// Checks encoding and order of texts, and waits until no other controller has the database.
async fn check_server(options: &AnyConnectOptions, address: &PostgresAddress, access: Access) -> Result<()> {
    let is_exclusive = access != Access::Shared;
    let timeout = if is_exclusive { START_TIMEOUT } else { Duration::ZERO };
    let mut connection = connect(options, timeout).await.map_err(failed("open the store"))?;
    check_texts(&mut connection, address).await?;
    if let Some(epoch) = access.epoch() {
        let ended = lease::end_former_sessions(&mut connection, epoch).await;
        ended.map_err(failed("end the sessions of the former leader"))?;
    }
    if is_exclusive {
        await_controller_lock(&mut connection, address).await?;
        // The writing connection takes it.
        unlock(&mut connection).await?;
    }
    connection.close().await.map_err(failed("open the store"))
}

/// Connects to a server that may not answer yet.
pub(super) async fn connect(options: &AnyConnectOptions, timeout: Duration) -> sqlx::Result<AnyConnection> {
    let began = Instant::now();
    loop {
        match AnyConnection::connect_with(options).await {
            Err(error) if may_be_starting(&error) && began.elapsed() < timeout => {
                tracing::debug!(%error, "the database does not answer yet");
                tokio::time::sleep(PAUSE).await;
            }
            connected => return connected,
        }
    }
}

/// Whether a later attempt to connect may succeed: not when the server's certificate is refused.
fn may_be_starting(error: &sqlx::Error) -> bool {
    let is_refusal = matches!(error, sqlx::Error::Tls(_))
        || matches!(error, sqlx::Error::Io(inner) if inner.kind() == std::io::ErrorKind::InvalidData);
    classify(error) == FailureKind::Temporary && !is_refusal
}

/// Checks the encoding, and that texts are sorted as SQLite sorts them: by code points.
pub(super) async fn check_texts(connection: &mut AnyConnection, address: &PostgresAddress) -> Result<()> {
    let (encoding,): (String,) = sqlx::query_as("SELECT current_setting('server_encoding')")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed("read the encoding of the database"))?;
    let (is_sorted,): (i64,) = sqlx::query_as("SELECT CASE WHEN 'B' < 'a' AND 'Z' < 'a' THEN 1 ELSE 0 END")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed("read the collation of the database"))?;
    if encoding == "UTF8" && is_sorted == 1 {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{address} encodes or sorts texts in another way than hotdesk: make it anew, by CREATE DATABASE ... TEMPLATE \
         template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
    )))
}

/// Takes the lock of the controller for a session, once that of a controller that has ended is gone: its server may not have
/// noticed the end yet.
pub(super) async fn await_controller_lock(
    connection: &mut AnyConnection,
    address: &PostgresAddress,
) -> Result<()> {
    let began = Instant::now();
    while !try_controller_lock(connection).await.map_err(failed("lock the store"))? {
        if began.elapsed() >= HANDOVER_TIMEOUT {
            return Err(in_use(address));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn unlock(connection: &mut AnyConnection) -> Result<()> {
    let unlocked =
        sqlx::query("SELECT pg_advisory_unlock($1)").bind(CONTROLLER_LOCK).execute(connection).await;
    unlocked.map(drop).map_err(failed("unlock the store"))
}

/// The error of a database that another controller uses.
fn in_use(address: &PostgresAddress) -> Error {
    Error::failed(format!("{address} is in use by a controller: stop that one first"))
}
