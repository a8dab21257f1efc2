//! `hotdesk store copy`: the database of an installation, copied into another one.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::admin::check_owner;
use crate::failure::Outcome;
use crate::progress::Progress;
use crate::{output, runtime};
use hotdesk_controller::config::{Config, secret_file};
use hotdesk_controller::data_dir::lock::{self, DataDirLock};
use hotdesk_domain::plural::plural;
use hotdesk_store::database::{self, CopiedTable, Database, PostgresAddress};

/// Commands of the database.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy the store of an installation into an empty database. Controllers of both must be stopped. The key file and the
    /// stored files are not part of the store, and stay in the data folder.
    Copy(CopyOptions),
}

/// Options of `hotdesk store copy`.
#[derive(Debug, Args)]
pub struct CopyOptions {
    /// Store to read: a data folder on this host, or the URL of a PostgreSQL database without its password.
    #[arg(long, value_name = "FOLDER|URL")]
    from: String,
    /// Database to write, which has no store: a data folder on this host, or the URL of a PostgreSQL database without its
    /// password.
    #[arg(long, value_name = "FOLDER|URL")]
    to: String,
    /// File (mode 0600) with the password of the database to read.
    #[arg(long, value_name = "FILE")]
    from_password_file: Option<PathBuf>,
    /// File (mode 0600) with the password of the database to write.
    #[arg(long, value_name = "FILE")]
    to_password_file: Option<PathBuf>,
    /// PEM file with the authority of the servers' certificates, instead of those of the system.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// A database, and the lock of its data folder.
struct Side {
    database: Database,
    _lock: Option<DataDirLock>,
}

/// Runs a subcommand.
///
/// # Errors
/// When a folder has no store or belongs to another user, a controller uses either database, the source was written by
/// another version, the target has rows, or a database fails. The target stays empty then.
pub fn run(command: &Command, json: bool) -> Outcome<()> {
    let Command::Copy(options) = command;
    let CopyOptions { from, to, from_password_file, to_password_file, ca_file } = options;
    let ca_file = ca_file.as_deref();
    let source =
        match server(["--from", "--from-password-file"], from, from_password_file.as_deref(), ca_file)? {
            Some(database) => Side { database, _lock: None },
            None => source_folder(from)?,
        };
    let target = match server(["--to", "--to-password-file"], to, to_password_file.as_deref(), ca_file)? {
        Some(database) => Side { database, _lock: None },
        None => target_folder(to)?,
    };
    let (mut tables, mut rows) = (0, 0);
    let progress = Progress::waiting("copying the store");
    let copied = |table: CopiedTable| {
        (tables, rows) = (tables + 1, rows + table.rows);
        progress.set_message(format!("copying the store: {rows} rows, the last of {}", table.name));
    };
    runtime()?.block_on(database::copy(&source.database, &target.database, copied))?;
    drop(progress);
    if json {
        return output::line(&json!({ "tables": tables, "rows": rows }).to_string());
    }
    let tables = plural(tables, "table");
    output::line(&format!("Copied {rows} rows of {tables} to {}.", target.database))?;
    output::line(match (&source.database, &target.database) {
        (Database::Sqlite(_), Database::Postgres(_)) => {
            "Set store.url and store.password_file in the configuration, and move the former hotdesk.db away."
        }
        (_, Database::Postgres(_)) => "Set store.url and store.password_file in the configuration.",
        (_, Database::Sqlite(_)) => {
            "Remove store.url from the configuration; the data folder needs the key file."
        }
    })
}

/// Returns the database of a URL; `None` for a folder.
fn server(
    settings: [&str; 2],
    text: &str,
    password_file: Option<&Path>,
    ca_file: Option<&Path>,
) -> Outcome<Option<Database>> {
    if !PostgresAddress::has_scheme(text) {
        return Ok(None);
    }
    let none = Path::new("");
    let password = secret_file::read_any(settings[1], password_file.unwrap_or(none))?;
    let address = PostgresAddress::parse(settings, text, password, ca_file.unwrap_or(none))?;
    Ok(Some(Database::Postgres(address)))
}

fn source_folder(folder: &str) -> Outcome<Side> {
    let config = Config { data_dir: folder.into(), ..Config::default() };
    let file = config.store_file();
    check_owner(&file)?;
    let lock = lock::acquire(&config.store_dir())?;
    Ok(Side { database: Database::Sqlite(file), _lock: Some(lock) })
}

fn target_folder(folder: &str) -> Outcome<Side> {
    let config = Config { data_dir: folder.into(), ..Config::default() };
    let lock = lock::acquire(&config.store_dir())?;
    // Else files of the folder would belong to another user than its controller.
    check_owner(&config.store_dir())?;
    Ok(Side { database: Database::Sqlite(config.store_file()), _lock: Some(lock) })
}
