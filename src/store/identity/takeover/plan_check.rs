//! Plan check of a takeover, and billing of the transferred computers.

use crate::Write;
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::billing::plan::{AccountTerms, Plans};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Seconds after which a rollback has probably ended.
const ROLLBACK_RETRY_SECONDS: u32 = 5;

impl Write {
    /// Puts transferred computers under an account's plan: each is billed as a new one.
    ///
    /// # Errors
    /// `PaymentRequired` for an account that has not paid; `Forbidden` when the account exceeds its plan, or
    /// a computer exceeds the plan's size: a claim must not bypass the plan. `Conflict` for a computer that
    /// is being rolled back, because its size is not settled.
    pub(super) async fn apply_plan(
        &mut self,
        account: AccountId,
        computers: &[ComputerId],
        plans: &Plans,
    ) -> Result<()> {
        let terms = plans.terms(&self.standing(account).await?)?;
        terms.check_paid(clock::now())?;
        if computers.is_empty() {
            // The account may exceed a plan that was larger once.
            return Ok(());
        }
        // A random id excludes no computer.
        let used = self.resource_use_besides(account, ComputerId::random()).await?;
        if let Some(what) = terms.allowance.exceeded(&used) {
            return Err(
                Error::forbidden(format!("Your plan has no room for it: {what}")).code(ErrorCode::PlanLimit)
            );
        }
        for computer in computers {
            self.check_one(*computer, &terms).await?;
            self.stamp_billing(*computer, &terms).await?;
        }
        Ok(())
    }

    async fn check_one(&mut self, computer: ComputerId, terms: &AccountTerms) -> Result<()> {
        let row = self.computer(computer).await?;
        if row.rollback_to.is_some() {
            let message =
                format!("The computer \"{}\" is being rolled back: try again in a moment", row.name);
            return Err(Error::conflict(message).retry_after(ROLLBACK_RETRY_SECONDS));
        }
        // A resize in progress may end at either size.
        for size in [Some(row.hardware), row.wanted].into_iter().flatten() {
            terms.allowance.check_one(&size).map_err(|refused| {
                let message = format!("Your plan does not admit \"{}\": {}", row.name, refused.message);
                Error { message, ..refused }
            })?;
        }
        Ok(())
    }
}
