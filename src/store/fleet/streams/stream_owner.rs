//! Accounts that started the streams of computers, and streams that must end. An agent does not know which
//! account started its stream.

use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Role;

impl Store {
    /// Stores the account that started a computer's stream, or `None` when it is unknown. A new stream
    /// replaces one that had to end. If the account lost access meanwhile, the new one must end too.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_stream_owner(&self, computer: ComputerId, account: Option<AccountId>) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE computers SET streamed_by = $2, \
             stream_ends_since = CASE WHEN $2 IS NULL THEN stream_ends_since ELSE NULL END WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(account.map(|account| account.to_string()))
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store the owner of a stream"))?;
        if account.is_some() {
            write.end_unauthorized_stream(computer).await?;
        }
        write.commit().await
    }

    /// Stores that a computer's stream must end.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn request_stream_end(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET stream_ends_since = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("mark a stream that must end"))?;
        write.commit().await
    }

    /// Returns the time since which a computer's stream must end; `None` if it need not.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn stream_end_requested_at(&self, computer: ComputerId) -> Result<Option<UnixMillis>> {
        let row: Option<(Option<i64>,)> =
            sqlx::query_as("SELECT stream_ends_since FROM computers WHERE id = $1")
                .bind(computer.to_string())
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("read whether a stream must end"))?;
        Ok(row.and_then(|(since,)| since).map(UnixMillis::new))
    }

    /// Returns the computers whose stream must end, also those that do not run now.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn streams_to_end(&self) -> Result<Vec<ComputerId>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT id FROM computers WHERE stream_ends_since IS NOT NULL")
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list streams that must end"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Stores that a stream ended. `since` is the time of the request; a later request stays,
    /// because it concerns another stream.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn clear_stream_end(&self, computer: ComputerId, since: UnixMillis) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET stream_ends_since = NULL WHERE id = $1 AND stream_ends_since = $2")
            .bind(computer.to_string())
            .bind(since.as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("clear a stream's end"))?;
        write.commit().await
    }
}

impl Write {
    /// Marks the streams in a workspace that were started by accounts which cannot start one any more, also
    /// those in saved memory. Returns their computers. A stream of an unknown account counts as well: ending
    /// a missing stream is harmless.
    pub(crate) async fn end_unauthorized_streams(
        &mut self,
        workspace: WorkspaceId,
    ) -> Result<Vec<ComputerId>> {
        self.end_streams_where("c.workspace_id", &workspace.to_string()).await
    }

    /// Like [`Self::end_unauthorized_streams`] for one computer: returns it or nothing.
    pub(crate) async fn end_unauthorized_stream(&mut self, computer: ComputerId) -> Result<Vec<ComputerId>> {
        self.end_streams_where("c.id", &computer.to_string()).await
    }

    async fn end_streams_where(&mut self, column: &'static str, of: &str) -> Result<Vec<ComputerId>> {
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
            .bind(clock::now().as_i64())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("mark unauthorized streams"))?;
        let rows: Vec<(String,)> = sqlx::query_as(sqlx::AssertSqlSafe(strangers))
            .bind(of)
            .bind(Role::Viewer.name())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("list unauthorized streams"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Clears the mark of a stream that must end, because the computer boots.
    pub(crate) async fn discard_stream_end(&mut self, computer: ComputerId) -> Result<()> {
        sqlx::query("UPDATE computers SET stream_ends_since = NULL WHERE id = $1")
            .bind(computer.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("clear a stream's end"))?;
        Ok(())
    }

    /// Transfers the streams of an account in a workspace to another account.
    pub(crate) async fn transfer_streams(
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
            .map_err(failed("transfer streams"))?;
        Ok(())
    }
}
