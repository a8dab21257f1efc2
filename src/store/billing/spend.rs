//! What did AI models cost a client? A ledger; what would go above a client's cap is not written.

use std::ops::Range;

use super::{Store, Write, failed};
use crate::clients::Client;
use hotdesk_base::clock::{month, month_of, now_ms};
use hotdesk_base::ids::ClientId;
use hotdesk_domain::client::Terms;
use hotdesk_domain::error::{Error, Result};

/// Costs of one client in a month that have rows of their own: one every four minutes. Of more the oldest are added up, which
/// leaves the sum of the month; only what comes again after so many others counts as another cost.
const MAX_COSTS: i64 = 10_000;

/// The sum of a client's spend within a time.
const SPENT: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ai_spend \
                     WHERE client_id = $1 AND spent_at >= $2 AND spent_at < $3";

impl Store {
    /// Writes down a cost of this month, in millionths of a dollar, at most once for each id of the month's newest
    /// 10,000; false when it was written before. The cap is checked in the same transaction.
    ///
    /// # Errors
    /// [`check_spend`](hotdesk_domain::client::Terms::check_spend)'s; `Invalid` for more than can be added up; or the store
    /// fails.
    pub async fn spend(&self, client: &Client, entry: &str, amount: i64, note: &str) -> Result<bool> {
        let now = now_ms();
        let within = month(&month_of(now)).ok_or_else(|| Error::internal("this month has no bounds"))?;
        let mut write = self.write().await?;
        let entry = format!("{} {entry}", client.id);
        let (known,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM ai_spend WHERE id = $1")
            .bind(&entry)
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("look for a cost"))?;
        if known > 0 {
            return Ok(false);
        }
        let (spent,): (i64,) = sqlx::query_as(SPENT)
            .bind(client.id.to_string())
            .bind(within.start)
            .bind(within.end)
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("add up a client's costs"))?;
        let (monthly_ai_cap,): (Option<i64>,) =
            sqlx::query_as("SELECT monthly_ai_cap FROM clients WHERE id = $1")
                .bind(client.id.to_string())
                .fetch_one(&mut *write.tx)
                .await
                .map_err(failed("read a client's cap"))?;
        Terms { monthly_ai_cap, ..client.terms }.check_spend(spent, amount)?;
        if spent.checked_add(amount).is_none() {
            // A sum that the store cannot tell would take the month with it.
            return Err(Error::invalid("amount_usd is more than can be added to this month's"));
        }
        sqlx::query(
            "INSERT INTO ai_spend (id, account_id, client_id, amount, note, spent_at) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(&entry)
        .bind(client.account.to_string())
        .bind(client.id.to_string())
        .bind(amount)
        .bind(note)
        .bind(now)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a cost"))?;
        write.fold_costs(client.id, &within).await?;
        write.commit().await?;
        Ok(true)
    }

    /// What AI models cost a client within a time, in millionths of a dollar.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn spent(&self, client: ClientId, within: &Range<i64>) -> Result<i64> {
        let (spent,): (i64,) = sqlx::query_as(SPENT)
            .bind(client.to_string())
            .bind(within.start)
            .bind(within.end)
            .fetch_one(&self.pool)
            .await
            .map_err(failed("add up a client's costs"))?;
        Ok(spent)
    }
}

impl Write {
    /// Adds the oldest cost of a client's month to the next one, when there are many.
    async fn fold_costs(&mut self, client: ClientId, within: &Range<i64>) -> Result<()> {
        let (costs,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM ai_spend WHERE client_id = $1 AND spent_at >= $2 AND spent_at < $3",
        )
        .bind(client.to_string())
        .bind(within.start)
        .bind(within.end)
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count a client's costs"))?;
        if costs <= MAX_COSTS {
            return Ok(());
        }
        let oldest: Vec<(String, i64)> = sqlx::query_as(
            "SELECT id, amount FROM ai_spend WHERE client_id = $1 AND spent_at >= $2 AND spent_at < $3 \
             ORDER BY spent_at, id LIMIT 2",
        )
        .bind(client.to_string())
        .bind(within.start)
        .bind(within.end)
        .fetch_all(&mut *self.tx)
        .await
        .map_err(failed("look for a client's oldest costs"))?;
        let [(first, amount), (next, _)] = &oldest[..] else { return Ok(()) };
        sqlx::query("UPDATE ai_spend SET amount = amount + $2 WHERE id = $1")
            .bind(next)
            .bind(*amount)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("add a cost to another"))?;
        sqlx::query("DELETE FROM ai_spend WHERE id = $1")
            .bind(first)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("fold a cost"))?;
        Ok(())
    }
}
