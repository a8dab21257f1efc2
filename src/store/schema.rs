//! Schema migrations: the files of `migrations/`, embedded in the program.

use std::borrow::Cow;

use include_dir::{Dir, File, include_dir};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AnyPool, SqlSafeStr};

use crate::failed;
use hotdesk_domain::error::{Error, Result};

const STEP: &str = "migrate the store";

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/migrations");

/// Runs the migrations that a database lacks.
///
/// # Errors
/// `Internal` when a migration fails, and the database is as before; also when a file is not named `<number>_<name>.sql`.
/// `Unavailable` when another program writes for longer than a statement waits, or when the disk is full at the end.
pub async fn migrate(pool: &AnyPool) -> Result<()> {
    apply(pool, &Migrator::with_migrations(FILES.files().map(migration).collect::<Result<_>>()?)).await
}

/// Runs migrations in one transaction. In a transaction each, they would sync a new database to the disk forty times, and an
/// upgrade that fails would leave a schema that no version has.
async fn apply(pool: &AnyPool, migrator: &Migrator) -> Result<()> {
    // IMMEDIATE: what is read of the list of migrations stays true until the first write. A transaction that has read fails at
    // its first write, without a wait, when another program has written meanwhile.
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed(STEP))?;
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

    const FIRST: &str = "CREATE TABLE one (id TEXT)";
    const SECOND: &str = "CREATE TABLE two (id TEXT)";

    fn migrator(statements: &[&'static str]) -> Migrator {
        let numbered = (1..).zip(statements);
        let migrations = numbered.map(|(version, sql)| {
            Migration::new(version, "a test".into(), MigrationType::Simple, sql.into_sql_str(), false)
        });
        Migrator::with_migrations(migrations.collect())
    }

    async fn tables(pool: &AnyPool) -> i64 {
        let counted = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'");
        counted.fetch_one(pool).await.unwrap()
    }

    async fn database() -> (tempfile::TempDir, AnyPool) {
        sqlx::any::install_default_drivers();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hotdesk.db");
        let pool = AnyPool::connect(&format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
        (folder, pool)
    }

    #[tokio::test]
    async fn a_migration_that_fails_leaves_the_database_as_it_was() {
        let (_folder, pool) = database().await;
        let error = apply(&pool, &migrator(&[FIRST, FIRST])).await.unwrap_err();
        assert!(format!("{error:#}").contains("migrate the store"), "{error:#}");
        assert_eq!(tables(&pool).await, 0);
        apply(&pool, &migrator(&[FIRST])).await.unwrap();
        apply(&pool, &migrator(&[FIRST, SECOND])).await.unwrap();
        // These two, and the list of migrations.
        assert_eq!(tables(&pool).await, 3);
    }

    #[tokio::test]
    async fn migrations_wait_for_those_of_another_program() {
        let (_folder, pool) = database().await;
        sqlx::query("PRAGMA journal_mode = WAL").execute(&pool).await.unwrap();
        let all = migrator(&[FIRST, SECOND]);
        apply(&pool, &migrator(&[FIRST])).await.unwrap();
        let mut other = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        all.run_direct(None, &mut *other, false).await.unwrap();
        let end = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            other.commit().await
        };
        let (applied, ended) = tokio::join!(apply(&pool, &all), end);
        ended.unwrap();
        applied.unwrap();
        assert_eq!(tables(&pool).await, 3);
    }

    #[tokio::test]
    async fn a_database_of_a_newer_version_is_refused_and_stays_as_it_is() {
        let (_folder, pool) = database().await;
        apply(&pool, &migrator(&[FIRST, SECOND])).await.unwrap();
        let error = apply(&pool, &migrator(&[FIRST])).await.unwrap_err();
        assert!(format!("{error:#}").contains("migrate the store"), "{error:#}");
        let changed = apply(&pool, &migrator(&[FIRST, "CREATE TABLE two (name TEXT)"])).await.unwrap_err();
        assert!(format!("{changed:#}").contains("migrate the store"), "{changed:#}");
        assert_eq!(tables(&pool).await, 3);
    }
}
