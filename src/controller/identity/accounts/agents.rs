//! How does an AI agent make an account for itself? Without a key, so each source and all together are bounded, and where it is
//! so set up, a bit of work comes first.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::App;
use crate::auth::keys;
use crate::auth::rate::{count, limited};
use crate::auth::source::Source;
use crate::config::AgentAccounts;
use hotdesk_base::clock::now_ms;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::name::Name;
use hotdesk_domain::plan::AGENT;
use hotdesk_domain::proof;
use hotdesk_store::people::Account;

/// What an agent's account is in the store's `kind`.
pub const KIND: &str = "agent";
/// Characters of a claim link's code: 43 of base62 are 256 bits.
const CODE_CHARACTERS: usize = 43;
/// How long a challenge may be worked on, in milliseconds: 32 bits are more than that, and nobody should ask for them.
const CHALLENGE_MS: i64 = 10 * 60_000;
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600_000;

/// Who may come in here, and how often.
pub struct Door {
    per_source: DefaultKeyedRateLimiter<Source>,
    all: DefaultDirectRateLimiter,
    /// Signs challenges; they end with this process.
    secret: Secret,
    /// Challenges that were used, and when each would have ended.
    used: Mutex<HashMap<String, i64>>,
}

/// An account that an agent just made; the only time that its secrets are told.
#[derive(Debug)]
pub struct Made {
    /// The account.
    pub account: Account,
    /// Its key.
    pub key: Secret,
    /// The code of its claim link.
    pub code: Secret,
    /// When it goes if nobody claims it.
    pub expires_at: i64,
}

/// The work that an agent shows: a challenge and what solves it.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The challenge.
    pub challenge: &'a str,
    /// What solves it.
    pub nonce: &'a str,
}

impl Door {
    /// The door that the configuration asks for.
    pub fn new(settings: &AgentAccounts) -> Self {
        let hourly = |count: u32| Quota::per_hour(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
        Self {
            per_source: DefaultKeyedRateLimiter::keyed(hourly(settings.per_source_per_hour)),
            all: DefaultDirectRateLimiter::direct(hourly(settings.per_hour)),
            secret: Secret::random(CODE_CHARACTERS),
            used: Mutex::default(),
        }
    }

    /// Forgets sources that have all their tries again.
    pub fn sweep(&self) {
        self.per_source.retain_recent();
    }

    /// A new challenge, and when it ends in milliseconds since 1970.
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

    /// Refuses whoever shows no work, or the work of a challenge that is not ours, is over or was used.
    fn check_work(&self, bits: u32, work: Option<Work<'_>>) -> Result<()> {
        if bits == 0 {
            return Ok(());
        }
        let refused = |what: &str| Error::forbidden(what).code("proof_of_work");
        let Some(work) = work else {
            return Err(refused("Work comes first: GET /agent-accounts/challenge says which"));
        };
        let ends = self.ends(work.challenge).filter(|ends| *ends > now_ms());
        let Some(ends) = ends else { return Err(refused("This challenge is not ours, or it is over")) };
        if !proof::solves(work.challenge, work.nonce, bits) {
            return Err(refused("The nonce does not solve the challenge"));
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, ends| *ends > now_ms());
        if used.insert(work.challenge.to_owned(), ends).is_some() {
            return Err(refused("This challenge was used already"));
        }
        Ok(())
    }

    /// When a challenge of ours ends.
    fn ends(&self, challenge: &str) -> Option<i64> {
        let (text, signature) = challenge.rsplit_once('.')?;
        self.mac(text)?.verify_slice(&unhex(signature.as_bytes())?).ok()?;
        text.split_once('.')?.0.parse().ok()
    }

    /// Counts a try of a source. The bound of all is asked last: only what may come in uses it up.
    fn admit(&self, source: Source, bits: u32, work: Option<Work<'_>>) -> Result<()> {
        count(&self.per_source, &source)?;
        self.check_work(bits, work)?;
        self.all.check().map_err(|refused| limited(&refused))
    }
}

impl App {
    /// Makes an account for an agent that asks without a key.
    ///
    /// # Errors
    /// `Forbidden` where agents make none (`agent_accounts_off`) or for want of work (`proof_of_work`); `RateLimited`;
    /// `Unavailable` (`agent_accounts_full`); or the store fails.
    pub async fn make_agent_account(
        &self,
        source: Source,
        name: Option<&str>,
        work: Option<Work<'_>>,
    ) -> Result<Made> {
        let settings = &self.config.agent_accounts;
        check_enabled(settings)?;
        let name = Name::parse(name.unwrap_or("An AI agent"))?;
        self.agents.admit(source, settings.proof_of_work_bits.min(proof::MAX_BITS), work)?;
        let (id, now) = (AccountId::random(), now_ms());
        let account = Account {
            id,
            // RFC 2606 section 2: nothing is ever sent there.
            email: format!("{id}@agent.invalid"),
            full_name: name.as_str().to_owned(),
            password_hash: None,
            kind: KIND.to_owned(),
            plan: Some(AGENT.to_owned()),
            created_at: now,
        };
        let expires_at = now + i64::from(settings.unclaimed_days) * DAY_MS;
        let (key, code) = (keys::fresh(), Secret::random(CODE_CHARACTERS));
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
        tracing::info!(account = %id, "an agent made an account for itself");
        Ok(Made { account, key, code, expires_at })
    }

    /// Gives an agent's account a new claim link; the one before is dead. Its code.
    ///
    /// # Errors
    /// As [`Store::set_claim`](hotdesk_store::Store::set_claim).
    pub async fn new_claim(&self, account: AccountId) -> Result<Secret> {
        let code = Secret::random(CODE_CHARACTERS);
        self.store.set_claim(account, Some(&keys::digest(code.reveal()))).await?;
        Ok(code)
    }
}

/// Refuses where agents make no accounts.
fn check_enabled(settings: &AgentAccounts) -> Result<()> {
    if settings.enabled {
        return Ok(());
    }
    Err(Error::forbidden("AI agents make no accounts for themselves here").code("agent_accounts_off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_ours_and_counts_once() {
        let door = Door::new(&AgentAccounts::default());
        let (challenge, _) = door.challenge();
        let solved = (0_u32..).map(|number| number.to_string());
        let nonce = solved.clone().find(|nonce| proof::solves(&challenge, nonce, 8)).unwrap();
        let code = |challenge: &str, nonce: &str| {
            door.check_work(8, Some(Work { challenge, nonce })).err().map(|error| error.message)
        };
        let wrong = solved.clone().find(|nonce| !proof::solves(&challenge, nonce, 8)).unwrap();
        assert!(code(&challenge, &wrong).unwrap().contains("does not solve"));
        assert_eq!(code(&challenge, &nonce), None);
        assert!(code(&challenge, &nonce).unwrap().contains("used already"));
        let foreign = Door::new(&AgentAccounts::default()).challenge().0;
        let later = challenge.replacen(|c: char| c.is_ascii_digit(), "9", 1);
        for strange in ["", "a.b.c", &foreign, &later] {
            assert!(code(strange, &nonce).unwrap().contains("not ours"), "{strange}");
        }
        assert!(door.check_work(8, None).is_err() && door.check_work(0, None).is_ok());
    }
}
