//! Format of API keys: `sk_live_`, 30 random base62 characters and a checksum of 6 (A1,
//! docs/authentication-rules.md).
//!
//! With the checksum, a mistyped key is refused without a database query, and secret scanners recognise a
//! leaked key.

/// Prefix of every key.
pub const PREFIX: &str = "sk_live_";
/// Largest number of keys of an account, without those for its clients' workspaces: enough for hundreds of
/// programs, and a bound for a loop that creates keys.
pub const MAX_KEYS: u32 = 1000;
/// Largest number of keys for one client's workspace: a client is one customer with a few programs.
pub const MAX_CLIENT_KEYS: u32 = 100;
/// Number of random characters: 30 of base62 are 178 bits.
pub const RANDOM_CHARACTERS: usize = 30;
/// Number of checksum characters: CRC-32 in base62 needs 6.
const CHECKSUM_CHARACTERS: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Assembles a key from its random characters.
pub fn assemble(random: &str) -> String {
    format!("{PREFIX}{random}{}", checksum(random))
}

/// Whether a text has the format and the checksum of a key.
pub fn well_formed(key: &str) -> bool {
    let Some(rest) = key.strip_prefix(PREFIX) else { return false };
    if rest.len() != RANDOM_CHARACTERS + CHECKSUM_CHARACTERS
        || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return false;
    }
    let (random, sum) = rest.split_at(RANDOM_CHARACTERS);
    checksum(random) == sum
}

/// Whether a text contains a key.
pub fn is_in(text: &str) -> bool {
    let length = PREFIX.len() + RANDOM_CHARACTERS + CHECKSUM_CHARACTERS;
    text.match_indices(PREFIX).any(|(at, _)| text.get(at..at + length).is_some_and(well_formed))
}

fn checksum(text: &str) -> String {
    let mut value = crc32fast::hash(text.as_bytes());
    let mut digits = [b'0'; CHECKSUM_CHARACTERS];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(value % 62) as usize];
        value /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_one_wrong_character_is_not_a_key() {
        let key = assemble("0123456789abcdefghijABCDEFGHIJ");
        assert!(well_formed(&key));
        for position in 0..key.len() {
            let mut wrong = key.clone().into_bytes();
            wrong[position] = if wrong[position] == b'x' { b'y' } else { b'x' };
            assert!(!well_formed(std::str::from_utf8(&wrong).unwrap()), "position {position}");
        }
        for bad in ["", "sk_live_", "sk_test_x", &key[..key.len() - 1], &format!("{key}0"), "sk_live_ééé"]
        {
            assert!(!well_formed(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_found_anywhere_in_a_text() {
        let key = assemble("0123456789abcdefghijABCDEFGHIJ");
        assert!(
            is_in(&format!("{{\"key\":\"{key}\"}}"))
                && is_in(&format!("sk_live_é sk_live_{key}"))
                && is_in(&key)
        );
        assert!(!is_in("") && !is_in(&key[1..]) && !is_in(&key[..key.len() - 1]) && !is_in("sk_live_"));
    }
}
