//! Plans of accounts.

use hotdesk_base::ids::AccountId;
use hotdesk_domain::billing::plan::{AccountTerms, Plans};
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_domain::error::Result;
use hotdesk_store::Store;

/// Terms of accounts by their plans.
pub struct AccountBilling {
    store: Store,
    plans: Plans,
}

impl AccountBilling {
    /// Creates the service of these plans.
    pub fn new(store: Store, plans: Plans) -> Self {
        Self { store, plans }
    }

    /// Returns an account's plan and what it added to it.
    ///
    /// # Errors
    /// The errors of [`Plans::terms`]; `Internal` when the database fails.
    pub async fn terms(&self, account: AccountId) -> Result<AccountTerms> {
        self.plans.terms(&self.store.standing(account).await?)
    }

    /// Returns an account's allowance. For a computer the owner of its workspace counts
    /// (docs/lifecycle.md#clone).
    ///
    /// # Errors
    /// The errors of [`AccountBilling::terms`].
    pub async fn allowance(&self, owner: AccountId) -> Result<Allowance> {
        self.terms(owner).await.map(|terms| terms.allowance)
    }
}
