//! Whose is the stream of a computer, and is it to be ended? Its agent sends it to wherever it was told, and does not know who
//! told it.

use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};
use hotdesk_domain::access::Role;
use hotdesk_domain::error::Result;

impl Store {
    /// Stores whose stream a computer's is: an account's, which has just begun it, or nobody's that is known. What was to be
    /// ended is gone where another one could begin; one of whoever lost the computer meanwhile is to be ended itself.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_streamed_by(&self, computer: ComputerId, account: Option<AccountId>) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE computers SET streamed_by = $2, \
             stream_ends_since = CASE WHEN $2 IS NULL THEN stream_ends_since ELSE NULL END WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(account.map(|account| account.to_string()))
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store whose stream it is"))?;
        if account.is_some() {
            write.stream_of_a_stranger(computer).await?;
        }
        write.commit().await
    }

    /// Stores that a computer's stream is to be ended.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn order_stream_end(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET stream_ends_since = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(now_ms())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store that a stream is to be ended"))?;
        write.commit().await
    }

    /// Since when a computer's stream is to be ended, in milliseconds since 1970, if it is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stream_ends_since(&self, computer: ComputerId) -> Result<Option<i64>> {
        let row: Option<(Option<i64>,)> =
            sqlx::query_as("SELECT stream_ends_since FROM computers WHERE id = $1")
                .bind(computer.to_string())
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("read whether a stream is to be ended"))?;
        Ok(row.and_then(|(since,)| since))
    }

    /// The computers whose stream is to be ended, also those that do not run now.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn streams_to_end(&self) -> Result<Vec<ComputerId>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT id FROM computers WHERE stream_ends_since IS NOT NULL")
                .fetch_all(&self.pool)
                .await
                .map_err(failed("look for streams to be ended"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Stores that a stream has ended which was to be ended since then: what was ordered later is another one's end.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stream_has_ended(&self, computer: ComputerId, since: i64) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET stream_ends_since = NULL WHERE id = $1 AND stream_ends_since = $2")
            .bind(computer.to_string())
            .bind(since)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store that a stream has ended"))?;
        write.commit().await
    }
}

impl Write {
    /// The computers of a workspace whose stream, should there be one, is nobody's who may start one there, as this write
    /// sees it: they are to be ended from now on, in memory that sleeps too. One of which nobody knows whose it is counts
    /// as well: to end what there is not is no harm.
    pub(super) async fn streams_of_strangers(&mut self, workspace: WorkspaceId) -> Result<Vec<ComputerId>> {
        self.end_strangers("c.workspace_id", &workspace.to_string()).await
    }

    /// The same for one computer: it or none.
    pub(super) async fn stream_of_a_stranger(&mut self, computer: ComputerId) -> Result<Vec<ComputerId>> {
        self.end_strangers("c.id", &computer.to_string()).await
    }

    async fn end_strangers(&mut self, column: &'static str, of: &str) -> Result<Vec<ComputerId>> {
        let strangers = format!(
            "SELECT c.id FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
             WHERE {column} = $1 AND (c.streamed_by IS NULL OR (c.streamed_by <> w.account_id \
             AND NOT EXISTS (SELECT 1 FROM members m WHERE m.workspace_id = w.id AND m.account_id = c.streamed_by \
             AND m.role <> $2)))"
        );
        let ordered = format!("UPDATE computers SET stream_ends_since = $3 WHERE id IN ({strangers})");
        sqlx::query(sqlx::AssertSqlSafe(ordered))
            .bind(of)
            .bind(Role::Viewer.name())
            .bind(now_ms())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("store that strangers' streams are to be ended"))?;
        let rows: Vec<(String,)> = sqlx::query_as(sqlx::AssertSqlSafe(strangers))
            .bind(of)
            .bind(Role::Viewer.name())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("look for strangers' streams"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Nothing of a computer's stream is left to be ended: it boots.
    pub(super) async fn forget_stream_end(&mut self, computer: ComputerId) -> Result<()> {
        sqlx::query("UPDATE computers SET stream_ends_since = NULL WHERE id = $1")
            .bind(computer.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("forget a stream that was to be ended"))?;
        Ok(())
    }

    /// Makes the streams of an account in a workspace another account's.
    pub(super) async fn give_streams(
        &mut self,
        workspace: WorkspaceId,
        from: AccountId,
        to: AccountId,
    ) -> Result<()> {
        sqlx::query("UPDATE computers SET streamed_by = $3 WHERE workspace_id = $1 AND streamed_by = $2")
            .bind(workspace.to_string())
            .bind(from.to_string())
            .bind(to.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("give streams to another account"))?;
        Ok(())
    }
}
