//! Accounts that AI agents create for themselves without a key.
//!
//! They are rate-limited for each client address and in total, and optionally require proof of work.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::App;
use crate::config::AgentAccounts;
use crate::identity::auth::keys;
use crate::identity::auth::rate::{count, rate_limited};
use crate::web::source::Source;
use hotdesk_base::clock::now_ms;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::billing::plan::AGENT;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::proof_of_work;
use hotdesk_domain::name::Name;
use hotdesk_store::identity::people::Account;

/// Value of `kind` in the database for an agent's account.
pub const KIND: &str = "agent";
/// Characters of a claim link's code: 43 of base62 are 256 bits.
const CODE_CHARACTERS: usize = 43;
/// Validity of a challenge in milliseconds. 32 bits take longer than that, so nobody should configure them.
const CHALLENGE_MS: i64 = 10 * 60_000;
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600_000;

/// Rate limits and challenges of the sign-up.
pub struct AgentSignup {
    per_source: DefaultKeyedRateLimiter<Source>,
    all: DefaultDirectRateLimiter,
    /// Signs challenges, which are valid only for this process.
    secret: Secret,
    /// Used challenges and their expiry times in Unix milliseconds.
    used: Mutex<HashMap<String, i64>>,
}

/// New account of an agent. Its secrets are not available later.
#[derive(Debug)]
pub struct NewAgentAccount {
    /// The account.
    pub account: Account,
    /// Its key.
    pub key: Secret,
    /// Code of its claim link.
    pub code: Secret,
    /// Time of removal if nobody claims it, in Unix milliseconds.
    pub expires_at: i64,
}

/// Proof of work: a challenge and its solution.
#[derive(Clone, Copy, Debug)]
pub struct ProofOfWork<'a> {
    /// The challenge.
    pub challenge: &'a str,
    /// The solution.
    pub nonce: &'a str,
}

impl AgentSignup {
    /// Creates the sign-up of a configuration.
    pub fn new(settings: &AgentAccounts) -> Self {
        let hourly = |count: u32| Quota::per_hour(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
        Self {
            per_source: DefaultKeyedRateLimiter::keyed(hourly(settings.per_source_per_hour)),
            all: DefaultDirectRateLimiter::direct(hourly(settings.per_hour)),
            secret: Secret::random(CODE_CHARACTERS),
            used: Mutex::default(),
        }
    }

    /// Removes rate limit entries of client addresses that are at their full quota.
    pub fn sweep(&self) {
        self.per_source.retain_recent();
    }

    /// Returns a new challenge and its expiry time in Unix milliseconds.
    pub fn challenge(&self) -> (String, i64) {
        let ends = now_ms() + CHALLENGE_MS;
        let text = format!("{ends}.{}", Secret::random(22).reveal());
        let signature = self.mac(&text).map(|mac| hex(&mac.finalize().into_bytes())).unwrap_or_default();
        (format!("{text}.{signature}"), ends)
    }

    fn mac(&self, text: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.reveal().as_bytes()).ok()?;
        mac.update(text.as_bytes());
        Some(mac)
    }

    /// Checks the proof of work: the challenge is valid and unused, and the nonce solves it.
    fn check_work(&self, bits: u32, work: Option<ProofOfWork<'_>>) -> Result<()> {
        if bits == 0 {
            return Ok(());
        }
        let refused = |what: &str| Error::forbidden(what).code(ErrorCode::ProofOfWork);
        let Some(work) = work else {
            return Err(refused(
                "Proof of work is required: get a challenge from GET /agent-accounts/challenge",
            ));
        };
        let ends = self.ends(work.challenge).filter(|ends| *ends > now_ms());
        let Some(ends) = ends else { return Err(refused("This challenge is invalid or has expired")) };
        if !proof_of_work::solves(work.challenge, work.nonce, bits) {
            return Err(refused("The nonce does not solve the challenge"));
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, ends| *ends > now_ms());
        if used.insert(work.challenge.to_owned(), ends).is_some() {
            return Err(refused("This challenge was used already"));
        }
        Ok(())
    }

    /// Returns the expiry time of a valid challenge in Unix milliseconds.
    fn ends(&self, challenge: &str) -> Option<i64> {
        let (text, signature) = challenge.rsplit_once('.')?;
        self.mac(text)?.verify_slice(&unhex(signature.as_bytes())?).ok()?;
        text.split_once('.')?.0.parse().ok()
    }

    /// Counts an attempt of a client address. The total limit is checked last, so that only valid attempts
    /// use it up.
    fn admit(&self, source: Source, bits: u32, work: Option<ProofOfWork<'_>>) -> Result<()> {
        count(&self.per_source, &source)?;
        self.check_work(bits, work)?;
        self.all.check().map_err(|refused| rate_limited(&refused))
    }
}

impl App {
    /// Creates an account for an agent that has no key.
    ///
    /// # Errors
    /// `Forbidden` when the feature is off (`agent_accounts_off`) or without valid proof of work
    /// (`proof_of_work`); `RateLimited`; `Unavailable` (`agent_accounts_full`); `Internal` when the database
    /// fails.
    pub async fn make_agent_account(
        &self,
        source: Source,
        name: Option<&str>,
        work: Option<ProofOfWork<'_>>,
    ) -> Result<NewAgentAccount> {
        let settings = &self.config.agent_accounts;
        check_enabled(settings)?;
        let name = Name::parse(name.unwrap_or("An AI agent"))?;
        self.agent_signup.admit(source, settings.proof_of_work_bits.min(proof_of_work::MAX_BITS), work)?;
        let (id, now) = (AccountId::random(), now_ms());
        let account = Account {
            id,
            // RFC 2606 section 2: no mail is ever sent there.
            email: format!("{id}@agent.invalid"),
            full_name: name.as_str().to_owned(),
            password_hash: None,
            kind: KIND.to_owned(),
            plan: Some(AGENT.to_owned()),
            created_at: now,
        };
        let expires_at = now + i64::from(settings.unclaimed_days) * DAY_MS;
        let (key, code) = (keys::generate(), Secret::random(CODE_CHARACTERS));
        let shown = (keys::digest(key.reveal()), keys::last_four(&key).to_owned());
        self.store
            .add_agent_account(
                &account,
                (&shown.0, &shown.1),
                &keys::digest(code.reveal()),
                expires_at,
                settings.max_unclaimed,
            )
            .await?;
        tracing::info!(account = %id, "an agent created an account");
        Ok(NewAgentAccount { account, key, code, expires_at })
    }

    /// Creates a new claim link of an agent's account, which replaces the earlier one. Returns its code.
    ///
    /// # Errors
    /// The errors of [`Store::set_claim`](hotdesk_store::Store::set_claim).
    pub async fn new_claim(&self, account: AccountId) -> Result<Secret> {
        let code = Secret::random(CODE_CHARACTERS);
        self.store.set_claim(account, Some(&keys::digest(code.reveal()))).await?;
        Ok(code)
    }
}

/// Checks that agents may create accounts.
fn check_enabled(settings: &AgentAccounts) -> Result<()> {
    if settings.enabled {
        return Ok(());
    }
    Err(Error::forbidden("AI agents cannot create accounts here").code(ErrorCode::AgentAccountsOff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_signed_and_counts_once() {
        let signup = AgentSignup::new(&AgentAccounts::default());
        let (challenge, _) = signup.challenge();
        let solved = (0_u32..).map(|number| number.to_string());
        let nonce = solved.clone().find(|nonce| proof_of_work::solves(&challenge, nonce, 8)).unwrap();
        let code = |challenge: &str, nonce: &str| {
            signup.check_work(8, Some(ProofOfWork { challenge, nonce })).err().map(|error| error.message)
        };
        let wrong = solved.clone().find(|nonce| !proof_of_work::solves(&challenge, nonce, 8)).unwrap();
        assert!(code(&challenge, &wrong).unwrap().contains("does not solve"));
        assert_eq!(code(&challenge, &nonce), None);
        assert!(code(&challenge, &nonce).unwrap().contains("used already"));
        let foreign = AgentSignup::new(&AgentAccounts::default()).challenge().0;
        let later = challenge.replacen(|c: char| c.is_ascii_digit(), "9", 1);
        for strange in ["", "a.b.c", &foreign, &later] {
            assert!(code(strange, &nonce).unwrap().contains("is invalid"), "{strange}");
        }
        assert!(signup.check_work(8, None).is_err() && signup.check_work(0, None).is_ok());
    }
}
