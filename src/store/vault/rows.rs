//! All values of a sealed column, read page by page.

use std::collections::VecDeque;

use sqlx::{Any, Transaction};

use super::columns::Column;
use crate::failed;
use hotdesk_domain::error::Result;

/// Rows of one page: stored answers have up to 2 MiB each, and usually a few KiB.
const PAGE: i64 = 32;

/// Cursor over the rows of one column that have a value, in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Rows {
    page: VecDeque<(String, String)>,
    last: String,
}

impl Rows {
    /// Returns the key and value of the next row; `None` after the last one.
    pub(super) async fn next(
        &mut self,
        tx: &mut Transaction<'static, Any>,
        Column { table, key, name }: &Column,
    ) -> Result<Option<(String, String)>> {
        if self.page.is_empty() {
            let select = format!(
                "SELECT {key}, {name} FROM {table} WHERE {name} IS NOT NULL AND {key} > $1 ORDER BY {key} LIMIT $2"
            );
            let page: Vec<_> = sqlx::query_as(sqlx::AssertSqlSafe(select))
                .bind(&self.last)
                .bind(PAGE)
                .fetch_all(&mut **tx)
                .await
                .map_err(failed("read a sealed column"))?;
            self.page = page.into();
        }
        let next = self.page.pop_front();
        if let Some((row, _)) = &next {
            self.last.clone_from(row);
        }
        Ok(next)
    }
}

/// Replaces the value of a row.
pub(super) async fn set_value(
    tx: &mut Transaction<'static, Any>,
    Column { table, key, name }: &Column,
    row: &str,
    value: String,
) -> Result<()> {
    sqlx::query(sqlx::AssertSqlSafe(format!("UPDATE {table} SET {name} = $2 WHERE {key} = $1")))
        .bind(row)
        .bind(value)
        .execute(&mut **tx)
        .await
        .map(drop)
        .map_err(failed("store a sealed value"))
}
