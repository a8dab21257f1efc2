//! Account of the operator: whether it is set up, and the set-up.

use super::invitations::person_name;
use crate::identity::auth::keys;
use crate::identity::auth::session::hash_password;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::email::Email;
use hotdesk_store::Store;

/// Account that the first start created.
pub struct Operator {
    store: Store,
}

impl Operator {
    /// Creates the service of the stored account.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Whether the operator's account has no password yet.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn is_new(&self) -> Result<bool> {
        let operator = self.store.account(self.store.operator_account().await?).await?;
        Ok(operator.is_some_and(|operator| operator.password_hash.is_none()))
    }

    /// Sets the operator's address, name and password. The key proves who asks: it is an account-wide key of
    /// the operator. Returns the account.
    ///
    /// # Errors
    /// `Unauthenticated` for another key; `Invalid` for an invalid address, name or password; `Conflict` for
    /// an address of another account; `Forbidden` when the account has a password already.
    pub async fn set_up(
        &self,
        key: &Secret,
        email: &str,
        full_name: &str,
        password: Secret,
    ) -> Result<AccountId> {
        let operator = self.store.operator_account().await?;
        let holder = keys::holder(&self.store, key.reveal().trim()).await?;
        if holder.account != operator || holder.scope.is_some() {
            return Err(Error::unauthenticated(
                "Invalid API key: an account-wide key of the operator is required",
            ));
        }
        let (email, full_name) = (Email::parse(email)?, person_name(full_name)?);
        let hash = hash_password(password).await?;
        if !self.store.set_sign_in(operator, email.as_str(), &full_name, &hash).await? {
            return Err(already_set_up());
        }
        Ok(operator)
    }
}

/// The operator's account has a password.
pub fn already_set_up() -> Error {
    Error::forbidden("This hotdesk is set up already: sign in. For a lost password use `hotdesk admin`.")
}
