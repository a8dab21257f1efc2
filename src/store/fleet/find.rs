//! Look-up and listing of computers.

use crate::fleet::computers::{Computer, Row, SELECT};
use crate::{Store, Write, failed};
use hotdesk_base::ids::{AccountId, ComputerId, ComputerRef, WorkspaceId};
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::{Error, Result};

/// Finds a computer by an instance id, current ids first: they are random, so a current id can equal an
/// earlier id of another computer.
const BY_INSTANCE: &str = "c.id = COALESCE((SELECT id FROM computers WHERE instance_id = $1), \
                           (SELECT computer_id FROM earlier_instances WHERE instance_id = $1))";

/// Filter and page of a listing of computers.
#[derive(Clone, Debug, Default)]
pub struct ComputerFilter {
    /// Only computers of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only computers with this status.
    pub status: Option<Status>,
    /// Only computers whose name contains this text, regardless of case.
    pub name_contains: Option<String>,
    /// Page size; `None` is all.
    pub limit: Option<u32>,
    /// Number of computers to skip.
    pub offset: u32,
}

impl Store {
    /// Returns a computer by its UUID or by a current or earlier instance id.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn computer(&self, reference: &ComputerRef) -> Result<Option<Computer>> {
        let (clause, value) = match reference {
            ComputerRef::Id(id) => ("c.id = $1", id.to_string()),
            ComputerRef::Instance(instance) => (BY_INSTANCE, instance.to_string()),
        };
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE {clause}")))
            .bind(value)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a computer"))?;
        row.map(|row| row.open(&self.vault)).transpose()
    }

    /// Returns all computers, oldest first, for recovery.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn all_computers(&self) -> Result<Vec<Computer>> {
        let rows: Vec<Row> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} ORDER BY c.created_at, c.id")))
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list computers"))?;
        rows.into_iter().map(|row| row.open(&self.vault)).collect()
    }

    /// Returns a page of the computers that an account can access and that match a filter, oldest first, and
    /// their total number.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn computers(
        &self,
        account: AccountId,
        filter: &ComputerFilter,
    ) -> Result<(Vec<Computer>, u64)> {
        let clause = "WHERE (w.account_id = $1 OR EXISTS (SELECT 1 FROM members m WHERE m.workspace_id = w.id \
                      AND m.account_id = $1)) AND ($2 = '' OR c.workspace_id = $2) AND ($3 = '' OR c.status = $3) \
                      AND ($4 = '' OR c.name_folded LIKE $4 ESCAPE '\\')";
        let pattern = filter.name_contains.as_deref().map(like_pattern).unwrap_or_default();
        let workspace = filter.workspace.map(|id| id.to_string()).unwrap_or_default();
        let status = filter.status.map(Status::name).unwrap_or_default();
        let counted: (i64,) = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT COUNT(*) FROM computers c JOIN workspaces w ON w.id = c.workspace_id {clause}"
        )))
        .bind(account.to_string())
        .bind(&workspace)
        .bind(status)
        .bind(&pattern)
        .fetch_one(&self.pool)
        .await
        .map_err(failed("count computers"))?;
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "{SELECT} {clause} ORDER BY c.created_at, c.id LIMIT $5 OFFSET $6"
        )))
        .bind(account.to_string())
        .bind(&workspace)
        .bind(status)
        .bind(&pattern)
        .bind(filter.limit.map_or(i64::MAX, i64::from))
        .bind(i64::from(filter.offset))
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list computers"))?;
        let page = rows.into_iter().map(|row| row.open(&self.vault)).collect::<Result<_>>()?;
        Ok((page, u64::try_from(counted.0).unwrap_or_default()))
    }
}

impl Write {
    /// Returns a computer as this transaction sees it; `NotFound` when it does not exist.
    pub(crate) async fn computer(&mut self, computer: ComputerId) -> Result<Computer> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE c.id = $1")))
            .bind(computer.to_string())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read a computer"))?;
        row.ok_or_else(|| Error::not_found("Desktop not found"))?.open(&self.vault)
    }
}

/// Returns a LIKE pattern that finds a text anywhere, with its wildcards escaped.
fn like_pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in text.to_lowercase().chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
