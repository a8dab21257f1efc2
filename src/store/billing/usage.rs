//! How long is it known what was used, and in how many rows? Whoever starts and stops a computer in a loop writes the same
//! sums as before, not one row for each time.

use super::{Store, Write, failed};
use hotdesk_base::clock::{month, month_of};
use hotdesk_base::ids::{AccountId, ClientId, ComputerId};
use hotdesk_domain::error::{Error, Result};

/// Runs of one computer in a month that have rows of their own: three or four a day. Later ones lengthen the last one of the
/// same size, which leaves the sums of the month, and nothing else is told of runs.
const MAX_RUNS: i64 = 100;
/// Removed clients whose usage is kept, of one account: ten times as many as it has by default. Each of them ran a computer
/// or cost something, so that many within the time that usage is kept are a loop that does nothing else.
const MAX_PAST_CLIENTS: i64 = 10_000;

impl Store {
    /// Forgets what was used and paid before a moment ([`hotdesk_domain::usage::kept_since`]), and removed clients of which nothing
    /// else is known. Runs that go on stay, however long ago they began.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_usage(&self, before: i64) -> Result<()> {
        let mut write = self.write().await?;
        for step in [
            "DELETE FROM runs WHERE ended_at < $1",
            "DELETE FROM ai_spend WHERE spent_at < $1",
            "DELETE FROM billing_events WHERE received_at < $1",
        ] {
            let done = sqlx::query(step).bind(before).execute(&mut *write.tx).await;
            done.map_err(failed("forget what was used"))?;
        }
        write.forget_unused_clients(before, None).await?;
        write.commit().await
    }
}

#[derive(sqlx::FromRow)]
struct Ended {
    id: String,
    started_at: i64,
    ended_at: i64,
}

/// The last run of a computer, once it has ended.
const LAST: &str = "SELECT id, started_at, ended_at FROM runs WHERE computer_id = $1 AND ended_at IS NOT NULL \
    ORDER BY started_at DESC, ended_at DESC, id DESC LIMIT 1";
/// The run before it within the same month, at the same size and for the same payer.
const BEFORE: &str = "SELECT p.id, p.started_at, p.ended_at FROM runs p JOIN runs r ON r.id = $2 \
    WHERE p.computer_id = $1 AND p.id <> r.id AND p.ended_at <= r.started_at AND p.started_at >= $3 \
    AND p.cpu = r.cpu AND p.ram_gb = r.ram_gb AND p.account_id = r.account_id \
    AND COALESCE(p.client_id, '') = COALESCE(r.client_id, '') ORDER BY p.started_at DESC, p.id DESC LIMIT 1";

impl Write {
    /// Adds the run of a computer that has just ended to an earlier one, when the computer has many of this month.
    pub(super) async fn fold_runs(&mut self, computer: ComputerId) -> Result<()> {
        let text = computer.to_string();
        let last: Option<Ended> = sqlx::query_as(LAST)
            .bind(&text)
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read the run that ended"))?;
        let Some(last) = last else { return Ok(()) };
        let within = month(&month_of(last.started_at));
        let within = within.ok_or_else(|| Error::internal("a run's month has no bounds"))?;
        // A run that goes over midnight of a month's last day belongs to both.
        if last.ended_at > within.end {
            return Ok(());
        }
        let (runs,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM runs WHERE computer_id = $1 AND started_at >= $2 AND started_at < $3",
        )
        .bind(&text)
        .bind(within.start)
        .bind(within.end)
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count runs"))?;
        if runs <= MAX_RUNS {
            return Ok(());
        }
        let before: Option<Ended> = sqlx::query_as(BEFORE)
            .bind(&text)
            .bind(&last.id)
            .bind(within.start)
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
            .map_err(failed("lengthen a run"))?;
        sqlx::query("DELETE FROM runs WHERE id = $1")
            .bind(&last.id)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("fold a run"))?;
        Ok(())
    }

    /// Refuses one more client of an account that made and removed very many.
    pub(super) async fn check_past_clients(&mut self, account: AccountId) -> Result<()> {
        let (past,): (i64,) =
            sqlx::query_as("SELECT COUNT(*) FROM clients WHERE account_id = $1 AND removed_at IS NOT NULL")
                .bind(account.to_string())
                .fetch_one(&mut *self.tx)
                .await
                .map_err(failed("count removed clients"))?;
        if past < MAX_PAST_CLIENTS {
            return Ok(());
        }
        let message =
            format!("The usage of {past} removed clients is kept, and of no more: keep one instead");
        Err(Error::forbidden(message).code("CLIENT_LIMIT"))
    }

    /// Forgets clients that were removed before `before` and have no usage that is kept: one, or all of them.
    pub(super) async fn forget_unused_clients(&mut self, before: i64, one: Option<ClientId>) -> Result<()> {
        sqlx::query(
            "DELETE FROM clients WHERE removed_at < $1 AND ($2 = '' OR id = $2) \
             AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.client_id = clients.id) \
             AND NOT EXISTS (SELECT 1 FROM ai_spend s WHERE s.client_id = clients.id)",
        )
        .bind(before)
        .bind(one.map(|client| client.to_string()).unwrap_or_default())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("forget removed clients"))?;
        Ok(())
    }
}
