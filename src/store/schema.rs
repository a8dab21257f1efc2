//! Schema migrations: the files of `migrations/`, embedded in the program.

use std::borrow::Cow;
use std::fmt;

use include_dir::{Dir, File, include_dir};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AnyPool, SqlSafeStr};

use hotdesk_domain::error::{Error, Result};

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/migrations");

/// Runs the migrations that a database lacks.
///
/// # Errors
/// `Internal` when a migration fails, and the database is as before; also when a file is not named `<number>_<name>.sql`.
pub async fn migrate(pool: &AnyPool) -> Result<()> {
    apply(pool, &Migrator::with_migrations(FILES.files().map(migration).collect::<Result<_>>()?)).await
}

/// Runs migrations in one transaction. In a transaction each, they would sync a new database to the disk forty times, and an
/// upgrade that fails would leave a schema that no version has.
async fn apply(pool: &AnyPool, migrator: &Migrator) -> Result<()> {
    let failed = |error: &dyn fmt::Display| Error::internal(format!("migrate the store: {error}"));
    let mut tx = pool.begin().await.map_err(|error| failed(&error))?;
    // `Migrator::run` takes whatever connects; this is the part of it for one connection. Within a transaction, each
    // migration is a savepoint.
    migrator.run_direct(None, &mut *tx, false).await.map_err(|error| failed(&error))?;
    tx.commit().await.map_err(|error| failed(&error))
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
    use super::*;

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

    #[tokio::test]
    async fn a_migration_that_fails_leaves_the_database_as_it_was() {
        sqlx::any::install_default_drivers();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hotdesk.db");
        let pool = AnyPool::connect(&format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
        let (first, second) = ("CREATE TABLE one (id TEXT)", "CREATE TABLE two (id TEXT)");
        let error = apply(&pool, &migrator(&[first, first])).await.unwrap_err();
        assert!(format!("{error:#}").contains("migrate the store"), "{error:#}");
        assert_eq!(tables(&pool).await, 0);
        apply(&pool, &migrator(&[first])).await.unwrap();
        apply(&pool, &migrator(&[first, second])).await.unwrap();
        // These two, and the list of migrations.
        assert_eq!(tables(&pool).await, 3);
    }
}
