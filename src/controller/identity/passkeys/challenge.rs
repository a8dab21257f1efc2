//! Challenges of passkeys: signed by this process, for one purpose, for a few minutes, and used once.
//!
//! Anybody may ask for one, so none is stored until a passkey has answered it. A restart of the controller ends them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::secret::Secret;

/// Time to find the key and unlock it.
const LIFE: Duration = Duration::from_secs(300);
/// Characters of a challenge: 43 of base62 are 256 bits (WebAuthn section 13.4.3 asks for 16 bytes).
const CHARACTERS: usize = 43;
/// Most answered challenges in [`LIFE`]. Each has a signature of a stored passkey, or was asked for by a person who is
/// signed in, so only many people at once reach it; then the rest wait.
const MAX_ANSWERED: usize = 10_000;

/// Challenge for one browser, and the text that proves where it comes from.
#[derive(Clone, Debug)]
pub struct Challenge {
    /// Value that the authenticator signs.
    pub value: Secret,
    /// Token that the form returns.
    pub token: Secret,
}

/// Issuer of challenges.
pub struct Challenges {
    /// MAC with this process's key, before any message.
    mac: Hmac<Sha256>,
    began: Instant,
    answered: Mutex<HashMap<String, Instant>>,
}

impl Default for Challenges {
    fn default() -> Self {
        let key: [u8; 64] = rand::random();
        Self { mac: Hmac::new(&key.into()), began: Instant::now(), answered: Mutex::default() }
    }
}

impl Challenges {
    /// Returns a new challenge for a purpose: what is to be done, and for whom.
    pub fn issue(&self, purpose: &str, now: Instant) -> Challenge {
        let value = Secret::random(CHARACTERS);
        let issued = now.duration_since(self.began).as_secs();
        let seal = hex(&self.mac(purpose, value.reveal(), issued).finalize().into_bytes());
        Challenge { token: Secret::new(format!("{}.{issued}.{seal}", value.reveal())), value }
    }

    /// Returns the value of a challenge that was issued for this purpose, is not old, and was not answered before.
    pub fn open(&self, purpose: &str, token: &Secret, now: Instant) -> Option<Secret> {
        let (value, rest) = token.reveal().split_once('.')?;
        let (issued, seal) = rest.split_once('.')?;
        let (issued, seal) = (issued.parse::<u64>().ok()?, unhex(seal.as_bytes())?);
        self.mac(purpose, value, issued).verify_slice(&seal).ok()?;
        let age = now.duration_since(self.began).checked_sub(Duration::from_secs(issued))?;
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        (age < LIFE && !answered.contains_key(value)).then(|| Secret::new(value))
    }

    /// Marks a challenge as answered. Returns false when it was before, and when too many are.
    pub fn answer(&self, value: &Secret, now: Instant) -> bool {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.retain(|_, since| now.duration_since(*since) <= LIFE);
        answered.len() < MAX_ANSWERED && answered.insert(value.reveal().to_owned(), now).is_none()
    }

    fn mac(&self, purpose: &str, value: &str, issued: u64) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(format!("{purpose}\n{value}\n{issued}").as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a86_a_challenge_is_for_one_purpose_and_time_and_one_answer() {
        let (challenges, now) = (Challenges::default(), Instant::now());
        let issued = challenges.issue("sign in", now);
        let open = |purpose, token: &Secret, now| challenges.open(purpose, token, now);
        let value = open("sign in", &issued.token, now).expect("a fresh challenge");
        assert!(value.matches(issued.value.reveal()));
        assert!(open("register", &issued.token, now).is_none());
        assert!(open("sign in", &issued.token, now + LIFE + Duration::from_secs(1)).is_none());
        let other = challenges.issue("sign in", now);
        let (_, seal) = other.token.reveal().split_once('.').expect("a seal");
        let forged = Secret::new(format!("{}.{seal}", issued.value.reveal()));
        for token in [&forged, &Secret::new("a.b.c"), &Secret::new(""), &issued.value] {
            assert!(open("sign in", token, now).is_none());
        }
        assert!(Challenges::default().open("sign in", &issued.token, now).is_none(), "another process");
        assert!(challenges.answer(&value, now) && !challenges.answer(&value, now));
        assert!(open("sign in", &issued.token, now).is_none());
    }
}
