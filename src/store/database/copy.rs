//! Copy of a whole store from one database to another.
//!
//! ```text
//! source: the program's schema, no controller      target: made or migrated, no controller, all tables empty
//!         one read transaction  ----- rows in batches, table by table ----->  one write transaction
//!                                                                             counted, then committed
//! ```
//! A failure leaves the target with empty tables. Neither side knows the key that seals secrets: sealed values are copied as
//! they are, and the key file stays what it is.

use futures_util::TryStreamExt;
use sqlx::any::{AnyConnectOptions, AnyRow, AnyTypeInfoKind};
use sqlx::{Any, AnyConnection, Column, ConnectOptions, Connection, Row, Transaction, TypeInfo};

use super::connections::{Access, Connections, Database, await_controller_lock, check_texts, sqlite_options};
use super::schema;
use super::tables::TABLES;
use crate::failed;
use hotdesk_domain::error::{Error, Result};

/// Most rows of one INSERT.
const MAX_ROWS: usize = 500;
/// Bytes of texts after which a batch is full; a stored answer has up to 2 MiB.
const MAX_BYTES: usize = 1024 * 1024;
/// Most values of one INSERT: SQLite permits 32,766, PostgreSQL 65,535.
const MAX_VALUES: usize = 30_000;
/// Step of errors that the source causes.
const READ: &str = "read the source";
/// Step of errors that the target causes.
const WRITE: &str = "write the target";

/// A table that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedTable {
    /// Its name.
    pub name: &'static str,
    /// Rows that it has in both databases.
    pub rows: u64,
}

/// A value of a row. The type of a NULL is that of its column, which PostgreSQL checks.
enum Cell {
    Text(Option<String>),
    Integer(Option<i64>),
    Real(Option<f64>),
}

/// Copies all rows of a store into a database without rows, which gets the schema if it has none. Calls `progress` after
/// each table. The caller ensures that nothing else uses a SQLite file of either side.
///
/// # Errors
/// `Internal`, with a text for people, when the source is no store of this version of the program or has a table that
/// it does not know, a controller uses either database, the target has rows, or a number of rows differs at the end;
/// `Unavailable` or `Internal` when a database fails. The tables of the target stay empty then.
pub async fn copy(from: &Database, to: &Database, mut progress: impl FnMut(CopiedTable)) -> Result<()> {
    let mut source = open_source(from).await?;
    let target = Connections::open(to, Access::Exclusive).await?;
    schema::migrate(&target).await?;
    let mut read = begin_read(&mut source, from).await?;
    check_schema(&mut read, from).await?;
    let mut write = target.begin_write().await.map_err(failed(WRITE))?;
    for table in TABLES {
        if count(&mut write, table, WRITE).await? > 0 {
            return Err(Error::failed(format!(
                "{to} is not empty: its table {table} has rows; name a database without a store"
            )));
        }
    }
    for name in TABLES {
        copy_table(&mut read, &mut write, name).await?;
        let (wanted, rows) = (count(&mut read, name, READ).await?, count(&mut write, name, WRITE).await?);
        if wanted != rows {
            return Err(Error::failed(format!("{name} has {wanted} rows, and {rows} of them were copied")));
        }
        progress(CopiedTable { name, rows });
    }
    write.commit().await.map_err(failed(WRITE))?;
    drop(read);
    target.close().await;
    source.close().await.map_err(failed(READ))
}

/// Opens the database to read from, which must exist, and takes the controller's lock of PostgreSQL.
async fn open_source(from: &Database) -> Result<AnyConnection> {
    sqlx::any::install_default_drivers();
    match from {
        Database::Sqlite(file) => connect(&sqlite_options(file)?).await,
        Database::Postgres(address) => {
            let mut connection = connect(&address.options().map_err(failed(READ))?).await?;
            check_texts(&mut connection, address).await?;
            await_controller_lock(&mut connection, address).await?;
            Ok(connection)
        }
    }
}

async fn connect(options: &AnyConnectOptions) -> Result<AnyConnection> {
    options.connect().await.map_err(failed("open the source"))
}

/// Begins a transaction that sees one state of the source.
async fn begin_read<'c>(source: &'c mut AnyConnection, from: &Database) -> Result<Transaction<'c, Any>> {
    let begin = match from {
        Database::Sqlite(_) => "BEGIN",
        Database::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    };
    source.begin_with(begin).await.map_err(failed(READ))
}

/// Checks that the source has the schema of this program, and no other tables.
async fn check_schema(read: &mut Transaction<'_, Any>, from: &Database) -> Result<()> {
    let tables: Vec<String> =
        sqlx::query_scalar(from.list_of_tables()).fetch_all(&mut **read).await.map_err(failed(READ))?;
    let has = |name: &str| tables.iter().any(|table| table == name);
    if !has("_sqlx_migrations") {
        return Err(Error::failed(format!("{from} holds no store of hotdesk")));
    }
    let applied: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT version, checksum FROM _sqlx_migrations ORDER BY version")
            .fetch_all(&mut **read)
            .await
            .map_err(failed(READ))?;
    if applied != schema::versions()? {
        return Err(Error::failed(format!(
            "{from} was written by another version of hotdesk: start this version on it once, stop it, and copy again"
        )));
    }
    let unknown = tables.iter().find(|name| *name != "_sqlx_migrations" && !TABLES.contains(&name.as_str()));
    match unknown {
        None => Ok(()),
        Some(name) => Err(Error::failed(format!(
            "{from} has the table {name}, which is not hotdesk's: move it to another database"
        ))),
    }
}

async fn count(tx: &mut Transaction<'_, Any>, table: &'static str, step: &'static str) -> Result<u64> {
    let select = format!("SELECT COUNT(*) FROM {table}");
    let rows: i64 =
        sqlx::query_scalar(sqlx::AssertSqlSafe(select)).fetch_one(&mut **tx).await.map_err(failed(step))?;
    Ok(rows.unsigned_abs())
}

async fn copy_table(
    read: &mut Transaction<'_, Any>,
    write: &mut Transaction<'_, Any>,
    table: &'static str,
) -> Result<()> {
    let select = format!("SELECT * FROM {table}");
    let mut rows = sqlx::query(sqlx::AssertSqlSafe(select)).fetch(&mut **read);
    let mut batch = RowBatch::new(table);
    while let Some(row) = rows.try_next().await.map_err(failed(READ))? {
        batch.add(&row)?;
        if batch.is_full() {
            batch.insert(write).await?;
        }
    }
    batch.insert(write).await
}

/// Rows that are inserted together.
struct RowBatch {
    table: &'static str,
    columns: Vec<String>,
    cells: Vec<Cell>,
    bytes: usize,
}

impl RowBatch {
    fn new(table: &'static str) -> Self {
        Self { table, columns: Vec::new(), cells: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, row: &AnyRow) -> Result<()> {
        if self.columns.is_empty() {
            self.columns = row.columns().iter().map(|column| column.name().to_owned()).collect();
        }
        for (at, column) in row.columns().iter().enumerate() {
            let cell = match column.type_info().kind() {
                AnyTypeInfoKind::Text => row.try_get(at).map(Cell::Text),
                AnyTypeInfoKind::SmallInt | AnyTypeInfoKind::Integer | AnyTypeInfoKind::BigInt => {
                    row.try_get(at).map(Cell::Integer)
                }
                AnyTypeInfoKind::Real | AnyTypeInfoKind::Double => row.try_get(at).map(Cell::Real),
                AnyTypeInfoKind::Null | AnyTypeInfoKind::Bool | AnyTypeInfoKind::Blob => {
                    let (table, name, kind) = (self.table, column.name(), column.type_info().name());
                    return Err(Error::internal(format!(
                        "copy {table}.{name}: no column has the type {kind}"
                    )));
                }
            };
            let cell = cell.map_err(failed(READ))?;
            if let Cell::Text(Some(text)) = &cell {
                self.bytes += text.len();
            }
            self.cells.push(cell);
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.cells.len() / self.columns.len().max(1)
    }

    fn is_full(&self) -> bool {
        let values_of_more = self.cells.len() + self.columns.len();
        self.rows() >= MAX_ROWS || self.bytes >= MAX_BYTES || values_of_more > MAX_VALUES
    }

    /// Inserts the rows, if any, and empties the batch.
    async fn insert(&mut self, write: &mut Transaction<'_, Any>) -> Result<()> {
        if self.cells.is_empty() {
            return Ok(());
        }
        let width = self.columns.len();
        let places = |row: usize| {
            let places: Vec<String> = (1..=width).map(|at| format!("${}", row * width + at)).collect();
            format!("({})", places.join(", "))
        };
        let rows: Vec<String> = (0..self.rows()).map(places).collect();
        let insert =
            format!("INSERT INTO {} ({}) VALUES {}", self.table, self.columns.join(", "), rows.join(", "));
        // Not cached: the next batch may have another size.
        let mut query = sqlx::query(sqlx::AssertSqlSafe(insert)).persistent(false);
        for cell in self.cells.drain(..) {
            query = match cell {
                Cell::Text(text) => query.bind(text),
                Cell::Integer(number) => query.bind(number),
                Cell::Real(number) => query.bind(number),
            };
        }
        query.execute(&mut **write).await.map_err(failed(WRITE))?;
        self.bytes = 0;
        Ok(())
    }
}
