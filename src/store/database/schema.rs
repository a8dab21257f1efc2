//! Schema migrations: the files of `migrations/`, embedded in the program.

use std::borrow::Cow;

use include_dir::{Dir, File, include_dir};
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::connections::Connections;
use crate::failed;
use hotdesk_domain::error::{Error, Result};

const STEP: &str = "migrate the store";

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/migrations");

/// Runs the migrations that a database lacks.
///
/// # Errors
/// `Internal` when a migration fails, and the database is as before; also when a file is not named `<number>_<name>.sql`.
/// `Unavailable` when another program writes for longer than a statement waits, or when the disk is full at the end.
pub(crate) async fn migrate(connections: &Connections) -> Result<()> {
    apply(connections, &migrator()?).await
}

/// Returns number and checksum of each migration of this program, in the order of the numbers.
pub(super) fn versions() -> Result<Vec<(i64, Vec<u8>)>> {
    let migrator = migrator()?;
    let mut all: Vec<_> = migrator.iter().map(|it| (it.version, it.checksum.to_vec())).collect();
    all.sort();
    Ok(all)
}

fn migrator() -> Result<Migrator> {
    let mut migrator = Migrator::with_migrations(FILES.files().map(migration).collect::<Result<_>>()?);
    // The write transaction excludes other programs. A lock of the session would outlive a failure.
    migrator.set_locking(false);
    Ok(migrator)
}

/// Runs migrations in one transaction. In a transaction each, they would sync a new database to the disk forty times, and an
/// upgrade that fails would leave a schema that no version has.
async fn apply(connections: &Connections, migrator: &Migrator) -> Result<()> {
    let mut tx = connections.begin_write().await.map_err(failed(STEP))?;
    // `Migrator::run` takes whatever connects; this is the part of it for one connection. Within a transaction, each
    // migration is a savepoint.
    let migrated = migrator.run_direct(None, &mut *tx, false).await;
    migrated.map_err(|error| Error::internal(format!("{STEP}: {error}")))?;
    tx.commit().await.map_err(failed(STEP))
}

fn migration(file: &'static File<'static>) -> Result<Migration> {
    let path = file.path().display();
    let wrong = || Error::internal(format!("read the migration {path}: its name is not <number>_<name>.sql"));
    let name = file.path().to_str().and_then(|path| path.strip_suffix(".sql"));
    let (number, name) = name.and_then(|name| name.split_once('_')).ok_or_else(wrong)?;
    let version = number.parse().map_err(|_| wrong())?;
    let sql = file.contents_utf8().ok_or_else(wrong)?.into_sql_str();
    Ok(Migration::new(version, Cow::Owned(name.replace('_', " ")), MigrationType::Simple, sql, false))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::database::connections::Access;
    use crate::database::fixture::TestDatabase;

    const FIRST: &str = "CREATE TABLE one (id TEXT)";
    const SECOND: &str = "CREATE TABLE two (id TEXT)";

    fn migrator(statements: &[&'static str]) -> Migrator {
        let numbered = (1..).zip(statements);
        let migrations = numbered.map(|(version, sql)| {
            Migration::new(version, "a test".into(), MigrationType::Simple, sql.into_sql_str(), false)
        });
        Migrator::with_migrations(migrations.collect())
    }

    async fn open(test: &TestDatabase) -> Connections {
        Connections::open(&test.database, Access::Shared).await.unwrap()
    }

    #[tokio::test]
    async fn a_migration_that_fails_leaves_the_database_as_it_was() {
        let test = TestDatabase::new();
        let connections = open(&test).await;
        let error = apply(&connections, &migrator(&[FIRST, FIRST])).await.unwrap_err();
        assert!(format!("{error:#}").contains("migrate the store"), "{error:#}");
        assert_eq!(test.tables(&connections).await.len(), 0);
        apply(&connections, &migrator(&[FIRST])).await.unwrap();
        apply(&connections, &migrator(&[FIRST, SECOND])).await.unwrap();
        // These two, and the list of migrations.
        assert_eq!(test.tables(&connections).await.len(), 3);
    }

    #[tokio::test]
    async fn migrations_wait_for_those_of_another_program() {
        let test = TestDatabase::new();
        let (connections, another) = (open(&test).await, open(&test).await);
        let all = migrator(&[FIRST, SECOND]);
        apply(&connections, &migrator(&[FIRST])).await.unwrap();
        let mut other = another.begin_write().await.unwrap();
        all.run_direct(None, &mut *other, false).await.unwrap();
        let end = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            other.commit().await
        };
        let (applied, ended) = tokio::join!(apply(&connections, &all), end);
        ended.unwrap();
        applied.unwrap();
        assert_eq!(test.tables(&connections).await.len(), 3);
    }

    #[tokio::test]
    async fn a_database_of_a_newer_version_is_refused_and_stays_as_it_is() {
        let test = TestDatabase::new();
        let connections = open(&test).await;
        apply(&connections, &migrator(&[FIRST, SECOND])).await.unwrap();
        let error = apply(&connections, &migrator(&[FIRST])).await.unwrap_err();
        assert!(format!("{error:#}").contains("migrate the store"), "{error:#}");
        let changed =
            apply(&connections, &migrator(&[FIRST, "CREATE TABLE two (name TEXT)"])).await.unwrap_err();
        assert!(format!("{changed:#}").contains("migrate the store"), "{changed:#}");
        assert_eq!(test.tables(&connections).await.len(), 3);
    }
}
