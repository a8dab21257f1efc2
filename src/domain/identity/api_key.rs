//! What does an API key look like? `sk_live_`, 30 random base62 characters, 6 of checksum (access.md A1).
//!
//! The checksum lets a mistyped key be refused without a look-up, and lets scanners recognise a leaked one.

/// Every live key begins so (interface.md "Authentication").
pub const PREFIX: &str = "sk_live_";
/// Keys that one account may have, beside those to its clients' workspaces: one for each program of hundreds, and an end to a
/// loop that mints.
pub const MAX_KEYS: u32 = 1000;
/// Keys to one client's workspace: a client is one customer with a handful of programs.
pub const MAX_CLIENT_KEYS: u32 = 100;
/// Random characters: 30 of base62 are 178 bits.
pub const RANDOM_CHARACTERS: usize = 30;
/// Checksum characters: CRC-32 in base62 needs 6.
const CHECKSUM_CHARACTERS: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Completes random characters into a key.
pub fn assemble(random: &str) -> String {
    format!("{PREFIX}{random}{}", checksum(random))
}

/// Whether a text has the form and the checksum of a key made here.
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

/// Whether a key stands anywhere in a text.
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
    fn a_key_is_found_wherever_it_stands() {
        let key = assemble("0123456789abcdefghijABCDEFGHIJ");
        assert!(
            is_in(&format!("{{\"key\":\"{key}\"}}"))
                && is_in(&format!("sk_live_é sk_live_{key}"))
                && is_in(&key)
        );
        assert!(!is_in("") && !is_in(&key[1..]) && !is_in(&key[..key.len() - 1]) && !is_in("sk_live_"));
    }
}
