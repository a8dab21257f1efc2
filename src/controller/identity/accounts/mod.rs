//! What may an account do, and which accounts come and go without a person? Plans, agents' accounts, and who may say what is
//! paid.

pub mod agents;
pub mod expiry;
pub mod signature;

use super::App;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::allowance::Allowance;
use hotdesk_domain::error::Result;
use hotdesk_domain::plan::Terms;

impl App {
    /// What an account may do: its plan, and what it added.
    ///
    /// # Errors
    /// As [`Plans::terms`](hotdesk_domain::plan::Plans::terms); or the store fails.
    pub async fn terms(&self, account: AccountId) -> Result<Terms> {
        self.plans.terms(&self.store.standing(account).await?)
    }

    /// What an account may have. For a computer it is its workspace's owner's (interface.md "Clone" rule 5).
    ///
    /// # Errors
    /// As [`App::terms`].
    pub async fn allowance(&self, owner: AccountId) -> Result<Allowance> {
        self.terms(owner).await.map(|terms| terms.allowance)
    }
}
