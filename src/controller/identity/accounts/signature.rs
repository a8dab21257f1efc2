//! Signatures of billing events (docs/api/accounts.md).
//!
//! They use a shared secret and cover the time of signing.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::config::secret_file;
use hotdesk_base::hex::unhex;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;

/// Greatest difference between the time of signing and now, in seconds. A replayed event is useless after
/// that, and clocks differ by less.
const TOLERANCE_SECONDS: i64 = 300;

/// Verifies signatures; without a secret none is valid.
#[derive(Debug)]
pub struct Signatures(Option<Secret>);

impl Signatures {
    /// Reads the secret from the file of `billing.webhook_secret_file`; an empty path means no secret.
    ///
    /// # Errors
    /// Those of [`secret_file::read`].
    pub fn open(file: &Path) -> Result<Self> {
        Ok(Self(secret_file::read("billing.webhook_secret_file", file)?))
    }

    /// Whether `header` (`t=SECONDS,v1=HEX`) signs a body: HMAC-SHA-256 over the seconds, a dot and the body,
    /// signed recently.
    pub fn signs(&self, header: &str, body: &[u8], now: UnixMillis) -> bool {
        let Some(secret) = &self.0 else { return false };
        let field = |name: &str| header.split(',').find_map(|part| part.trim().strip_prefix(name));
        let (Some(time), Some(signature)) = (field("t="), field("v1=")) else { return false };
        let Ok(seconds) = time.parse::<i64>() else { return false };
        let apart = now.as_seconds().checked_sub(seconds).and_then(i64::checked_abs);
        if apart.is_none_or(|apart| apart > TOLERANCE_SECONDS) {
            return false;
        }
        let Some(signature) = unhex(signature.as_bytes()) else { return false };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()) else { return false };
        mac.update(time.as_bytes());
        mac.update(b".");
        mac.update(body);
        mac.verify_slice(&signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use hotdesk_base::hex::hex;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn signed(secret: &str, time: &str, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(&[time.as_bytes(), b".", body].concat());
        format!("t={time},v1={}", hex(&mac.finalize().into_bytes()))
    }

    #[test]
    fn only_a_fresh_signature_of_this_body_counts() {
        let (checks, now) = (Signatures(Some(Secret::new(SECRET))), 1_700_000_000_000);
        let right = signed(SECRET, "1700000000", b"body");
        for (header, body, at, counts) in [
            (right.as_str(), &b"body"[..], now, true),
            (&right, b"body", now + 300_000, true),
            (&right, b"body", now - 300_000, true),
            (&right, b"body", now + 301_000, false),
            (&right, b"body", now - 301_000, false),
            (&right, b"bodY", now, false),
            (&right.replace("t=1700000000", "t=1700000001"), b"body", now, false),
            (&right.replace("v1=", "v0="), b"body", now, false),
            (&right.to_uppercase(), b"body", now, false),
            (&signed("another secret", "1700000000", b"body"), b"body", now, false),
            (&signed(SECRET, "soon", b"body"), b"body", now, false),
            (&signed(SECRET, "-9223372036854775808", b"body"), b"body", now, false),
            ("", b"body", now, false),
            ("t=1700000000,v1=", b"body", now, false),
        ] {
            assert_eq!(checks.signs(header, body, UnixMillis::new(at)), counts, "{header} at {at}");
        }
        assert!(
            !Signatures(None).signs(&right, b"body", UnixMillis::new(now)),
            "without a secret nothing is right"
        );
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let with = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            Signatures::open(&file).map(|_| ()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(with(SECRET, 0o600), Ok(()));
        for (text, mode) in [(SECRET, 0o640), (SECRET, 0o604), ("short", 0o600), ("", 0o600)] {
            let refused = with(text, mode).unwrap_err();
            assert!(text.is_empty() || !refused.contains(text), "{refused}");
        }
        assert!(Signatures::open(&folder.path().join("none")).is_err());
        assert!(Signatures::open(Path::new("")).is_ok());
    }
}
