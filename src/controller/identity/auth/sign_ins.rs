//! Throttle of sign-ins: wrong passwords, and wrong codes of second factors.
//!
//! An attempt counts before its password is checked, and a successful one is forgiven, so that concurrent
//! attempts cannot exceed the limit. Refused attempts do not count, so every lock-out ends. An attacker at
//! one address does not lock out the owner at another; only attempts from many addresses can, only while they continue,
//! and not in a browser in which the owner signed in before.

use std::time::{Duration, Instant};

use super::keys;
use super::known_browsers::KnownBrowser;
use crate::web::failures::Failures;
use crate::web::source::Source;
use hotdesk_domain::error::{Error, Result};

/// Wrong passwords of one client address in a minute, A18 (docs/authentication-rules.md).
const MAX_PER_SOURCE: u32 = 20;
/// Wrong passwords of one client address for one account in [`WINDOW`].
const MAX_PER_PAIR: u32 = 10;
/// Wrong passwords for one account in [`WINDOW`], from any address. 4,300 a day do not find a password
/// outside of the lists of common ones (NIST SP 800-63B section 5.2.2 allows a hundred in a row).
const MAX_PER_ACCOUNT: u32 = 30;
/// Wrong passwords in a browser in which the account's person signed in before, in [`WINDOW`].
const MAX_PER_BROWSER: u32 = 10;
/// Wrong codes of a second factor of one client address for one account in [`WINDOW`]: a person mistypes a few.
const MAX_CODES_PER_PAIR: u32 = 5;
/// Wrong codes for one account in [`WINDOW`], from any address. Three codes of a million are right at a time, so who
/// knows the password finds one in a day with a chance of 0.4 %.
const MAX_CODES_PER_ACCOUNT: u32 = 10;
/// Refused attempts for one account that are written to the audit log in a minute. A flood of attempts must
/// not become a flood of rows.
const MAX_LOGGED: u32 = 1;
const MINUTE: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(600);

/// Recent wrong passwords or codes. E-mail addresses are stored as hashes, because their length is not bounded.
#[derive(Debug)]
pub struct SignIns {
    sources: Failures<Source>,
    pairs: Failures<(Source, String)>,
    accounts: Failures<String>,
    browsers: Failures<KnownBrowser>,
    logged: Failures<String>,
    /// What is counted, for messages.
    what: &'static str,
}

/// Attempt that was allowed. It counts as a failure unless it is forgiven.
#[derive(Debug)]
pub struct SignInAttempt<'a> {
    all: &'a SignIns,
    scope: AttemptScope,
}

/// What an attempt counts for.
#[derive(Debug)]
enum AttemptScope {
    AnyBrowser { source: Source, account: String },
    KnownBrowser(KnownBrowser),
}

impl Default for SignIns {
    /// Counts wrong passwords.
    fn default() -> Self {
        Self::new("passwords", MAX_PER_PAIR, MAX_PER_ACCOUNT)
    }
}

impl SignIns {
    /// Counts wrong codes of second factors.
    pub fn of_codes() -> Self {
        Self::new("codes", MAX_CODES_PER_PAIR, MAX_CODES_PER_ACCOUNT)
    }

    fn new(what: &'static str, per_pair: u32, per_account: u32) -> Self {
        Self {
            sources: Failures::new(MAX_PER_SOURCE, MINUTE),
            pairs: Failures::new(per_pair, WINDOW),
            accounts: Failures::new(per_account, WINDOW),
            browsers: Failures::new(MAX_PER_BROWSER, WINDOW),
            logged: Failures::new(MAX_LOGGED, MINUTE),
            what,
        }
    }

    /// Allows an attempt for an e-mail address. The limits per address do not apply to one that many clients
    /// may share.
    ///
    /// # Errors
    /// `RateLimited` with the seconds to wait.
    pub fn attempt(&self, source: Source, email: &str, now: Instant) -> Result<SignInAttempt<'_>> {
        self.count(source, email, now).map_err(|refused| self.refusal(refused))
    }

    /// Allows an attempt in a browser in which the account's person signed in before. It counts for that browser alone, so
    /// attempts elsewhere do not lock it out.
    ///
    /// # Errors
    /// `RateLimited` with the seconds to wait.
    pub fn attempt_in(&self, browser: KnownBrowser, now: Instant) -> Result<SignInAttempt<'_>> {
        self.browsers.attempt(&browser, now).map_err(|refused| self.refusal(refused))?;
        Ok(SignInAttempt { all: self, scope: AttemptScope::KnownBrowser(browser) })
    }

    fn refusal(&self, refused: Error) -> Error {
        let wait = refused.retry_after.unwrap_or_default();
        let message = format!("Too many wrong {}. Try again in {wait} seconds.", self.what);
        Error { message, ..refused }
    }

    /// Whether a refused attempt is written to the audit log: one in a minute for each account.
    pub fn is_logged(&self, email: &str, now: Instant) -> bool {
        self.logged.attempt(&keys::digest(email), now).is_ok()
    }

    fn count(&self, source: Source, email: &str, now: Instant) -> Result<SignInAttempt<'_>> {
        let account = keys::digest(email);
        let pair = (source, account.clone());
        // An attempt that one limit refuses counts in none of them.
        if !source.is_this_machine() {
            self.sources.attempt(&source, now)?;
            self.pairs.attempt(&pair, now).inspect_err(|_| self.sources.forgive(&source))?;
        }
        self.accounts.attempt(&account, now).inspect_err(|_| {
            if !source.is_this_machine() {
                self.sources.forgive(&source);
                self.pairs.forgive(&pair);
            }
        })?;
        Ok(SignInAttempt { all: self, scope: AttemptScope::AnyBrowser { source, account } })
    }
}

impl SignInAttempt<'_> {
    /// Reports a correct password or code: earlier failures of this account are forgotten.
    pub fn succeeded(self) {
        match self.scope {
            AttemptScope::AnyBrowser { source, account } => {
                self.all.sources.forgive(&source);
                self.all.accounts.forget(&account);
                self.all.pairs.forget(&(source, account));
            }
            AttemptScope::KnownBrowser(browser) => self.all.browsers.forget(&browser),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_guesses_from_one_place_keep_nobody_else_out() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let (guesser, owner) = (Source::parse("192.0.2.1"), Source::parse("192.0.2.2"));
        let tried = (0..100).filter(|_| sign_ins.attempt(guesser, "a@x.example", now).is_ok()).count();
        assert_eq!(tried, MAX_PER_PAIR as usize);
        assert!(sign_ins.attempt(owner, "a@x.example", now).is_ok());
        // The same place has its bound over all accounts.
        let tried = (0..100).filter(|n| sign_ins.attempt(guesser, &format!("{n}@x.example"), now).is_ok());
        assert_eq!(tried.count(), (MAX_PER_SOURCE - MAX_PER_PAIR) as usize);
        assert!(sign_ins.attempt(guesser, "b@x.example", now + MINUTE).is_ok());
        assert!(sign_ins.attempt(guesser, "a@x.example", now + WINDOW).is_ok());
    }

    #[test]
    fn a18_guesses_from_everywhere_wait_and_end() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let from = |n: u32| Source::parse(&format!("192.0.2.{n}"));
        let tried = (0..100).filter(|n| sign_ins.attempt(from(*n), "a@x.example", now).is_ok()).count();
        assert_eq!(tried, MAX_PER_ACCOUNT as usize);
        let refused = sign_ins.attempt(from(200), "a@x.example", now).unwrap_err();
        assert_eq!(refused.retry_after, Some(601));
        assert_eq!(refused.message, "Too many wrong passwords. Try again in 601 seconds.");
        assert!(sign_ins.attempt(from(200), "b@x.example", now).is_ok());
        // The owner's own browser is not locked out, and has a bound of its own.
        let own = KnownBrowser::named("own");
        for _ in 0..3 * MAX_PER_BROWSER {
            sign_ins.attempt_in(own.clone(), now).unwrap().succeeded();
        }
        assert!(
            sign_ins.attempt(from(200), "a@x.example", now).is_err(),
            "a right password there helps no guesser"
        );
        let tried = (0..100).filter(|_| sign_ins.attempt_in(own.clone(), now).is_ok()).count();
        assert_eq!(tried, MAX_PER_BROWSER as usize);
        assert!(sign_ins.attempt_in(KnownBrowser::named("other"), now).is_ok());
        assert!(sign_ins.attempt_in(own, now + WINDOW).is_ok());
        assert!(sign_ins.attempt(from(200), "a@x.example", now + WINDOW).is_ok());
    }

    #[test]
    fn a82_codes_have_tighter_limits_of_their_own() {
        let (codes, now) = (SignIns::of_codes(), Instant::now());
        let from = |n: u32| Source::parse(&format!("192.0.2.{n}"));
        let tried = (0..100).filter(|_| codes.attempt(from(1), "a@x.example", now).is_ok()).count();
        assert_eq!(tried, MAX_CODES_PER_PAIR as usize);
        let tried = (2..100).filter(|n| codes.attempt(from(*n), "a@x.example", now).is_ok()).count();
        assert_eq!(tried, (MAX_CODES_PER_ACCOUNT - MAX_CODES_PER_PAIR) as usize);
        let refused = codes.attempt(from(200), "a@x.example", now).unwrap_err();
        assert_eq!(refused.message, "Too many wrong codes. Try again in 601 seconds.");
    }

    #[test]
    fn a18_what_is_refused_counts_nowhere() {
        let (now, place) = (Instant::now(), Source::parse("192.0.2.1"));
        let elsewhere = |n: u32| Source::parse(&format!("198.51.100.{n}"));
        // Which limit refuses, and the attempts that reach it.
        for (refuser, before) in [
            ("the pair", vec![place; MAX_PER_PAIR as usize]),
            ("the account", (1..=MAX_PER_ACCOUNT).map(elsewhere).collect()),
        ] {
            let sign_ins = SignIns::default();
            for source in &before {
                sign_ins.attempt(*source, "a@x.example", now).unwrap();
            }
            for _ in 0..100 {
                assert!(sign_ins.attempt(place, "a@x.example", now).is_err(), "{refuser}");
            }
            let pair = (place, keys::digest("a@x.example"));
            assert_eq!(sign_ins.pairs.wait(&pair, now).is_some(), before.contains(&place), "{refuser}");
            let own = before.iter().filter(|source| **source == place).count();
            let left = (0..100).filter(|n| sign_ins.attempt(place, &format!("{n}@x.example"), now).is_ok());
            assert_eq!(left.count(), MAX_PER_SOURCE as usize - own, "{refuser}");
        }
    }

    #[test]
    fn one_refused_attempt_a_minute_is_logged() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let logged_at = |now| (0..100).filter(|_| sign_ins.is_logged("a@x.example", now)).count();
        assert_eq!((logged_at(now), logged_at(now + MINUTE)), (1, 1));
        assert!(sign_ins.is_logged("b@x.example", now));
    }

    #[test]
    fn a18_a_right_password_forgets_the_wrong_ones() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let source = Source::parse("192.0.2.1");
        for _ in 0..MAX_PER_PAIR + MAX_PER_SOURCE + MAX_PER_ACCOUNT {
            sign_ins.attempt(source, "a@x.example", now).unwrap().succeeded();
        }
        for _ in 0..MAX_PER_PAIR - 1 {
            sign_ins.attempt(source, "a@x.example", now).unwrap();
        }
        sign_ins.attempt(source, "a@x.example", now).unwrap().succeeded();
        assert!(sign_ins.attempt(source, "a@x.example", now).is_ok());
    }
}
