//! How does somebody without a key show that a request was worth some work? By a number that makes a hash begin with zeros
//! (the idea of hashcash): hard to find, quick to check.

use sha2::{Digest, Sha256};

/// Most bits that can be asked for: 2^32 hashes are an hour of one core.
pub const MAX_BITS: u32 = 32;
/// Longest answer in bytes: a number of 64 bits has 20 digits.
const MAX_ANSWER: usize = 64;

/// Whether SHA-256 of `challenge`, a dot and `nonce` begins with at least so many zero bits.
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
