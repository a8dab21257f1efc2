//! Retention of usage and bound on its rows.
//!
//! A computer that starts and stops in a loop changes the sums, but does not add a row each time.

use crate::{Store, Write, failed};
use hotdesk_base::ids::{AccountId, ClientId, ComputerId};
use hotdesk_base::time::{UnixMillis, parse_month};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Rows of one computer in a month: three or four a day. Later runs extend the last one of the same size.
/// That preserves the month's sums, which are all that is reported.
const MAX_RUNS: i64 = 100;
/// Removed clients of one account whose usage is stored: ten times the default number of clients. Each of
/// them ran a computer or cost something, so more within the retention time mean a loop.
const MAX_PAST_CLIENTS: i64 = 10_000;

impl Store {
    /// Removes usage and payments before a time ([`hotdesk_domain::billing::usage::retained_since`]), and
    /// removed clients without any other record. Runs in progress stay, however long ago they started.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn forget_usage(&self, before: UnixMillis) -> Result<()> {
        let mut write = self.write().await?;
        for step in [
            "DELETE FROM runs WHERE ended_at < $1",
            "DELETE FROM ai_spend WHERE spent_at < $1",
            "DELETE FROM billing_events WHERE received_at < $1",
        ] {
            let done = sqlx::query(step).bind(before.as_i64()).execute(&mut *write.tx).await;
            done.map_err(failed("remove old usage"))?;
        }
        write.forget_unused_clients(before, None).await?;
        write.commit().await
    }
}

row! {
    struct EndedRun {
        id: String,
        started_at: i64,
        ended_at: i64,
    }
}

/// The last run of a computer, if it has ended.
const LAST: &str = "SELECT id, started_at, ended_at FROM runs WHERE computer_id = $1 AND ended_at IS NOT NULL \
    ORDER BY started_at DESC, ended_at DESC, id DESC LIMIT 1";
/// The run before it in the same month, at the same size and for the same payer.
const BEFORE: &str = "SELECT p.id, p.started_at, p.ended_at FROM runs p JOIN runs r ON r.id = $2 \
    WHERE p.computer_id = $1 AND p.id <> r.id AND p.ended_at <= r.started_at AND p.started_at >= $3 \
    AND p.cpu = r.cpu AND p.ram_gb = r.ram_gb AND p.account_id = r.account_id \
    AND COALESCE(p.client_id, '') = COALESCE(r.client_id, '') ORDER BY p.started_at DESC, p.id DESC LIMIT 1";

impl Write {
    /// Adds the run of a computer that has just ended to an earlier one, beyond the bound of rows per month.
    pub(crate) async fn fold_runs(&mut self, computer: ComputerId) -> Result<()> {
        let text = computer.to_string();
        let last: Option<EndedRun> = sqlx::query_as(LAST)
            .bind(&text)
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read the run that ended"))?;
        let Some(last) = last else { return Ok(()) };
        let within = parse_month(&UnixMillis::new(last.started_at).month());
        let within = within.ok_or_else(|| Error::internal("a run's month has no bounds"))?;
        // A run over midnight of a month's last day belongs to both months.
        if last.ended_at > within.end.as_i64() {
            return Ok(());
        }
        let (runs,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM runs WHERE computer_id = $1 AND started_at >= $2 AND started_at < $3",
        )
        .bind(&text)
        .bind(within.start.as_i64())
        .bind(within.end.as_i64())
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count runs"))?;
        if runs <= MAX_RUNS {
            return Ok(());
        }
        let before: Option<EndedRun> = sqlx::query_as(BEFORE)
            .bind(&text)
            .bind(&last.id)
            .bind(within.start.as_i64())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("look for an earlier run"))?;
        let Some(before) = before else { return Ok(()) };
        let longer = before.ended_at.saturating_add((last.ended_at - last.started_at).max(0));
        sqlx::query("UPDATE runs SET ended_at = $2, seen_at = $2 WHERE id = $1")
            .bind(&before.id)
            .bind(longer)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("extend a run"))?;
        sqlx::query("DELETE FROM runs WHERE id = $1")
            .bind(&last.id)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("merge a run"))?;
        Ok(())
    }

    /// Refuses one more client of an account with too many removed ones.
    pub(crate) async fn check_past_clients(&mut self, account: AccountId) -> Result<()> {
        let (past,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM clients WHERE account_id = $1 AND removed_at IS NOT NULL")
                .bind(account.to_string())
                .fetch_one(&mut *self.tx)
                .await
                .map_err(failed("count removed clients"))?;
        if past < MAX_PAST_CLIENTS {
            return Ok(());
        }
        let message = format!(
            "The account has {past} removed clients with stored usage, the maximum: reuse an existing client"
        );
        Err(Error::forbidden(message).code(ErrorCode::ClientLimit))
    }

    /// Removes records of clients that were removed before a time and have no stored usage: one, or all.
    pub(crate) async fn forget_unused_clients(
        &mut self,
        before: UnixMillis,
        one: Option<ClientId>,
    ) -> Result<()> {
        sqlx::query(
            "DELETE FROM clients WHERE removed_at < $1 AND ($2 = '' OR id = $2) \
             AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.client_id = clients.id) \
             AND NOT EXISTS (SELECT 1 FROM ai_spend s WHERE s.client_id = clients.id)",
        )
        .bind(before.as_i64())
        .bind(one.map(|client| client.to_string()).unwrap_or_default())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("remove records of removed clients"))?;
        Ok(())
    }
}
