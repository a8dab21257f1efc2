//! Ledger of AI model costs per client. A cost above the client's cap is refused.

use std::ops::Range;

use crate::identity::clients::Client;
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ClientId;
use hotdesk_base::time::{UnixMillis, parse_month};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::client::ClientTerms;

/// Rows per client and month: one every four minutes. Beyond that the oldest are added up, which preserves
/// the month's sum. A repeated id then counts as a new cost only after that many other costs.
const MAX_COSTS: i64 = 10_000;

/// Sum of a client's costs within a time.
const SPENT: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ai_spend \
                     WHERE client_id = $1 AND spent_at >= $2 AND spent_at < $3";

impl Store {
    /// Adds a cost to this month, in millionths of a dollar, at most once for each id among the month's
    /// newest 10,000. Checks the cap in the same transaction. Returns false when the cost was stored before.
    ///
    /// # Errors
    /// Those of [`check_spend`](hotdesk_domain::identity::client::ClientTerms::check_spend); `Invalid` when
    /// the sum would overflow; `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn add_ai_cost(&self, client: &Client, entry: &str, amount: i64, note: &str) -> Result<bool> {
        let now = clock::now();
        let within = parse_month(&now.month()).ok_or_else(|| Error::internal("this month has no bounds"))?;
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
            .bind(within.start.as_i64())
            .bind(within.end.as_i64())
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("add up a client's costs"))?;
        let (monthly_ai_cap,): (Option<i64>,) =
            sqlx::query_as("SELECT monthly_ai_cap FROM clients WHERE id = $1")
                .bind(client.id.to_string())
                .fetch_one(&mut *write.tx)
                .await
                .map_err(failed("read a client's cap"))?;
        ClientTerms { monthly_ai_cap, ..client.terms }.check_spend(spent, amount)?;
        if spent.checked_add(amount).is_none() {
            // An overflowing sum would make the month unreadable.
            return Err(Error::invalid("amount_usd is too large: this month's sum would overflow"));
        }
        sqlx::query(
            "INSERT INTO ai_spend (id, account_id, client_id, amount, note, spent_at) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(&entry)
        .bind(client.account.to_string())
        .bind(client.id.to_string())
        .bind(amount)
        .bind(note)
        .bind(now.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a cost"))?;
        write.fold_costs(client.id, &within).await?;
        write.commit().await?;
        Ok(true)
    }

    /// Returns a client's costs in millionths of a dollar, within a range of times.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn ai_spend(&self, client: ClientId, within: &Range<UnixMillis>) -> Result<i64> {
        let (spent,): (i64,) = sqlx::query_as(SPENT)
            .bind(client.to_string())
            .bind(within.start.as_i64())
            .bind(within.end.as_i64())
            .fetch_one(&self.pool)
            .await
            .map_err(failed("add up a client's costs"))?;
        Ok(spent)
    }
}

impl Write {
    /// Adds the oldest cost of a client's month to the next one, beyond the bound of rows.
    async fn fold_costs(&mut self, client: ClientId, within: &Range<UnixMillis>) -> Result<()> {
        let (costs,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM ai_spend WHERE client_id = $1 AND spent_at >= $2 AND spent_at < $3",
        )
        .bind(client.to_string())
        .bind(within.start.as_i64())
        .bind(within.end.as_i64())
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
        .bind(within.start.as_i64())
        .bind(within.end.as_i64())
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
            .map_err(failed("merge a cost"))?;
        Ok(())
    }
}
