//! Plans of accounts, accounts of AI agents, and billing events.

pub mod agents;
pub mod expiry;
pub mod signature;

use crate::App;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::billing::plan::AccountTerms;
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_domain::error::Result;

impl App {
    /// Returns an account's plan and what it added to it.
    ///
    /// # Errors
    /// The errors of [`Plans::terms`](hotdesk_domain::billing::plan::Plans::terms); `Internal` when the
    /// database fails.
    pub async fn terms(&self, account: AccountId) -> Result<AccountTerms> {
        self.plans.terms(&self.store.standing(account).await?)
    }

    /// Returns an account's allowance. For a computer the owner of its workspace counts
    /// (docs/lifecycle.md#clone).
    ///
    /// # Errors
    /// The errors of [`App::terms`].
    pub async fn allowance(&self, owner: AccountId) -> Result<Allowance> {
        self.terms(owner).await.map(|terms| terms.allowance)
    }
}
