//! Identity of a machine after a resume, clone or fork: host name, clock, random seed and machine id (T21,
//! T28, docs/security.md).

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::time::UnixMillis;

/// Size of a seed, in bytes: the state of the kernel's random generator.
pub const SEED_BYTES: usize = 32;
/// Longest host name, in bytes: `HOST_NAME_MAX` is 64, and a DNS label has at most 63 (RFC 1035 section
/// 2.3.4).
const LONGEST_NAME: usize = 63;
/// Valid times of a host: 2020 to 2100.
const TIMES: Range<UnixMillis> = UnixMillis::new(1_577_836_800_000)..UnixMillis::new(4_102_444_800_000);
/// A clock that is late by at most this, in milliseconds, is not set: the transfer of the time is no more
/// exact. Half of the required accuracy of 0.5 s.
const TOLERANCE_MS: i64 = 250;
/// A clock that is ahead by at most this, in milliseconds, is not set: the received time is old by its
/// transfer, which takes seconds on a busy host. A step backwards also disturbs programs.
const MAX_TRANSFER_MS: i64 = 5000;
/// Address of the host's own name in `/etc/hosts` on Debian.
const OWN_ADDRESS: &str = "127.0.1.1";

/// Checks a host name: 1 to 63 ASCII letters, digits and hyphens, with no hyphen at either end.
///
/// # Errors
/// `Invalid` for any other name.
pub fn check_hostname(name: &str) -> Result<()> {
    let fits = (1..=LONGEST_NAME).contains(&name.len());
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !fits || !plain || name.starts_with('-') || name.ends_with('-') {
        let rule = format!(
            "hostname must be 1 to {LONGEST_NAME} letters, digits and hyphens, with no hyphen at an end"
        );
        return Err(Error::invalid(rule));
    }
    Ok(())
}

/// Checks a host's time.
///
/// # Errors
/// `Invalid` for a time that is not between 2020 and 2100.
pub fn check_time(time: UnixMillis) -> Result<()> {
    if TIMES.contains(&time) {
        return Ok(());
    }
    Err(Error::invalid("unix_ms must be milliseconds since 1970, of a time from 2020 to 2100"))
}

/// Parses a seed of [`SEED_BYTES`] bytes in hexadecimal.
///
/// # Errors
/// `Invalid` for any other text; the message does not quote it.
pub fn parse_seed(text: &str) -> Result<[u8; SEED_BYTES]> {
    let bytes = if text.len() == 2 * SEED_BYTES { unhex(text.as_bytes()) } else { None };
    let wrong = || Error::invalid(format!("seed must be {SEED_BYTES} bytes as hex"));
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)
}

/// Whether a clock that is `off_ms` milliseconds ahead of the received time (negative: behind) is accurate
/// enough.
pub fn clock_is_right(off_ms: i64) -> bool {
    (-TOLERANCE_MS..=MAX_TRANSFER_MS).contains(&off_ms)
}

/// Derives a machine id (machine-id(5)) from a seed. The same seed gives the same id; the id does not reveal
/// the seed.
pub fn machine_id(seed: &[u8; SEED_BYTES]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(b"hotdesk machine-id ");
    hasher.update(seed);
    hex(&hasher.finalize()[..16])
}

/// Returns the content of `/etc/hosts` with the host's own name replaced; other lines are unchanged.
pub fn hosts(old: &str, hostname: &str) -> String {
    let own = format!("{OWN_ADDRESS} {hostname}");
    let mut written = false;
    let mut lines: Vec<&str> = Vec::new();
    for line in old.lines() {
        if line.split_ascii_whitespace().next() != Some(OWN_ADDRESS) {
            lines.push(line);
        } else if !std::mem::replace(&mut written, true) {
            lines.push(&own);
        }
    }
    if !written {
        lines.push(&own);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_label() {
        for good in ["a", "hotdesk-1a2b3c4d", "A1", &"x".repeat(63)] {
            assert!(check_hostname(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "a.b", "a b", "a_b", "ä", "a\n", "a\0", "../x", &"x".repeat(64)] {
            assert!(check_hostname(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_are_of_this_century() {
        assert!(check_time(UnixMillis::new(1_800_000_000_000)).is_ok());
        for bad in [0, -1, 1_800_000_000, i64::MAX, i64::MIN, 4_102_444_800_000] {
            assert!(check_time(UnixMillis::new(bad)).is_err(), "{bad}");
        }
        let offs = [(0, true), (-250, true), (-251, false), (5000, true), (5001, false), (i64::MIN, false)];
        for (off, right) in offs {
            assert_eq!(clock_is_right(off), right, "{off}");
        }
    }

    #[test]
    fn a_seed_is_its_bytes_and_is_never_repeated() {
        let text = "00ff".repeat(16);
        assert_eq!(parse_seed(&text).unwrap()[..4], [0, 255, 0, 255]);
        for bad in ["", "00", &"0g".repeat(32), &"00".repeat(33), &"é".repeat(32), &"+1".repeat(32)] {
            let refusal = parse_seed(bad).unwrap_err().message;
            assert_eq!(refusal, "seed must be 32 bytes as hex");
        }
    }

    #[test]
    fn a_machine_id_follows_from_its_seed_alone() {
        let one = machine_id(&[1; SEED_BYTES]);
        assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(one, machine_id(&[1; SEED_BYTES]));
        assert_ne!(one, machine_id(&[2; SEED_BYTES]));
    }

    #[test]
    fn hosts_has_the_new_name_once() {
        let old = "127.0.0.1 localhost\n127.0.1.1 old old.example\n# mine\n10.0.0.1 db\n127.0.1.1 older\n";
        let new = "127.0.0.1 localhost\n127.0.1.1 new\n# mine\n10.0.0.1 db\n";
        assert_eq!(hosts(old, "new"), new);
        assert_eq!(hosts(new, "new"), new);
        assert_eq!(hosts("", "new"), "127.0.1.1 new\n");
        assert_eq!(hosts("127.0.1.10 x", "new"), "127.0.1.10 x\n127.0.1.1 new\n");
    }
}
