//! Billing changes by the operator, or by events of a payment service.
//!
//! Each event counts once. Events arrive in any order, so each field stores the time of its value.

use crate::fleet::changes::RecordChange;
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::{AccountTerms, Plans};
use hotdesk_domain::billing::{BillingChange, Payment, Variant};
use hotdesk_domain::error::{Error, Result};

/// The object of a billing change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingSubject {
    /// An account.
    Account(AccountId),
    /// A computer.
    Computer(ComputerId),
}

/// An event of a payment service.
#[derive(Clone, Copy, Debug)]
pub struct PaymentEvent<'a> {
    /// Its id, for deduplication.
    pub id: &'a str,
    /// Time of the event by the payment service's clock.
    pub occurred_at: UnixMillis,
}

/// Result of a billing change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BillingOutcome {
    /// Whether the event was processed before; it changes nothing then.
    pub repeated: bool,
    /// Fields with a newer value, which are unchanged.
    pub outdated: Vec<&'static str>,
}

/// Time of a billing change. Of several changes to a field the newest one counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeTime {
    /// Time of the change.
    pub(crate) at: UnixMillis,
    /// Whether it is a change by the operator, which overrides newer values.
    pub(crate) overrides: bool,
}

/// A billing field, and the column with the time of its value.
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
    /// Applies a billing change. An event applies at most once, and only to fields without a newer value. A
    /// change without an event is the operator's: it applies now and overrides all values.
    ///
    /// # Errors
    /// `NotFound` when the account or computer does not exist; `Invalid` for an unknown plan, or a change of
    /// the other kind of object; `Unavailable` or `Internal` when the store fails. The event can be sent
    /// again then.
    pub async fn change_billing(
        &self,
        event: Option<PaymentEvent<'_>>,
        subject: BillingSubject,
        change: &BillingChange,
        plans: &Plans,
    ) -> Result<BillingOutcome> {
        let mut write = self.write().await?;
        let now = clock::now();
        let mut taken = BillingOutcome::default();
        if let Some(event) = event
            && !write.note_event(event.id, now).await?
        {
            return Ok(BillingOutcome { repeated: true, ..taken });
        }
        let as_of =
            ChangeTime { at: event.map_or(now, |event| event.occurred_at), overrides: event.is_none() };
        let outdated = &mut taken.outdated;
        match (subject, change) {
            (BillingSubject::Account(account), BillingChange::Account { plan, payment }) => {
                // Fails when the account does not exist.
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
            (
                BillingSubject::Computer(computer),
                BillingChange::Computer { variant, payment, trial_ends_at, device },
            ) => {
                write.computer(computer).await?;
                let row = computer.to_string();
                let variant = write.newest(*variant, Field::VARIANT, &row, as_of, outdated).await?;
                let payment = write.newest(*payment, Field::PAYMENT, &row, as_of, outdated).await?;
                let ends = write.newest(*trial_ends_at, Field::TRIAL, &row, as_of, outdated).await?;
                let device = write.newest(*device, Field::DEVICE, &row, as_of, outdated).await?;
                write.set_variant(computer, variant, payment).await?;
                write.set_trial(computer, ends, device).await?;
            }
            (BillingSubject::Account(_), BillingChange::Computer { .. })
            | (BillingSubject::Computer(_), BillingChange::Account { .. }) => {
                return Err(Error::invalid(
                    "the change does not fit the object: an account has plan and payment, a computer has variant, \
                     payment, trial_ends_at and device",
                ));
            }
        }
        write.commit().await?;
        Ok(taken)
    }
}

impl Write {
    /// Stores an event's id; returns false when it is stored already.
    async fn note_event(&mut self, event: &str, now: UnixMillis) -> Result<bool> {
        let fresh = sqlx::query(
            "INSERT INTO billing_events (id, received_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING",
        )
        .bind(event)
        .bind(now.as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store a billing event"))?;
        Ok(fresh.rows_affected() > 0)
    }

    /// Returns a field's new value unless a newer one is stored, and stores its time. Of two values with the
    /// same time, the later call wins.
    async fn newest<T>(
        &mut self,
        said: Option<T>,
        field: Field,
        row: &str,
        as_of: ChangeTime,
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
            .bind(as_of.at.as_i64())
            .bind(i64::from(as_of.overrides))
            .execute(&mut *self.tx)
            .await
            .map_err(failed("store the time of a billing field"))?;
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
        .bind(clock::now().as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set a computer's billing"))?;
        self.note(RecordChange::Computer(computer));
        Ok(())
    }

    /// Stamps a computer's billing as if its owner, who has these terms, created it now: earlier events
    /// concern another payer, and are outdated. A later event about the owner's plan still counts.
    pub(crate) async fn stamp_billing(&mut self, computer: ComputerId, terms: &AccountTerms) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET billing = $2, payment = $3, payment_as_of = $5, trial_ends_at = $4, device = 0, \
             device_as_of = $5, updated_at = $5 WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(terms.variant().name())
        .bind(Payment::Current.name())
        .bind(terms.trial_ends_at.map(UnixMillis::as_i64))
        .bind(clock::now().as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("stamp a computer's billing"))?;
        self.note(RecordChange::Computer(computer));
        Ok(())
    }

    async fn set_trial(
        &mut self,
        computer: ComputerId,
        trial_ends_at: Option<Option<UnixMillis>>,
        device: Option<bool>,
    ) -> Result<()> {
        sqlx::query(
            "UPDATE computers SET trial_ends_at = CASE WHEN $2 = 1 THEN $3 ELSE trial_ends_at END, \
             device = COALESCE($4, device) WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(i64::from(trial_ends_at.is_some()))
        .bind(trial_ends_at.flatten().map(UnixMillis::as_i64))
        .bind(device.map(i64::from))
        .execute(&mut *self.tx)
        .await
        .map_err(failed("set a computer's trial"))?;
        Ok(())
    }
}
