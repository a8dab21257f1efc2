//! Passkeys (W3C Web Authentication Level 2): registration in the settings, and sign-in without a password.
//!
//! ```text
//! page: challenge, token    ->  script: navigator.credentials.create() or .get()
//! form: token, credential   ->  challenge is ours, fresh and unanswered; origin, site, person verified; signature
//! ```
//!
//! `passki` verifies. Challenges are this service's own: they need no storage until a passkey has answered them.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

mod ceremony;
mod challenge;
mod public_key;
#[cfg(test)]
mod w3c_vectors;

pub use ceremony::{Assertion, NewCredential};
pub use challenge::Challenge;

use crate::identity::auth::session::SignedIn;
use crate::web::failures::Failures;
use crate::web::origin::Origin;
use crate::web::source::Source;
use ceremony::{ExpectedCeremony, counter_did_not_grow};
use challenge::Challenges;
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::name::Name;
use hotdesk_store::Store;
use hotdesk_store::identity::sign_in::passkeys::Passkey;

/// Purpose of the challenges of a sign-in.
const SIGN_IN: &str = "sign in";
/// Failed sign-ins of one client address in a minute. Passkeys are not guessed; this bounds the work.
const MAX_FAILURES: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// Passkeys of accounts.
pub struct Passkeys {
    store: Store,
    challenges: Challenges,
    failures: Failures<Source>,
}

impl Passkeys {
    /// Creates the service of the stored passkeys.
    pub fn new(store: Store) -> Self {
        Self { store, challenges: Challenges::default(), failures: Failures::new(MAX_FAILURES, MINUTE) }
    }

    /// Returns the passkeys of an account, oldest first.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn of(&self, account: AccountId) -> Result<Vec<Passkey>> {
        self.store.passkeys_of(account).await
    }

    /// Returns a challenge for a new passkey of a signed-in person.
    pub fn registration(&self, who: &SignedIn) -> Challenge {
        self.challenges.issue(&registration_of(who), Instant::now())
    }

    /// Stores a new passkey of a signed-in person.
    ///
    /// # Errors
    /// `Invalid` for an invalid name or answer, and for an old challenge; those of [`Store::add_passkey`].
    pub async fn register(
        &self,
        who: &SignedIn,
        origin: &Origin,
        name: &str,
        token: &Secret,
        new: &NewCredential,
    ) -> Result<()> {
        let name = Name::parse(name)?;
        let challenge =
            self.challenges.open(&registration_of(who), token, Instant::now()).ok_or_else(too_old)?;
        let expected = expected(&challenge, origin);
        let sign_count = new.verify(&expected)?;
        if !self.challenges.answer(&challenge, Instant::now()) {
            return Err(too_old());
        }
        let passkey = Passkey {
            credential_id: new.id.clone(),
            account: who.account,
            name: name.as_str().to_owned(),
            public_key: new.public_key.clone(),
            sign_count,
            created_at: clock::now(),
            last_used_at: None,
        };
        self.store.add_passkey(&passkey).await
    }

    /// Removes a passkey of an account.
    ///
    /// # Errors
    /// `NotFound` when the account has no such passkey; `Internal` when the database fails.
    pub async fn remove(&self, account: AccountId, credential_id: &str) -> Result<()> {
        if self.store.remove_passkey(account, credential_id).await? {
            return Ok(());
        }
        Err(Error::not_found("Passkey not found"))
    }

    /// Returns a challenge for a sign-in.
    pub fn challenge(&self) -> Challenge {
        self.challenges.issue(SIGN_IN, Instant::now())
    }

    /// Returns the account that a passkey signs in to.
    ///
    /// # Errors
    /// `Unauthenticated` for an unknown passkey, an invalid answer, an old challenge, and a counter that does not grow;
    /// `RateLimited` after many of those from one address; `Internal` when the database fails.
    pub async fn sign_in(
        &self,
        source: Source,
        origin: &Origin,
        token: &Secret,
        assertion: &Assertion,
    ) -> Result<AccountId> {
        let now = Instant::now();
        self.failures.attempt(&source, now)?;
        let old = || Error::unauthenticated(too_old().message);
        let challenge = self.challenges.open(SIGN_IN, token, now).ok_or_else(old)?;
        let unknown = || Error::unauthenticated("This passkey is not known here. It may have been removed.");
        let passkey = self.store.passkey(&assertion.id).await?.ok_or_else(unknown)?;
        let expected = expected(&challenge, origin);
        let verified = assertion.verify(&passkey.public_key, passkey.sign_count, &expected);
        let sign_count = verified.map_err(|why| Error::unauthenticated(why.message))?;
        if !assertion.user.is_empty() && assertion.user != user_handle(passkey.account) {
            return Err(unknown());
        }
        if !self.challenges.answer(&challenge, now) {
            return Err(old());
        }
        if !self.store.use_passkey(&passkey.credential_id, sign_count).await? {
            // A parallel sign-in was first.
            return Err(Error::unauthenticated(counter_did_not_grow().message));
        }
        self.failures.forgive(&source);
        Ok(passkey.account)
    }
}

/// Purpose of the challenges of a registration. It names the session, so no other browser can use the challenge.
fn registration_of(who: &SignedIn) -> String {
    format!("register for {}", who.session)
}

fn expected<'a>(challenge: &'a Secret, origin: &'a Origin) -> ExpectedCeremony<'a> {
    // The script gives the browser the characters of the text.
    let challenge = challenge.reveal().as_bytes();
    ExpectedCeremony { challenge, origin: &origin.0, rp_id: rp_id(origin) }
}

fn too_old() -> Error {
    Error::invalid("This took too long, or was done before: try again")
}

/// Returns the host name for which passkeys are made.
pub fn rp_id(origin: &Origin) -> &str {
    let host = origin.host();
    // An IPv6 address has no passkeys, so its colons do not matter.
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// Returns the id by which a passkey names its account: the account's id, in base64url. It is no secret.
pub fn user_handle(account: AccountId) -> String {
    URL_SAFE_NO_PAD.encode(account.0.as_bytes())
}
