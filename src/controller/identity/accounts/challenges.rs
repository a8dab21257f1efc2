//! Proof of work of a sign-up: signed challenges, each valid once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use hotdesk_base::clock;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::proof_of_work;

/// Validity of a challenge. 32 bits take longer than that, so nobody should configure them.
const CHALLENGE_LIFE: Duration = Duration::from_secs(600);
/// Characters of the signing secret: 43 of base62 are 256 bits.
const SECRET_CHARACTERS: usize = 43;

/// Proof of work: a challenge and its solution.
#[derive(Clone, Copy, Debug)]
pub struct ProofOfWork<'a> {
    /// The challenge.
    pub challenge: &'a str,
    /// The solution.
    pub nonce: &'a str,
}

/// Challenges of this process.
pub struct ProofOfWorkChallenges {
    /// Signs challenges, which are valid only for this process.
    secret: Secret,
    /// Used challenges and their expiry times.
    used: Mutex<HashMap<String, UnixMillis>>,
}

impl Default for ProofOfWorkChallenges {
    fn default() -> Self {
        Self { secret: Secret::random(SECRET_CHARACTERS), used: Mutex::default() }
    }
}

impl ProofOfWorkChallenges {
    /// Returns a new challenge and its expiry time.
    pub fn generate(&self) -> (String, UnixMillis) {
        let ends = clock::now().plus(CHALLENGE_LIFE);
        let text = format!("{}.{}", ends.as_i64(), Secret::random(22).reveal());
        let signature = self.mac(&text).map(|mac| hex(&mac.finalize().into_bytes())).unwrap_or_default();
        (format!("{text}.{signature}"), ends)
    }

    fn mac(&self, text: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.reveal().as_bytes()).ok()?;
        mac.update(text.as_bytes());
        Some(mac)
    }

    /// Checks the proof of work: the challenge is valid and unused, and the nonce solves it.
    ///
    /// # Errors
    /// `Forbidden` (`proof_of_work`) when one of these is not so. Without bits no work is needed.
    pub fn check(&self, bits: u32, work: Option<ProofOfWork<'_>>) -> Result<()> {
        if bits == 0 {
            return Ok(());
        }
        let refused = |what: &str| Error::forbidden(what).code(ErrorCode::ProofOfWork);
        let Some(work) = work else {
            return Err(refused(
                "Proof of work is required: get a challenge from GET /agent-accounts/challenge",
            ));
        };
        let ends = self.ends(work.challenge).filter(|ends| *ends > clock::now());
        let Some(ends) = ends else { return Err(refused("This challenge is invalid or has expired")) };
        if !proof_of_work::solves(work.challenge, work.nonce, bits) {
            return Err(refused("The nonce does not solve the challenge"));
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, ends| *ends > clock::now());
        if used.insert(work.challenge.to_owned(), ends).is_some() {
            return Err(refused("This challenge was used already"));
        }
        Ok(())
    }

    /// Returns the expiry time of a valid challenge.
    fn ends(&self, challenge: &str) -> Option<UnixMillis> {
        let (text, signature) = challenge.rsplit_once('.')?;
        self.mac(text)?.verify_slice(&unhex(signature.as_bytes())?).ok()?;
        text.split_once('.')?.0.parse().ok().map(UnixMillis::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_signed_and_counts_once() {
        let challenges = ProofOfWorkChallenges::default();
        let (challenge, _) = challenges.generate();
        let solved = (0_u32..).map(|number| number.to_string());
        let nonce = solved.clone().find(|nonce| proof_of_work::solves(&challenge, nonce, 8)).unwrap();
        let code = |challenge: &str, nonce: &str| {
            challenges.check(8, Some(ProofOfWork { challenge, nonce })).err().map(|error| error.message)
        };
        let wrong = solved.clone().find(|nonce| !proof_of_work::solves(&challenge, nonce, 8)).unwrap();
        assert!(code(&challenge, &wrong).unwrap().contains("does not solve"));
        assert_eq!(code(&challenge, &nonce), None);
        assert!(code(&challenge, &nonce).unwrap().contains("used already"));
        let foreign = ProofOfWorkChallenges::default().generate().0;
        let later = challenge.replacen(|c: char| c.is_ascii_digit(), "9", 1);
        for strange in ["", "a.b.c", &foreign, &later] {
            assert!(code(strange, &nonce).unwrap().contains("is invalid"), "{strange}");
        }
        assert!(challenges.check(8, None).is_err() && challenges.check(0, None).is_ok());
    }
}
