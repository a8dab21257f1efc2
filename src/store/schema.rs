//! Schema migrations: the files of `migrations/`, embedded in the program.

use std::borrow::Cow;

use include_dir::{Dir, File, include_dir};
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use hotdesk_domain::error::{Error, Result};

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/migrations");

/// Returns the migrations in the order of their numbers.
///
/// # Errors
/// `Internal` when a file is not named `<number>_<name>.sql`.
pub fn migrator() -> Result<Migrator> {
    Ok(Migrator::with_migrations(FILES.files().map(migration).collect::<Result<_>>()?))
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
