//! Plans of accounts, their added computers and their payment state.

use crate::billing::payments::ChangeTime;
use crate::fleet::changes::RecordChange;
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::Payment;
use hotdesk_domain::billing::plan::{AccountStanding, AccountTerms, CapacityChange, Plans};
use hotdesk_domain::error::{Error, Result};

const STANDING: &str = "SELECT plan, COALESCE(plan_since, created_at) AS plan_since, added_computers, payment \
                        FROM accounts WHERE id = $1";

row! {
    struct Row {
        plan: Option<String>,
        plan_since: i64,
        added_computers: i64,
        payment: String,
    }
}

impl TryFrom<Row> for AccountStanding {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("an account holds a bad {what}"));
        Ok(Self {
            plan: row.plan,
            plan_since: UnixMillis::new(row.plan_since),
            added_computers: u32::try_from(row.added_computers).map_err(|_| bad("number of computers"))?,
            payment: Payment::from_name(&row.payment).ok_or_else(|| bad("payment"))?,
        })
    }
}

fn gone() -> Error {
    Error::not_found("Account not found")
}

impl Store {
    /// Returns the plan, added computers and payment state of an account.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn standing(&self, account: AccountId) -> Result<AccountStanding> {
        let row: Option<Row> = sqlx::query_as(STANDING)
            .bind(account.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read an account's plan"))?;
        row.ok_or_else(gone)?.try_into()
    }

    /// Adds computers to an account's plan or removes them, checking its use in the same transaction (T23,
    /// docs/security.md). Without `really`, nothing is stored. Returns the resulting terms.
    ///
    /// # Errors
    /// Those of [`AccountTerms::apply_change`]; `Unavailable` or `Internal` when the store fails. Nothing is
    /// changed then.
    pub async fn change_capacity(
        &self,
        account: AccountId,
        change: CapacityChange,
        plans: &Plans,
        really: bool,
    ) -> Result<AccountTerms> {
        let mut write = self.write().await?;
        let standing = write.standing(account).await?;
        // A random id excludes no computer.
        let used = write.resource_use_besides(account, ComputerId::random()).await?;
        let added_computers = plans.terms(&standing)?.apply_change(change, &used)?;
        if really {
            sqlx::query("UPDATE accounts SET added_computers = $2 WHERE id = $1")
                .bind(account.to_string())
                .bind(i64::from(added_computers))
                .execute(&mut *write.tx)
                .await
                .map_err(failed("change an account's capacity"))?;
            write.commit().await?;
        }
        plans.terms(&AccountStanding { added_computers, ..standing })
    }
}

impl Write {
    /// Returns the plan, added computers and payment state as this transaction sees them.
    pub(crate) async fn standing(&mut self, account: AccountId) -> Result<AccountStanding> {
        let row: Option<Row> = sqlx::query_as(STANDING)
            .bind(account.to_string())
            .fetch_optional(&mut *self.tx)
            .await
            .map_err(failed("read an account's plan"))?;
        row.ok_or_else(gone)?.try_into()
    }

    /// Sets an account's plan. Computers on trial or included become included, or on trial until its end when
    /// the new plan is a trial. Billing set by a computer's own events later than `as_of` stays, unless
    /// `as_of` overrides it.
    pub(crate) async fn set_plan(
        &mut self,
        account: AccountId,
        plan: Option<&str>,
        plans: &Plans,
        as_of: ChangeTime,
    ) -> Result<()> {
        if let Some(name) = plan {
            plans.check(name)?;
        }
        let now = clock::now();
        // Setting the same plan again does not restart its trial.
        let before = self.standing(account).await?;
        let since = if before.plan.as_deref() == plan { before.plan_since } else { now };
        sqlx::query("UPDATE accounts SET plan = $2, plan_since = $3 WHERE id = $1")
            .bind(account.to_string())
            .bind(plan)
            .bind(since.as_i64())
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
        .bind(terms.trial_ends_at.map(UnixMillis::as_i64))
        .bind(now.as_i64())
        .bind(as_of.at.as_i64())
        .bind(i64::from(as_of.overrides))
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set the billing of computers"))?;
        self.note(RecordChange::Account(account));
        Ok(())
    }
}
