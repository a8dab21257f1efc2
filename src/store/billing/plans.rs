//! Which plan has each account, what did it add to it, and is it paid?

use super::billing::AsOf;
use super::{Store, Write, failed};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::billing::Payment;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::plan::{Capacity, Plans, Standing, Terms};

const STANDING: &str = "SELECT plan, COALESCE(plan_since, created_at) AS plan_since, added_computers, payment \
                        FROM accounts WHERE id = $1";

#[derive(sqlx::FromRow)]
struct Row {
    plan: Option<String>,
    plan_since: i64,
    added_computers: i64,
    payment: String,
}

impl TryFrom<Row> for Standing {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("an account holds a bad {what}"));
        Ok(Self {
            plan: row.plan,
            plan_since: row.plan_since,
            added_computers: u32::try_from(row.added_computers).map_err(|_| bad("number of computers"))?,
            payment: Payment::named(&row.payment).ok_or_else(|| bad("payment"))?,
        })
    }
}

fn gone() -> Error {
    Error::not_found("Account not found")
}

impl Store {
    /// How an account stands.
    ///
    /// # Errors
    /// `NotFound` when it is gone; or the store fails.
    pub async fn standing(&self, account: AccountId) -> Result<Standing> {
        let row: Option<Row> = sqlx::query_as(STANDING)
            .bind(account.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read how an account stands"))?;
        row.ok_or_else(gone)?.try_into()
    }

    /// Adds computers to an account's plan, or gives some back, together with the look at what is used (threats.md T23).
    /// Without `really` nothing is stored. The terms as they are then.
    ///
    /// # Errors
    /// [`Terms::changed`]'s; or the store fails.
    pub async fn change_capacity(
        &self,
        account: AccountId,
        change: Capacity,
        plans: &Plans,
        really: bool,
    ) -> Result<Terms> {
        let mut write = self.write().await?;
        let standing = write.standing(account).await?;
        // No computer is left out.
        let used = write.used_beside(account, ComputerId::random()).await?;
        let added_computers = plans.terms(&standing)?.changed(change, &used)?;
        if really {
            sqlx::query("UPDATE accounts SET added_computers = $2 WHERE id = $1")
                .bind(account.to_string())
                .bind(i64::from(added_computers))
                .execute(&mut *write.tx)
                .await
                .map_err(failed("change an account's capacity"))?;
            write.commit().await?;
        }
        plans.terms(&Standing { added_computers, ..standing })
    }
}

impl Write {
    /// How an account stands, as this write sees it.
    pub(super) async fn standing(&mut self, account: AccountId) -> Result<Standing> {
        let row: Option<Row> = sqlx::query_as(STANDING)
            .bind(account.to_string())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read how an account stands"))?;
        row.ok_or_else(gone)?.try_into()
    }

    /// Gives an account a plan. What was on trial is included when the new plan is no trial, and on trial until its end
    /// when it is one; but for what a computer's own events say as of later than `as_of`, unless that overrides it.
    pub(super) async fn set_plan(
        &mut self,
        account: AccountId,
        plan: Option<&str>,
        plans: &Plans,
        as_of: AsOf,
    ) -> Result<()> {
        if let Some(name) = plan {
            plans.check(name)?;
        }
        let now = now_ms();
        // The same plan said again goes on: its trial does not begin anew.
        let before = self.standing(account).await?;
        let since = if before.plan.as_deref() == plan { before.plan_since } else { now };
        sqlx::query("UPDATE accounts SET plan = $2, plan_since = $3 WHERE id = $1")
            .bind(account.to_string())
            .bind(plan)
            .bind(since)
            .execute(&mut *self.tx)
            .await
            .map_err(failed("set a plan"))?;
        let terms = plans.terms(&self.standing(account).await?)?;
        sqlx::query(
            "UPDATE computers SET updated_at = $4, \
             billing = CASE WHEN $6 = 1 OR COALESCE(billing_as_of, $5) <= $5 THEN $2 ELSE billing END, \
             trial_ends_at = CASE WHEN $6 = 1 OR COALESCE(trial_as_of, $5) <= $5 THEN $3 ELSE trial_ends_at END, \
             billing_as_of = CASE WHEN $6 = 1 OR COALESCE(billing_as_of, $5) <= $5 THEN $5 ELSE billing_as_of END, \
             trial_as_of = CASE WHEN $6 = 1 OR COALESCE(trial_as_of, $5) <= $5 THEN $5 ELSE trial_as_of END \
             WHERE billing IN ('trial', 'included') AND workspace_id IN (SELECT id FROM workspaces WHERE account_id = $1)",
        )
        .bind(account.to_string())
        .bind(terms.variant().name())
        .bind(terms.trial_ends_at)
        .bind(now)
        .bind(as_of.at)
        .bind(i64::from(as_of.overrides))
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set how computers are paid for"))?;
        Ok(())
    }
}
