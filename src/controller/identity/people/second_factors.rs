//! Second factors: an authenticator app that a sign-in with a password needs too, and codes for the loss of the app.
//!
//! Sign-in links and API keys need none: a key is a secret of a program, and a link shows its key.

use std::time::Instant;

use crate::identity::auth::keys;
use crate::identity::auth::sign_ins::SignIns;
use crate::web::source::Source;
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, SessionId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::{recovery_code, totp};
use hotdesk_store::Store;
use hotdesk_store::identity::people::Account;
use hotdesk_store::identity::sign_in::second_factors::SecondFactor;

/// Recovery codes of an account. A person prints them; each replaces the app once.
const RECOVERY_CODES: usize = 10;

/// Second factors of accounts.
pub struct SecondFactors {
    store: Store,
    /// Recent wrong codes. A right password does not forget them, else who knows it could guess on.
    guesses: SignIns,
}

impl SecondFactors {
    /// Creates the service of the stored factors.
    pub fn new(store: Store) -> Self {
        Self { store, guesses: SignIns::of_codes() }
    }

    /// Returns the second factor of an account, or `None` when a password alone signs it in.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn of(&self, account: AccountId) -> Result<Option<SecondFactor>> {
        self.store.second_factor(account).await
    }

    /// Returns a new secret for an authenticator app. It has no effect until [`SecondFactors::turn_on`].
    pub fn new_secret(&self) -> Secret {
        totp::secret_of(&rand::random())
    }

    /// Turns the second factor of an account on, with a secret and a code of the app that has it. Ends the other
    /// sessions of the account. Returns the recovery codes, which are not available later.
    ///
    /// # Errors
    /// `Invalid` for a wrong code or a malformed secret; `Conflict` when the account has a second factor; `Internal`
    /// when the database fails.
    pub async fn turn_on(
        &self,
        account: AccountId,
        session: SessionId,
        secret: &Secret,
        code: &str,
    ) -> Result<Vec<Secret>> {
        let Some(step) = totp::accepted_step(secret, code, clock::now(), 0)? else {
            return Err(Error::invalid(
                "The code is not right. Enter the code that the app shows now, and check the clock of its device.",
            ));
        };
        let (codes, digests) = new_codes(account);
        if !self.store.add_second_factor(account, secret, step, &digests, session).await? {
            return Err(Error::conflict(
                "This account has an authenticator app already: remove that one first",
            ));
        }
        Ok(codes)
    }

    /// Replaces the recovery codes of an account. Returns the new ones, which are not available later.
    ///
    /// # Errors
    /// `NotFound` when the account has no second factor; `Internal` when the database fails.
    pub async fn new_recovery_codes(&self, account: AccountId) -> Result<Vec<Secret>> {
        let (codes, digests) = new_codes(account);
        if self.store.replace_recovery_codes(account, &digests).await? { Ok(codes) } else { Err(no_factor()) }
    }

    /// Turns the second factor of an account off.
    ///
    /// # Errors
    /// `NotFound` when the account has none; `Internal` when the database fails.
    pub async fn turn_off(&self, account: AccountId) -> Result<()> {
        if self.store.remove_second_factor(account).await? { Ok(()) } else { Err(no_factor()) }
    }

    /// Whether a code of the app, or a recovery code, is right. It is used up then.
    ///
    /// # Errors
    /// `RateLimited` after too many wrong ones, by account and address; `Internal` when the database fails.
    pub async fn accept(&self, account: &Account, source: Source, code: &str) -> Result<bool> {
        let attempt = self.guesses.attempt(source, &account.email, Instant::now())?;
        let accepted = self.is_right(account.id, code).await?;
        if accepted {
            attempt.succeeded();
        }
        Ok(accepted)
    }

    /// Whether a refused attempt is written to the audit log: one in a minute for each account.
    pub fn is_logged(&self, account: &Account) -> bool {
        self.guesses.is_logged(&account.email, Instant::now())
    }

    async fn is_right(&self, account: AccountId, code: &str) -> Result<bool> {
        // It may have been turned off since the password was shown; then the person signs in again.
        let Some(factor) = self.store.second_factor(account).await? else { return Ok(false) };
        let now = clock::now();
        if let Some(step) = totp::accepted_step(&factor.secret, code, now, factor.last_step)? {
            return self.store.use_code_step(account, step).await;
        }
        match recovery_code::parse(code) {
            Some(code) => self.store.use_recovery_code(account, &recovery_digest(account, &code)).await,
            None => Ok(false),
        }
    }
}

fn no_factor() -> Error {
    Error::not_found("This account has no authenticator app")
}

/// Returns new recovery codes and their digests.
fn new_codes(account: AccountId) -> (Vec<Secret>, Vec<String>) {
    let codes: Vec<Secret> = (0..RECOVERY_CODES).map(|_| recovery_code::code_of(&rand::random())).collect();
    let digests = codes.iter().map(|code| recovery_digest(account, code)).collect();
    (codes, digests)
}

/// The digest names the account, so that equal codes of two accounts have different ones.
fn recovery_digest(account: AccountId, code: &Secret) -> String {
    keys::digest(&format!("recovery code of {account}: {}", code.reveal()))
}
