//! Proof of work for requests without a key: a nonce that makes a hash begin with zero bits (hashcash).

use sha2::{Digest, Sha256};

/// Largest number of required zero bits: 2^32 hashes take one core about an hour.
pub const MAX_BITS: u32 = 32;
/// Longest nonce, in bytes: a 64-bit number has 20 digits.
const MAX_ANSWER: usize = 64;

/// Whether SHA-256 of `challenge`, a dot and `nonce` begins with at least `bits` zero bits.
pub fn solves(challenge: &str, nonce: &str, bits: u32) -> bool {
    if nonce.len() > MAX_ANSWER {
        return false;
    }
    let mut zeros = 0;
    for byte in Sha256::digest(format!("{challenge}.{nonce}")) {
        zeros += byte.leading_zeros();
        if byte != 0 {
            break;
        }
    }
    zeros >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_its_challenge_and_its_bits() {
        let found = (0_u32..).map(|number| number.to_string()).find(|nonce| solves("c", nonce, 10)).unwrap();
        assert!(solves("c", &found, 0) && solves("c", &found, 10));
        assert!(!solves("d", &found, 32) && !solves("c", &found, 33));
        assert!(!solves("c", &"0".repeat(MAX_ANSWER + 1), 0), "no endless text is hashed");
    }
}
