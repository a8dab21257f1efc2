//! Databases of tests: SQLite, or PostgreSQL in a run that `postgres_suite.rs` starts.

use std::path::{Path, PathBuf};

use super::{Access, Connections, Database, PostgresAddress};
use crate::{Store, default_key_file};
use hotdesk_base::secret::Secret;
use hotdesk_capability::postgres::PostgresServer;

/// An empty database.
pub(crate) struct TestDatabase {
    pub(crate) database: Database,
    folder: tempfile::TempDir,
}

impl TestDatabase {
    /// A database of the server of this run, else a SQLite file.
    pub(crate) fn new() -> Self {
        match PostgresServer::of_this_run() {
            Some(server) => Self::on(&server),
            None => Self::sqlite(),
        }
    }

    /// A SQLite file.
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { database: Database::Sqlite(folder.path().join("hotdesk.db")), folder }
    }

    /// A database of a server.
    pub(crate) fn on(server: &PostgresServer) -> Self {
        Self { database: postgres(&server.create_database()), folder: tempfile::tempdir().unwrap() }
    }

    /// The names of its tables, in alphabetical order.
    pub(crate) async fn tables(&self, connections: &Connections) -> Vec<String> {
        sqlx::query_scalar(self.database.list_of_tables()).fetch_all(&connections.pool).await.unwrap()
    }

    /// A store in it. Several share its key file.
    pub(crate) async fn store(&self, access: Access) -> Store {
        Store::open_database(&self.database, &self.key_file(), access).await.unwrap()
    }

    /// A store in a copy of it, which has the same key file.
    pub(crate) async fn store_of(&self, copy: &Database) -> Store {
        Store::open_database(copy, &self.key_file(), Access::Shared).await.unwrap()
    }

    /// Its key file.
    pub(crate) fn key_file(&self) -> PathBuf {
        default_key_file(&self.folder.path().join("hotdesk.db"))
    }
}

/// A database of a test's server.
pub(crate) fn postgres(url: &str) -> Database {
    let password = Some(Secret::new(PostgresServer::PASSWORD));
    let address = PostgresAddress::parse(["store.url", "store.password_file"], url, password, Path::new(""));
    Database::Postgres(address.unwrap())
}
