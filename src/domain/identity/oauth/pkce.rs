//! PKCE with S256 (RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Length of a challenge, in characters: SHA-256 in base64url without padding (section 4.2).
const CHALLENGE: usize = 43;
/// Length of a verifier, in characters (section 4.1).
const VERIFIER: std::ops::RangeInclusive<usize> = 43..=128;

/// Whether a text is a valid S256 challenge.
pub fn is_challenge(text: &str) -> bool {
    text.len() == CHALLENGE && URL_SAFE_NO_PAD.decode(text).is_ok()
}

/// Returns the S256 challenge of a verifier (section 4.2).
pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// Whether a challenge was derived from this verifier; compared in constant time.
pub fn verifies(challenge: &str, verifier: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let made = self::challenge(verifier);
    VERIFIER.contains(&verifier.len())
        && verifier.bytes().all(unreserved)
        && bool::from(made.as_bytes().ct_eq(challenge.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7636 appendix B.
    const KNOWN: (&str, &str) =
        ("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");

    #[test]
    fn a45_a_verifier_is_43_to_128_unreserved_characters_and_the_right_one() {
        let (challenge, verifier) = KNOWN;
        assert!(is_challenge(challenge) && verifies(challenge, verifier));
        let wrong = verifier.replace('d', "e");
        let challenge_of = |verifier: &str| URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        for bad in ["", &wrong, &verifier[1..], challenge] {
            assert!(!verifies(challenge, bad), "{bad}");
        }
        for (verifier, good) in [
            ("x".repeat(42), false),
            ("x".repeat(43), true),
            ("~._-".repeat(32), true),
            ("x".repeat(129), false),
            ("+".repeat(43), false),
            ("é".repeat(43), false),
        ] {
            assert_eq!(verifies(&challenge_of(&verifier), &verifier), good, "{verifier}");
        }
        for bad in ["", verifier.trim_end_matches('k'), "plain", &"=".repeat(43), &"A".repeat(44)] {
            assert!(!is_challenge(bad), "{bad}");
        }
    }
}
