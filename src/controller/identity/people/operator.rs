//! Account of the operator: whether it is set up, and the set-up.

use super::invitations::person_name;
use crate::identity::auth::keys;
use crate::identity::auth::session::hash_password;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{Caller, check_account_wide};
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

    /// Returns the operator's account if it has this key, which must be account-wide.
    ///
    /// # Errors
    /// `Unauthenticated` for another key; `Unavailable` when the database fails.
    pub async fn of_key(&self, key: &Secret) -> Result<AccountId> {
        let holder = keys::holder(&self.store, key.reveal().trim()).await?;
        if holder.account != self.store.operator_account().await? || holder.scope.is_some() {
            return Err(Error::unauthenticated(
                "Invalid API key: an account-wide key of the operator is required",
            ));
        }
        Ok(holder.account)
    }

    /// Checks that the caller acts for the operator's account as a whole. `what` completes "cannot ...".
    ///
    /// # Errors
    /// `Forbidden`: `workspace_scope_mismatch` for a key of one workspace, `ACCESS_DENIED` for another
    /// account; `Unavailable` or `Internal` when the database fails.
    pub async fn check(&self, caller: &Caller, what: &str) -> Result<()> {
        check_account_wide(caller, what)?;
        if caller.account == self.store.operator_account().await? {
            return Ok(());
        }
        Err(Error::forbidden("Access denied: only the operator of the service may do that")
            .code(ErrorCode::AccessDenied))
    }

    /// Sets the operator's address, name and password. `account` is the account of the person who asks.
    ///
    /// # Errors
    /// `Forbidden` for another account, or when the operator's has a password already; `Invalid` for an invalid
    /// address, name or password; `Conflict` for an address of another account.
    pub async fn set_up(
        &self,
        account: AccountId,
        email: &str,
        full_name: &str,
        password: Secret,
    ) -> Result<()> {
        if account != self.store.operator_account().await? {
            return Err(Error::forbidden("Only the operator sets this hotdesk up"));
        }
        let (email, full_name) = (Email::parse(email)?, person_name(full_name)?);
        let hash = hash_password(password).await?;
        if !self.store.set_sign_in(account, email.as_str(), &full_name, &hash).await? {
            return Err(already_set_up());
        }
        Ok(())
    }
}

/// The operator's account has a password.
pub fn already_set_up() -> Error {
    Error::forbidden("This hotdesk is set up already: sign in. For a lost password use `hotdesk admin`.")
}
