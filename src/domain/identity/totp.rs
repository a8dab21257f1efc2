//! Codes of authenticator apps: time-based one-time passwords (RFC 6238) with HMAC-SHA-1, six digits and steps of
//! 30 seconds, which are the values that every app supports.

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use crate::error::{Error, Result};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;

/// Seconds of a time step.
const STEP_SECONDS: i64 = 30;
/// Bytes of a secret, as RFC 4226 section 4 recommends (R6).
pub const SECRET_BYTES: usize = 20;
/// Codes are below this: they have six digits.
const MODULUS: u32 = 1_000_000;
/// Steps before and after the present one whose codes are accepted. It covers a clock that is half a minute off,
/// and the time to type (RFC 6238 section 5.2 recommends at most one).
const MAX_SKEW: i64 = 1;

/// Returns the text of a secret, in base32, which apps and people read.
pub fn secret_of(bytes: &[u8; SECRET_BYTES]) -> Secret {
    Secret::new(BASE32_NOPAD.encode(bytes))
}

/// Returns the number of the time step at a time.
pub fn step_at(now: UnixMillis) -> i64 {
    now.as_seconds().div_euclid(STEP_SECONDS)
}

/// Returns the code of a secret at a time step, six digits (RFC 4226 section 5.3).
///
/// # Errors
/// `Invalid` for a text that is no secret of [`secret_of`].
pub fn code(secret: &Secret, step: i64) -> Result<Secret> {
    let not_one = || Error::invalid("This is not the secret of an authenticator app");
    let key = BASE32_NOPAD.decode(secret.reveal().as_bytes()).map_err(|_| not_one())?;
    if key.len() != SECRET_BYTES {
        return Err(not_one());
    }
    let mut mac = Hmac::<Sha1>::new_from_slice(&key).map_err(|_| not_one())?;
    mac.update(&step.to_be_bytes());
    let hash = mac.finalize().into_bytes();
    let offset = usize::from(hash[19] & 0x0f);
    let word = [hash[offset] & 0x7f, hash[offset + 1], hash[offset + 2], hash[offset + 3]];
    Ok(Secret::new(format!("{:06}", u32::from_be_bytes(word) % MODULUS)))
}

/// Returns the time step of a code that is valid now, or `None` for a wrong one. Codes of `last_step` and of
/// earlier steps are refused, because they were used or are older than one that was (RFC 6238 section 5.2).
///
/// # Errors
/// Those of [`code`].
pub fn accepted_step(secret: &Secret, typed: &str, now: UnixMillis, last_step: i64) -> Result<Option<i64>> {
    let typed: String = typed.chars().filter(|c| !c.is_whitespace()).collect();
    let step = step_at(now);
    for step in (step - MAX_SKEW..=step + MAX_SKEW).filter(|step| *step > last_step) {
        if code(secret, step)?.matches(&typed) {
            return Ok(Some(step));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238 appendix B.
    fn secret() -> Secret {
        secret_of(b"12345678901234567890")
    }

    fn at(seconds: i64) -> UnixMillis {
        UnixMillis::from_seconds(seconds, 0)
    }

    #[test]
    fn codes_are_those_of_rfc_6238() {
        // The last six of the eight digits in the table of appendix B.
        for (seconds, digits) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code(&secret(), step_at(at(seconds))).unwrap().reveal(), digits, "{seconds}");
        }
        for text in ["", "not base32", "GEZDGNBVGY3TQOJQ"] {
            assert!(code(&Secret::new(text), 1).is_err(), "{text}");
        }
    }

    #[test]
    fn a_code_is_accepted_around_its_time_and_once() {
        let step = step_at(at(59));
        for (typed, seconds, last_step, accepted) in [
            ("287082", 59, 0, Some(step)),
            (" 287 082 ", 59, 0, Some(step)),
            ("287082", 59 + 30, 0, Some(step)),
            ("287082", 59 - 30, 0, Some(step)),
            ("287082", 59 + 60, 0, None),
            ("287082", 59 - 60, 0, None),
            ("287082", 59, step, None),
            ("287082", 59, step + 1, None),
            ("287082", 59, step - 1, Some(step)),
            ("287083", 59, 0, None),
            ("", 59, 0, None),
        ] {
            let found = accepted_step(&secret(), typed, at(seconds), last_step).unwrap();
            assert_eq!(found, accepted, "{typed} at {seconds} after {last_step}");
        }
    }
}
