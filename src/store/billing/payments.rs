//! What was said of payments? Set by the operator, or by events of a payment service, each of
//! which counts once. They come in any order, so each field knows as of when it is.

use super::{Store, Write, failed};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::billing::{Change, Payment, Variant};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::plan::{Plans, Terms};

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An account.
    Account(AccountId),
    /// A computer.
    Computer(ComputerId),
}

/// An event of a payment service.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its id: it counts once.
    pub id: &'a str,
    /// When what it tells came to be, by the service's own clock, in milliseconds since 1970.
    pub occurred_at: i64,
}

/// What became of what was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The event had been carried out before, and changed nothing.
    pub repeated: bool,
    /// Fields of which something newer was known; they are as they were.
    pub outdated: Vec<&'static str>,
}

/// As of when something is said. Events come in any order: of each field the newest one counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsOf {
    /// In milliseconds since 1970.
    pub(super) at: i64,
    /// The operator's word, which counts whatever was known.
    pub(super) overrides: bool,
}

/// A field that something is said of, and the column with the time as of which its value is.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    table: &'static str,
    stamp: &'static str,
}

impl Field {
    const PLAN: Self = Self { name: "plan", table: "accounts", stamp: "plan_as_of" };
    const ACCOUNT_PAYMENT: Self = Self { name: "payment", table: "accounts", stamp: "payment_as_of" };
    const VARIANT: Self = Self { name: "variant", table: "computers", stamp: "billing_as_of" };
    const PAYMENT: Self = Self { name: "payment", table: "computers", stamp: "payment_as_of" };
    const TRIAL: Self = Self { name: "trial_ends_at", table: "computers", stamp: "trial_as_of" };
    const DEVICE: Self = Self { name: "device", table: "computers", stamp: "device_as_of" };
}

impl Store {
    /// Stores what was said; an event at most once, and of it what is newer than what is known, field by field. Without an
    /// event it is the operator who says it, as of now and whatever was known.
    ///
    /// # Errors
    /// `NotFound` for what is gone; `Invalid` for a plan that there is none of, or a change of another kind of thing; or
    /// the store fails. The event may come again then.
    pub async fn change_billing(
        &self,
        event: Option<Event<'_>>,
        subject: Subject,
        change: &Change,
        plans: &Plans,
    ) -> Result<Taken> {
        let mut write = self.write().await?;
        let now = now_ms();
        let mut taken = Taken::default();
        if let Some(event) = event
            && !write.note_event(event.id, now).await?
        {
            return Ok(Taken { repeated: true, ..taken });
        }
        let as_of = AsOf { at: event.map_or(now, |event| event.occurred_at), overrides: event.is_none() };
        let outdated = &mut taken.outdated;
        match (subject, change) {
            (Subject::Account(account), Change::Account { plan, payment }) => {
                // Whether it is there.
                write.standing(account).await?;
                let row = account.to_string();
                let plan = write.newest(plan.as_ref(), Field::PLAN, &row, as_of, outdated).await?;
                if let Some(plan) = plan {
                    write.set_plan(account, plan.as_deref(), plans, as_of).await?;
                }
                let payment = write.newest(*payment, Field::ACCOUNT_PAYMENT, &row, as_of, outdated).await?;
                if let Some(payment) = payment {
                    write.set_payment(account, payment).await?;
                }
            }
            (Subject::Computer(computer), Change::Computer { variant, payment, trial_ends_at, device }) => {
                write.computer(computer).await?;
                let row = computer.to_string();
                let variant = write.newest(*variant, Field::VARIANT, &row, as_of, outdated).await?;
                let payment = write.newest(*payment, Field::PAYMENT, &row, as_of, outdated).await?;
                let ends = write.newest(*trial_ends_at, Field::TRIAL, &row, as_of, outdated).await?;
                let device = write.newest(*device, Field::DEVICE, &row, as_of, outdated).await?;
                write.set_variant(computer, variant, payment).await?;
                write.set_trial(computer, ends, device).await?;
            }
            (Subject::Account(_), Change::Computer { .. })
            | (Subject::Computer(_), Change::Account { .. }) => {
                return Err(Error::invalid("an account and a computer have other fields"));
            }
        }
        write.commit().await?;
        Ok(taken)
    }
}

impl Write {
    /// Writes an event's id down; false when it was before.
    async fn note_event(&mut self, event: &str, now: i64) -> Result<bool> {
        let fresh = sqlx::query(
            "INSERT INTO billing_events (id, received_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING",
        )
        .bind(event)
        .bind(now)
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store a billing event"))?;
        Ok(fresh.rows_affected() > 0)
    }

    /// What is said of a field, unless something newer is known; from then on it is as of that. Of two that say the same
    /// time the later one to come counts.
    async fn newest<T>(
        &mut self,
        said: Option<T>,
        field: Field,
        row: &str,
        as_of: AsOf,
        outdated: &mut Vec<&'static str>,
    ) -> Result<Option<T>> {
        if said.is_none() {
            return Ok(None);
        }
        let Field { name, table, stamp } = field;
        let update = format!(
            "UPDATE {table} SET {stamp} = $2 WHERE id = $1 AND ($3 = 1 OR {stamp} IS NULL OR {stamp} <= $2)"
        );
        let stamped = sqlx::query(sqlx::AssertSqlSafe(update))
            .bind(row)
            .bind(as_of.at)
            .bind(i64::from(as_of.overrides))
            .execute(&mut *self.tx)
            .await
            .map_err(failed("note as of when something was said"))?;
        if stamped.rows_affected() > 0 {
            return Ok(said);
        }
        outdated.push(name);
        Ok(None)
    }

    async fn set_payment(&mut self, account: AccountId, payment: Payment) -> Result<()> {
        sqlx::query("UPDATE accounts SET payment = $2 WHERE id = $1")
            .bind(account.to_string())
            .bind(payment.name())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("set an account's payment"))?;
        Ok(())
    }

    async fn set_variant(
        &mut self,
        computer: ComputerId,
        variant: Option<Variant>,
        payment: Option<Payment>,
    ) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET billing = COALESCE($2, billing), payment = COALESCE($3, payment), updated_at = $4 \
             WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(variant.map(Variant::name))
        .bind(payment.map(Payment::name))
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set how a computer is paid for"))?;
        Ok(())
    }

    /// Stamps how a computer is paid for as if its owner, whose terms these are, made it now: what was said of it before was
    /// about another payer, and is outdated where it comes later. What plan the owner has may come later and still count.
    pub(super) async fn stamp_billing(&mut self, computer: ComputerId, terms: &Terms) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET billing = $2, payment = $3, payment_as_of = $5, trial_ends_at = $4, device = 0, \
             device_as_of = $5, updated_at = $5 WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(terms.variant().name())
        .bind(Payment::Current.name())
        .bind(terms.trial_ends_at)
        .bind(now_ms())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("stamp how a computer is paid for"))?;
        Ok(())
    }

    async fn set_trial(
        &mut self,
        computer: ComputerId,
        trial_ends_at: Option<Option<i64>>,
        device: Option<bool>,
    ) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET trial_ends_at = CASE WHEN $2 = 1 THEN $3 ELSE trial_ends_at END, \
             device = COALESCE($4, device) WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(i64::from(trial_ends_at.is_some()))
        .bind(trial_ends_at.flatten())
        .bind(device.map(i64::from))
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set a computer's trial"))?;
        Ok(())
    }
}
