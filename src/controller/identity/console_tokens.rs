//! Tokens of the console's pages for the API, A91 (docs/authentication-rules.md).
//!
//! ```text
//! POST /console/token, a form with the session's cookie --> token --> Authorization: Bearer hdc_...
//! ```
//!
//! The API accepts no cookies, A7, so that no page of another site can make a browser send a request with
//! rights. A page of the console has a token instead, in its own memory. Here it is in memory too, as a hash:
//! a restart of the controller drops it, and the page asks for another one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use hotdesk_base::ids::{AccountId, SessionId};
use hotdesk_base::secret::Secret;

/// Prefix of every token. It differs from that of API keys, so that logs and scanners of secrets tell them
/// apart.
const PREFIX: &str = "hdc_";
/// Characters behind the prefix: 43 of base62 are 256 random bits.
const CHARACTERS: usize = 43;
/// Validity: short, because a token that a page lost cannot be revoked by itself; long enough that renewals
/// cost nothing.
pub const LIFE: Duration = Duration::from_secs(600);
/// Valid tokens of one session: thirty tabs of a browser, each with a token and the one before it.
const MAX_OF_SESSION: usize = 64;
/// Valid tokens of all sessions; 20,000 of about 120 bytes are 2.4 MB.
const MAX_TOKENS: usize = 20_000;

/// Whom a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsoleCaller {
    /// Session of the browser. The token ends with it.
    pub session: SessionId,
    /// Account of the person.
    pub account: AccountId,
}

#[derive(Debug)]
struct IssuedToken {
    caller: ConsoleCaller,
    expires: Instant,
}

/// Valid tokens by their SHA-256.
#[derive(Debug, Default)]
pub struct ConsoleTokens(Mutex<HashMap<[u8; 32], IssuedToken>>);

/// Whether a text has the form of a token.
pub fn is_token(text: &str) -> bool {
    text.starts_with(PREFIX)
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl ConsoleTokens {
    /// Issues a token. When the session, or the service, has the most already, the oldest one makes room: its
    /// page gets a 401 and asks for another.
    pub fn issue(&self, caller: ConsoleCaller) -> Secret {
        self.issue_at(caller, Instant::now())
    }

    /// Returns whom a token stands for; `None` for an unknown or expired one. The caller checks that the
    /// session goes on.
    pub fn find(&self, shown: &str) -> Option<ConsoleCaller> {
        self.find_at(shown, Instant::now())
    }

    /// Drops the tokens of a session that has ended.
    pub fn end(&self, session: SessionId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, issued| issued.caller.session != session);
    }

    fn issue_at(&self, caller: ConsoleCaller, now: Instant) -> Secret {
        let text = Secret::new(format!("{PREFIX}{}", Secret::random(CHARACTERS).reveal()));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, issued| issued.expires > now);
        remove_oldest(&mut all, MAX_OF_SESSION, |issued| issued.caller.session == caller.session);
        remove_oldest(&mut all, MAX_TOKENS, |_| true);
        all.insert(digest(text.reveal()), IssuedToken { caller, expires: now + LIFE });
        text
    }

    fn find_at(&self, shown: &str, now: Instant) -> Option<ConsoleCaller> {
        if !is_token(shown) {
            return None;
        }
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&digest(shown)).filter(|issued| issued.expires > now).map(|issued| issued.caller)
    }
}

/// Removes the oldest of the selected tokens if there are `most`. All live equally long, so it is the next
/// one to expire.
fn remove_oldest(
    all: &mut HashMap<[u8; 32], IssuedToken>,
    most: usize,
    is_selected: impl Fn(&IssuedToken) -> bool,
) {
    let selected = all.iter().filter(|(_, issued)| is_selected(issued));
    if selected.clone().count() < most {
        return;
    }
    let oldest = selected.min_by_key(|(_, issued)| issued.expires).map(|(key, _)| *key);
    if let Some(key) = oldest {
        all.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_caller() -> ConsoleCaller {
        ConsoleCaller { session: SessionId::random(), account: AccountId::random() }
    }

    fn count(tokens: &ConsoleTokens) -> usize {
        tokens.0.lock().unwrap().len()
    }

    #[test]
    fn a91_a_token_is_valid_until_its_time_or_the_end_of_its_session() {
        let (tokens, now) = (ConsoleTokens::default(), Instant::now());
        let (caller, other) = (some_caller(), some_caller());
        let (text, theirs) = (tokens.issue_at(caller, now), tokens.issue_at(other, now));
        assert!(is_token(text.reveal()) && text.reveal().len() == PREFIX.len() + CHARACTERS);
        assert_eq!(tokens.find_at(text.reveal(), now), Some(caller));
        assert_eq!(tokens.find_at(text.reveal(), now), Some(caller), "it works more than once");
        assert_eq!(tokens.find_at(text.reveal(), now + LIFE), None);
        let bare = &text.reveal()[PREFIX.len()..];
        for wrong in ["", PREFIX, bare, &format!("{}x", text.reveal()), &format!("sk_live_{bare}")] {
            assert_eq!(tokens.find_at(wrong, now), None, "{wrong}");
        }
        tokens.end(caller.session);
        assert_eq!(tokens.find_at(text.reveal(), now), None);
        assert_eq!(tokens.find_at(theirs.reveal(), now), Some(other));
    }

    #[test]
    fn tokens_are_bounded_for_each_session_and_in_all() {
        let (tokens, caller, began) = (ConsoleTokens::default(), some_caller(), Instant::now());
        let at = |number: usize| began + Duration::from_millis(u64::try_from(number).unwrap());
        let other = tokens.issue_at(some_caller(), began);
        let texts: Vec<Secret> =
            (0..=MAX_OF_SESSION).map(|number| tokens.issue_at(caller, at(number))).collect();
        assert_eq!(count(&tokens), MAX_OF_SESSION + 1);
        assert_eq!(tokens.find_at(texts[0].reveal(), began), None, "the oldest one made room");
        assert_eq!(tokens.find_at(texts[1].reveal(), began), Some(caller));
        assert!(tokens.find_at(other.reveal(), began).is_some(), "other sessions keep theirs");
        let late = began + LIFE + LIFE;
        tokens.issue_at(caller, late);
        assert_eq!(count(&tokens), 1, "nothing is kept of those that expired");
    }

    #[test]
    fn the_oldest_of_all_makes_room() {
        let now = Instant::now();
        let issued =
            |seconds| IssuedToken { caller: some_caller(), expires: now + Duration::from_secs(seconds) };
        let mut all = HashMap::from([([0; 32], issued(2)), ([1; 32], issued(1)), ([2; 32], issued(3))]);
        remove_oldest(&mut all, 4, |_| true);
        assert_eq!(all.len(), 3);
        remove_oldest(&mut all, 3, |_| true);
        assert!(all.len() == 2 && !all.contains_key(&[1; 32]));
    }
}
