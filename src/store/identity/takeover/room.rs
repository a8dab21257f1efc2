//! Has the person's plan room for what it takes over, and how is that paid for from now on?

use super::super::Write;
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::plan::{Plans, Terms};

/// When a rollback that is under way has most likely ended, in seconds.
const ROLLBACK_RETRY_SECONDS: u32 = 5;

impl Write {
    /// Puts computers that an account has taken over under its plan: each is paid for as one that it makes now.
    ///
    /// # Errors
    /// `PaymentRequired` for an account that is not paid; `Forbidden` when it holds more than its plan gives, or when a
    /// computer, which is named, is larger than one may be: claims must be no way around a plan. `Conflict` for one that is
    /// being rolled back, whose size is not settled.
    pub(super) async fn take_in(
        &mut self,
        account: AccountId,
        computers: &[ComputerId],
        plans: &Plans,
    ) -> Result<()> {
        let terms = plans.terms(&self.standing(account).await?)?;
        terms.check_paid(now_ms())?;
        if computers.is_empty() {
            // It may hold too much already: the plan was larger once.
            return Ok(());
        }
        // No computer is left out.
        let used = self.used_beside(account, ComputerId::random()).await?;
        if let Some(what) = terms.allowance.exceeded(&used) {
            return Err(Error::forbidden(format!("Your plan has no room for it: {what}")).code("PLAN_LIMIT"));
        }
        for computer in computers {
            self.check_one(*computer, &terms).await?;
            self.stamp_billing(*computer, &terms).await?;
        }
        Ok(())
    }

    async fn check_one(&mut self, computer: ComputerId, terms: &Terms) -> Result<()> {
        let row = self.computer(computer).await?;
        if row.rollback_to.is_some() {
            let message =
                format!("The computer \"{}\" is being rolled back: try again in a moment", row.name);
            return Err(Error::conflict(message).retry_after(ROLLBACK_RETRY_SECONDS));
        }
        // A resize under way may end at either size.
        for size in [Some(row.hardware), row.wanted].into_iter().flatten() {
            terms.allowance.check_one(&size).map_err(|refused| {
                let message = format!("Your plan has no room for \"{}\": {}", row.name, refused.message);
                Error { message, ..refused }
            })?;
        }
        Ok(())
    }
}
