//! Floor 4: what is remembered? SQLite embedded (WAL, synchronous=FULL), one writer, one closure one transaction.
//!
//! The SQL is kept to what PostgreSQL takes as well (`$1` placeholders, no booleans, times as BIGINT), so that one code
//! path can serve both. Only this folder knows SQL.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyPool, ConnectOptions, Executor, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use hotdesk_base::clock::now_ms;
use hotdesk_base::living::Living;
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};
use members::Belonging;
use passwords::Pass;

pub mod accounts;
pub mod agents;
pub mod audit;
pub mod billing;
pub mod clients;
pub mod computers;
pub mod copies;
pub mod devices;
pub mod files;
pub mod find;
pub mod hardware;
pub mod idempotency;
pub mod invitations;
pub mod keys;
pub mod members;
pub mod oauth_clients;
pub mod oauth_grants;
pub mod passwords;
pub mod people;
pub mod plans;
mod quota;
mod room;
pub mod runs;
pub mod saved;
pub mod snapshots;
pub mod spend;
mod status;
mod streamed;
pub mod streams;
pub mod takeover;
pub mod usage;
pub mod workspaces;

/// Connections: one writes, the others read; more would only queue on two cores.
const CONNECTIONS: u32 = 4;
/// How long a request waits for a connection before it is told 503.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations");

/// The store of one data folder.
#[derive(Clone, Debug)]
pub struct Store {
    /// The credentials in use: what removes one here tells whoever works under it.
    pub live: Living<Credential>,
    /// The passwords by which sockets are open: what changes one here, but for a boot, ends them.
    pub passes: Living<Pass>,
    /// Who does something in a workspace of another: what puts them out, or lets them only look, ends it.
    pub belonging: Living<Belonging>,
    pool: AnyPool,
    writer: Arc<Mutex<()>>,
    file: PathBuf,
    /// When it was opened: what was not seen to run since then may have ended.
    opened_at: i64,
}

/// A write in progress: nobody else writes until it is committed or dropped (then nothing happened).
struct Write {
    _turn: OwnedMutexGuard<()>,
    tx: Transaction<'static, Any>,
    opened_at: i64,
}

impl Write {
    async fn commit(self) -> Result<()> {
        self.tx.commit().await.map_err(failed("commit"))
    }
}

impl Store {
    /// Opens the store file (mode 0600), making it and bringing its tables up to date.
    ///
    /// # Errors
    /// When the file cannot be opened or a migration fails.
    pub async fn open(file: &Path) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        sqlx::any::install_default_drivers();
        let given = room::give(file);
        given.map_err(|error| Error::internal(format!("give the room of {}: {error}", file.display())))?;
        let created = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file);
        created.map_err(|error| Error::internal(format!("open {}: {error}", file.display())))?;
        let url = format!("sqlite://{}", file.display());
        // Statements at debug level would drown what the house itself says.
        let options =
            AnyConnectOptions::from_str(&url).map_err(failed("open the store"))?.disable_statement_logging();
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    // FULL: what was acknowledged survives a power cut.
                    let pages = room::CHECKPOINT_PAGES;
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
        MIGRATIONS
            .run(&pool)
            .await
            .map_err(|error| Error::internal(format!("migrate the store: {error}")))?;
        room::take(&pool).await;
        Ok(Self {
            pool,
            writer: Arc::default(),
            file: file.to_owned(),
            live: Living::default(),
            passes: Living::default(),
            belonging: Living::default(),
            opened_at: now_ms(),
        })
    }

    /// Closes all connections; the write-ahead log is folded into the file.
    pub async fn close(&self) {
        self.pool.close().await;
        room::keep(&self.file);
    }

    /// Whether the store answers.
    ///
    /// # Errors
    /// `Unavailable` when it does not.
    pub async fn check(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await.map(|_| ()).map_err(failed("ask the store"))
    }

    async fn write(&self) -> Result<Write> {
        let turn = Arc::clone(&self.writer).lock_owned().await;
        let tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a write"))?;
        Ok(Write { _turn: turn, tx, opened_at: self.opened_at })
    }
}

/// Turns a store failure into the house's error: what may pass with time is `Unavailable`, the rest is a defect.
fn failed(step: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |error| {
        let passing =
            matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_))
                || matches!(&error, sqlx::Error::Database(inner) if is_passing(inner.message()));
        if passing {
            let refused = Error::unavailable("Service temporarily unavailable").retry_after(5);
            let full = error.to_string().contains("disk is full");
            let refused = if full { refused.code("disk_full") } else { refused };
            refused.context(format!("{step}: {error}"))
        } else {
            Error::internal(format!("{step}: {error}"))
        }
    }
}

/// SQLite's words for a busy, full or unreadable disk.
fn is_passing(message: &str) -> bool {
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

/// Whether a write failed because a UNIQUE constraint of this table holds already.
fn is_duplicate(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(inner) if inner.is_unique_violation())
}

/// Reads an id that this store wrote.
fn id<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::internal(format!("the store holds a bad id: {text:?}")))
}
