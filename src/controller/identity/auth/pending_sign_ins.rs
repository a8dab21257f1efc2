//! Sign-ins whose password was right and whose second factor is not shown yet.
//!
//! They are in memory: a restart of the controller only asks for the password again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::keys;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_store::identity::people::Account;

/// Time to find the phone and type a code.
const LIFE: Duration = Duration::from_secs(300);
/// Characters of a token: 43 of base62 are 256 bits.
const CHARACTERS: usize = 43;
/// Pending sign-ins of one account; the oldest is evicted. A person has few browsers at a time.
const MAX_PER_ACCOUNT: usize = 8;
/// Pending sign-ins in all; the oldest is evicted. 1,000 entries of about 300 bytes are a third of a megabyte.
const MAX_PENDING: usize = 1000;

/// Sign-in that waits for its second factor.
#[derive(Clone, Debug)]
pub struct PendingSignIn {
    /// Account whose password was shown.
    pub account: AccountId,
    /// Argon2 hash that the password matched. A changed password ends the sign-in.
    pub password_hash: Option<String>,
    since: Instant,
}

/// Pending sign-ins by the SHA-256 of their tokens.
#[derive(Debug, Default)]
pub struct PendingSignIns(Mutex<HashMap<String, PendingSignIn>>);

impl PendingSignIns {
    /// Begins a sign-in and returns its token, which the form of the second step carries.
    pub fn begin(&self, account: &Account, now: Instant) -> Secret {
        let token = Secret::random(CHARACTERS);
        let mut pending = self.lock();
        pending.retain(|_, it| now.duration_since(it.since) < LIFE);
        if pending.values().filter(|it| it.account == account.id).count() >= MAX_PER_ACCOUNT {
            remove_oldest(&mut pending, |it| it.account == account.id);
        }
        if pending.len() >= MAX_PENDING {
            remove_oldest(&mut pending, |_| true);
        }
        let begun =
            PendingSignIn { account: account.id, password_hash: account.password_hash.clone(), since: now };
        pending.insert(keys::digest(token.reveal()), begun);
        token
    }

    /// Returns the sign-in of a token, or `None` when it has ended or expired.
    pub fn find(&self, token: &Secret, now: Instant) -> Option<PendingSignIn> {
        let pending = self.lock();
        let found = pending.get(&keys::digest(token.reveal()))?;
        (now.duration_since(found.since) < LIFE).then(|| found.clone())
    }

    /// Ends the sign-in of a token. Returns false when it has ended before.
    pub fn end(&self, token: &Secret) -> bool {
        self.lock().remove(&keys::digest(token.reveal())).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PendingSignIn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove_oldest(pending: &mut HashMap<String, PendingSignIn>, among: impl Fn(&PendingSignIn) -> bool) {
    let candidates = pending.iter().filter(|(_, it)| among(it));
    if let Some(oldest) = candidates.min_by_key(|(_, it)| it.since).map(|(key, _)| key.clone()) {
        pending.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::identity::email::Email;

    fn account(email: &str) -> Account {
        Account::person(&Email::parse(email).expect("an address"), "", Some("hash".to_owned()))
    }

    #[test]
    fn a_pending_sign_in_ends_by_use_and_by_time() {
        let (pending, now, ada) = (PendingSignIns::default(), Instant::now(), account("ada@x.example"));
        let token = pending.begin(&ada, now);
        assert_eq!(pending.find(&token, now).map(|it| it.account), Some(ada.id));
        assert!(pending.find(&token, now + LIFE).is_none());
        assert!(pending.find(&Secret::new("other"), now).is_none());
        assert!(pending.end(&token) && !pending.end(&token) && pending.find(&token, now).is_none());
    }

    #[test]
    fn the_oldest_ones_make_place_within_an_account_first() {
        let (pending, now) = (PendingSignIns::default(), Instant::now());
        let (ada, eve) = (account("ada@x.example"), account("eve@x.example"));
        let first = pending.begin(&ada, now);
        let after = |millis| now + Duration::from_millis(millis);
        let flood: Vec<Secret> = (1..2000).map(|number| pending.begin(&eve, after(number))).collect();
        assert!(pending.find(&first, after(2000)).is_some(), "one account takes no other's place");
        assert!(pending.find(&flood[0], after(2000)).is_none());
        assert!(pending.find(flood.last().expect("one"), after(2000)).is_some());
        for number in 0..MAX_PENDING {
            pending.begin(&account(&format!("{number}@x.example")), after(2001));
        }
        assert!(pending.lock().len() == MAX_PENDING && pending.find(&first, after(2001)).is_none());
    }
}
