//! How often may a password be guessed? So often from one place, so often for one account; then it is waited.
//!
//! A try counts before its password is looked at, and a right one is forgiven, so that many at once are no way around. While
//! somebody has to wait nothing counts, so every wait ends. Whoever guesses from one place keeps the account's owner, who
//! comes from another, from nothing; only guesses from many places at once can, and only while they go on.

use std::time::{Duration, Instant};

use super::failures::Failures;
use super::keys;
use super::source::Source;
use hotdesk_domain::error::{Error, Result};

/// Wrong passwords of one source in a minute (access.md A18).
const OF_SOURCE: u32 = 20;
/// Wrong passwords of one source for one account in [`WINDOW`].
const OF_PAIR: u32 = 10;
/// Wrong passwords for one account in [`WINDOW`], whoever tries: 4,300 a day, of which a password outside of the lists of
/// common ones is not found (NIST SP 800-63B section 5.2.2 allows a hundred in a row).
const OF_ACCOUNT: u32 = 30;
/// Refused tries for one account that the audit log tells of in a minute, so that a flood does not become one of rows.
const TOLD: u32 = 1;
const MINUTE: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(600);

/// Wrong passwords of late. Addresses are kept as hashes: they are as long as somebody likes.
#[derive(Debug)]
pub struct SignIns {
    sources: Failures<Source>,
    pairs: Failures<(Source, String)>,
    accounts: Failures<String>,
    told: Failures<String>,
}

/// A try that was let through; it counts as a failure unless it is forgiven.
#[derive(Debug)]
pub struct Try<'a> {
    all: &'a SignIns,
    source: Source,
    account: String,
}

impl Default for SignIns {
    fn default() -> Self {
        Self {
            sources: Failures::new(OF_SOURCE, MINUTE),
            pairs: Failures::new(OF_PAIR, WINDOW),
            accounts: Failures::new(OF_ACCOUNT, WINDOW),
            told: Failures::new(TOLD, MINUTE),
        }
    }
}

impl SignIns {
    /// Lets a password be tried for an address. A source that may be everybody is not counted by itself.
    ///
    /// # Errors
    /// `RateLimited`, with the time to wait.
    pub fn attempt(&self, source: Source, email: &str, now: Instant) -> Result<Try<'_>> {
        self.count(source, email, now).map_err(|refused| {
            let wait = refused.retry_after.unwrap_or_default();
            let message = format!("Too many wrong passwords. Try again in {wait} seconds.");
            Error { message, ..refused }
        })
    }

    /// Whether a try for an address that was refused is to be told of: one in a minute.
    pub fn is_told(&self, email: &str, now: Instant) -> bool {
        self.told.attempt(&keys::digest(email), now).is_ok()
    }

    fn count(&self, source: Source, email: &str, now: Instant) -> Result<Try<'_>> {
        let account = keys::digest(email);
        let pair = (source, account.clone());
        // What one of them refuses counts in none of them.
        if !source.may_be_many() {
            self.sources.attempt(&source, now)?;
            self.pairs.attempt(&pair, now).inspect_err(|_| self.sources.forgive(&source))?;
        }
        self.accounts.attempt(&account, now).inspect_err(|_| {
            if !source.may_be_many() {
                self.sources.forgive(&source);
                self.pairs.forgive(&pair);
            }
        })?;
        Ok(Try { all: self, source, account })
    }
}

impl Try<'_> {
    /// It was the right password: what was mistyped before is forgotten.
    pub fn succeeded(self) {
        self.all.sources.forgive(&self.source);
        self.all.accounts.forget(&self.account);
        self.all.pairs.forget(&(self.source, self.account));
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
        assert_eq!(tried, OF_PAIR as usize);
        assert!(sign_ins.attempt(owner, "a@x.example", now).is_ok());
        // The same place has its bound over all accounts.
        let tried = (0..100).filter(|n| sign_ins.attempt(guesser, &format!("{n}@x.example"), now).is_ok());
        assert_eq!(tried.count(), (OF_SOURCE - OF_PAIR) as usize);
        assert!(sign_ins.attempt(guesser, "b@x.example", now + MINUTE).is_ok());
        assert!(sign_ins.attempt(guesser, "a@x.example", now + WINDOW).is_ok());
    }

    #[test]
    fn a18_guesses_from_everywhere_wait_and_end() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let from = |n: u32| Source::parse(&format!("192.0.2.{n}"));
        let tried = (0..100).filter(|n| sign_ins.attempt(from(*n), "a@x.example", now).is_ok()).count();
        assert_eq!(tried, OF_ACCOUNT as usize);
        let refused = sign_ins.attempt(from(200), "a@x.example", now).unwrap_err();
        assert_eq!(refused.retry_after, Some(601));
        assert!(sign_ins.attempt(from(200), "b@x.example", now).is_ok());
        assert!(sign_ins.attempt(from(200), "a@x.example", now + WINDOW).is_ok());
    }

    #[test]
    fn a18_what_is_refused_counts_nowhere() {
        let (now, place) = (Instant::now(), Source::parse("192.0.2.1"));
        let elsewhere = |n: u32| Source::parse(&format!("198.51.100.{n}"));
        // Who refuses, and the tries that bring it so far.
        for (refuser, before) in [
            ("the pair", vec![place; OF_PAIR as usize]),
            ("the account", (1..=OF_ACCOUNT).map(elsewhere).collect()),
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
            assert_eq!(left.count(), OF_SOURCE as usize - own, "{refuser}");
        }
    }

    #[test]
    fn of_many_refused_tries_one_a_minute_is_told() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let told = |now| (0..100).filter(|_| sign_ins.is_told("a@x.example", now)).count();
        assert_eq!((told(now), told(now + MINUTE)), (1, 1));
        assert!(sign_ins.is_told("b@x.example", now));
    }

    #[test]
    fn a18_a_right_password_forgets_the_wrong_ones() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let source = Source::parse("192.0.2.1");
        for _ in 0..OF_PAIR + OF_SOURCE + OF_ACCOUNT {
            sign_ins.attempt(source, "a@x.example", now).unwrap().succeeded();
        }
        for _ in 0..OF_PAIR - 1 {
            sign_ins.attempt(source, "a@x.example", now).unwrap();
        }
        sign_ins.attempt(source, "a@x.example", now).unwrap().succeeded();
        assert!(sign_ins.attempt(source, "a@x.example", now).is_ok());
    }
}
