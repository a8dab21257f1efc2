//! Look-up, listing and counts of computers.

use crate::fleet::computers::{Computer, Row, SELECT};
use crate::{Store, Write, failed};
use hotdesk_base::ids::{AccountId, ComputerId, ComputerRef, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::Variant;
use hotdesk_domain::computer::isolation::Isolation;
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

/// Number of computers of one status and one isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputerCount {
    /// Their status.
    pub status: Status,
    /// Their isolation.
    pub isolation: Isolation,
    /// Their number.
    pub count: u64,
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

    /// Counts the computers by status and isolation. Pairs without a computer are left out.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn count_computers(&self) -> Result<Vec<ComputerCount>> {
        let rows: Vec<(String, Option<String>, i64)> =
            sqlx::query_as("SELECT status, isolation, COUNT(*) FROM computers GROUP BY status, isolation")
                .fetch_all(&self.pool)
                .await
                .map_err(failed("count computers by status"))?;
        let bad = |what: &str| Error::internal(format!("a computer holds a bad {what}"));
        rows.into_iter()
            .map(|(status, isolation, count)| {
                let isolation = match isolation.as_deref() {
                    // As in `Row::open`.
                    None => Isolation::Shared,
                    Some(name) => Isolation::parse(name).ok_or_else(|| bad("isolation"))?,
                };
                let status = Status::parse(&status).ok_or_else(|| bad("status"))?;
                Ok(ComputerCount { status, isolation, count: u64::try_from(count).unwrap_or_default() })
            })
            .collect()
    }

    /// Returns the running computers that are suspended when they are idle.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn computers_with_auto_stop(&self) -> Result<Vec<Computer>> {
        let select = format!("{SELECT} WHERE c.status = $1 AND c.auto_stop_minutes > 0");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(Status::Running.name())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list computers with auto-stop"))?;
        rows.into_iter().map(|row| row.open(&self.vault)).collect()
    }

    /// Returns the computers that have a replica or want one.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn computers_with_replicas(&self) -> Result<Vec<Computer>> {
        let select = format!("{SELECT} WHERE c.replicate_minutes > 0 OR c.replica_host IS NOT NULL");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list computers with replicas"))?;
        rows.into_iter().map(|row| row.open(&self.vault)).collect()
    }

    /// Returns the running computers whose trial is over at `now`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn computers_after_trial(&self, now: UnixMillis) -> Result<Vec<Computer>> {
        let select = format!("{SELECT} WHERE c.status = $1 AND c.billing = $2 AND c.trial_ends_at <= $3");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(Status::Running.name())
            .bind(Variant::Trial.name())
            .bind(now.as_i64())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list computers after their trial"))?;
        rows.into_iter().map(|row| row.open(&self.vault)).collect()
    }

    /// Returns the throw-away computers whose time is over at `now`, except for those that are being deleted.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn expired_computers(&self, now: UnixMillis) -> Result<Vec<Computer>> {
        let select = format!("{SELECT} WHERE c.expires_at <= $1 AND c.status <> $2");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(now.as_i64())
            .bind(Status::Deleting.name())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list expired computers"))?;
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
