//! Accounts that AI agents create for themselves without a key.
//!
//! They are rate-limited for each client address and in total, and optionally require proof of work.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota};

use super::challenges::{ProofOfWork, ProofOfWorkChallenges};
use crate::config::AgentAccounts;
use crate::identity::auth::keys;
use crate::identity::auth::rate::{count, rate_limited};
use crate::web::source::Source;
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::AGENT;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::proof_of_work;
use hotdesk_domain::name::Name;
use hotdesk_store::Store;
use hotdesk_store::identity::people::Account;

/// Value of `kind` in the database for an agent's account.
pub const KIND: &str = "agent";
/// Characters of a claim link's code: 43 of base62 are 256 bits.
const CODE_CHARACTERS: usize = 43;
/// A day.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Sign-up of AI agents, with its rate limits.
pub struct AgentSignup {
    store: Store,
    settings: AgentAccounts,
    per_source: DefaultKeyedRateLimiter<Source>,
    all: DefaultDirectRateLimiter,
    challenges: ProofOfWorkChallenges,
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
    /// Time of removal if nobody claims it.
    pub expires_at: UnixMillis,
}

impl AgentSignup {
    /// Creates the sign-up of a configuration.
    pub fn new(store: Store, settings: &AgentAccounts) -> Self {
        let hourly = |count: u32| Quota::per_hour(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
        Self {
            store,
            settings: settings.clone(),
            per_source: DefaultKeyedRateLimiter::keyed(hourly(settings.per_source_per_hour)),
            all: DefaultDirectRateLimiter::direct(hourly(settings.per_hour)),
            challenges: ProofOfWorkChallenges::default(),
        }
    }

    /// Removes rate limit entries of client addresses that are at their full quota.
    pub fn sweep(&self) {
        self.per_source.retain_recent();
    }

    /// Returns a new challenge and its expiry time.
    pub fn challenge(&self) -> (String, UnixMillis) {
        self.challenges.generate()
    }

    /// Creates an account for an agent that has no key.
    ///
    /// # Errors
    /// `Forbidden` when the feature is off (`agent_accounts_off`) or without valid proof of work
    /// (`proof_of_work`); `RateLimited`; `Unavailable` (`agent_accounts_full`); `Internal` when the database
    /// fails.
    pub async fn create(
        &self,
        source: Source,
        name: Option<&str>,
        work: Option<ProofOfWork<'_>>,
    ) -> Result<NewAgentAccount> {
        let settings = &self.settings;
        check_enabled(settings)?;
        let name = Name::parse(name.unwrap_or("An AI agent"))?;
        self.admit(source, settings.proof_of_work_bits.min(proof_of_work::MAX_BITS), work)?;
        let (id, now) = (AccountId::random(), clock::now());
        let account = Account {
            id,
            // RFC 2606 section 2: no mail is ever sent there.
            email: format!("{id}@agent.invalid"),
            email_verified: false,
            full_name: name.as_str().to_owned(),
            password_hash: None,
            kind: KIND.to_owned(),
            plan: Some(AGENT.to_owned()),
            created_at: now,
        };
        let expires_at = now.plus(DAY * settings.unclaimed_days);
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
    /// The errors of [`Store::set_claim`].
    pub async fn new_claim(&self, account: AccountId) -> Result<Secret> {
        let code = Secret::random(CODE_CHARACTERS);
        self.store.set_claim(account, Some(&keys::digest(code.reveal()))).await?;
        Ok(code)
    }

    /// Counts an attempt of a client address. The total limit is checked last, so that only valid attempts
    /// use it up.
    fn admit(&self, source: Source, bits: u32, work: Option<ProofOfWork<'_>>) -> Result<()> {
        count(&self.per_source, &source)?;
        self.challenges.check(bits, work)?;
        self.all.check().map_err(|refused| rate_limited(&refused))
    }
}

/// Checks that agents may create accounts.
fn check_enabled(settings: &AgentAccounts) -> Result<()> {
    if settings.enabled {
        return Ok(());
    }
    Err(Error::forbidden("AI agents cannot create accounts here").code(ErrorCode::AgentAccountsOff))
}
