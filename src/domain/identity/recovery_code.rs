//! Recovery codes: each replaces the authenticator app of a person once.
//!
//! A code is 80 random bits as 16 characters of base32, shown as `abcd-efgh-ijkl-mnop`. It has so many bits because
//! only its SHA-256 is stored, and codes are too many for slow hashes at each attempt.

use data_encoding::BASE32_NOPAD;

use hotdesk_base::secret::Secret;

/// Random bytes of a code.
pub const BYTES: usize = 10;
/// Characters of a code, without hyphens.
const CHARACTERS: usize = 16;
/// Characters between two hyphens.
const GROUP: usize = 4;

/// Returns the code of random bytes, in lower case with hyphens.
pub fn code_of(bytes: &[u8; BYTES]) -> Secret {
    grouped(&BASE32_NOPAD.encode(bytes).to_ascii_lowercase())
}

/// Returns the code that a person typed, as [`code_of`] writes it. Case, hyphens and spaces do not matter. `None`
/// for a text that is no code.
pub fn parse(typed: &str) -> Option<Secret> {
    let plain = typed.chars().filter(|c| !c.is_whitespace() && *c != '-');
    let plain: String = plain.map(|c| c.to_ascii_lowercase()).take(CHARACTERS + 1).collect();
    let is_code =
        plain.len() == CHARACTERS && plain.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'));
    is_code.then(|| grouped(&plain))
}

fn grouped(plain: &str) -> Secret {
    let characters: Vec<char> = plain.chars().collect();
    let groups: Vec<String> = characters.chunks(GROUP).map(|group| group.iter().collect()).collect();
    Secret::new(groups.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_people_type_it() {
        let code = code_of(&[0, 68, 50, 20, 199, 66, 84, 182, 53, 207]);
        assert_eq!(code.reveal(), "abcd-efgh-ijkl-mnop");
        for (typed, is_code) in [
            ("abcd-efgh-ijkl-mnop", true),
            (" ABCD EFGH ijklmnop ", true),
            ("abcd-efgh-ijkl-mno", false),
            ("abcd-efgh-ijkl-mnopq", false),
            ("abcd-efgh-ijkl-mno1", false),
            ("ábcd-efgh-ijkl-mno", false),
            ("123456", false),
            ("", false),
        ] {
            let read = parse(typed);
            assert_eq!(read.is_some_and(|read| read.matches(code.reveal())), is_code, "{typed}");
        }
    }
}
