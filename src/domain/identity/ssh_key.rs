//! Public keys of SSH that an account may add (docs/ssh.md).

use ssh_key::{Algorithm, HashAlg, PublicKey};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Largest number of account-wide keys of an account, and of its keys for one workspace: a key for each device of
/// a person. A connection sends all of them to the computer.
pub const MAX_KEYS: u32 = 20;
/// Longest text of a key, in bytes. An RSA key of 16,384 bits, the largest of OpenSSH, has 2,800.
pub const MAX_TEXT: usize = 4096;
/// Shortest RSA key, in bits (NIST SP 800-131A).
const MIN_RSA_BITS: usize = 2048;

/// A valid public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshPublicKey {
    /// Type and key in the format of OpenSSH, without a comment.
    pub text: String,
    /// `SHA256:` and the digest, as `ssh-keygen -l` shows it.
    pub fingerprint: String,
    /// The comment; empty without one.
    pub comment: String,
}

impl SshPublicKey {
    /// Parses one line in the format of OpenSSH: type, key and an optional comment.
    ///
    /// # Errors
    /// `Invalid` (`INVALID_REQUEST`) for a private key, several keys, options before the key, an unknown or weak
    /// type, and any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let line = text.trim();
        if line.contains("PRIVATE KEY") {
            return Err(refused("this is a private key: send the content of the .pub file beside it"));
        }
        if line.len() > MAX_TEXT {
            return Err(refused(format!("it is longer than {MAX_TEXT} bytes")));
        }
        if line.chars().any(char::is_control) {
            return Err(refused("it must be one line, with one key"));
        }
        let mut key = PublicKey::from_openssh(line).map_err(|error| {
            refused(
                "it must be a type, the key and an optional comment, such as \"ssh-ed25519 AAAA... laptop\"",
            )
            .context(error)
        })?;
        let algorithm = key.algorithm();
        let accepted = matches!(
            algorithm,
            Algorithm::Ed25519
                | Algorithm::Ecdsa { .. }
                | Algorithm::Rsa { .. }
                | Algorithm::SkEd25519
                | Algorithm::SkEcdsaSha2NistP256
        );
        if !accepted {
            return Err(refused(format!("the type {algorithm} is not accepted; use ssh-ed25519")));
        }
        if let Some(bits) = key.key_data().rsa().map(rsa_bits).filter(|bits| *bits < MIN_RSA_BITS) {
            return Err(refused(format!("an RSA key needs {MIN_RSA_BITS} bits; this one has {bits}")));
        }
        let comment = key.comment().to_owned();
        key.set_comment("");
        let text = key.to_openssh().map_err(Error::internal)?.trim_end().to_owned();
        Ok(Self { text, fingerprint: key.fingerprint(HashAlg::Sha256).to_string(), comment })
    }
}

/// Whether a text is a plain name of a Unix user: letters, digits, `-`, `_` and `.`, at most 32, the first a letter
/// or `_`.
pub fn is_user_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= 32
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(is_plain)
}

/// Length of the modulus, in bits.
fn rsa_bits(key: &ssh_key::public::RsaPublicKey) -> usize {
    let bytes = key.n.as_positive_bytes().unwrap_or_default();
    let leading_zeros = bytes.first().map_or(0, |first| first.leading_zeros() as usize);
    bytes.len() * 8 - leading_zeros
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("public_key is no SSH public key that can be used: {why}"))
        .code(ErrorCode::InvalidRequest)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
    use sha2::{Digest, Sha256};

    use super::*;

    /// A key in the format of OpenSSH (RFC 4253 section 6.6) from its fields, and its fingerprint.
    fn key(kind: &str, fields: &[&[u8]]) -> (String, String) {
        let mut blob = Vec::new();
        for field in [kind.as_bytes()].iter().chain(fields) {
            blob.extend((field.len() as u32).to_be_bytes());
            blob.extend(*field);
        }
        let digest = BASE64_STANDARD_NO_PAD.encode(Sha256::digest(&blob));
        (format!("{kind} {}", BASE64_STANDARD.encode(blob)), format!("SHA256:{digest}"))
    }

    fn rsa(bits: usize) -> (String, String) {
        let modulus = [&[0, 0x80][..], &vec![7; bits / 8 - 1]].concat();
        key("ssh-rsa", &[&[1, 0, 1], &modulus])
    }

    fn ed25519() -> String {
        key("ssh-ed25519", &[&[7; 32]]).0
    }

    #[test]
    fn keys_of_every_type_are_normalized() {
        let point = |bytes: usize| [&[4][..], &vec![7; bytes - 1]].concat();
        for (text, fingerprint) in [
            key("ssh-ed25519", &[&[7; 32]]),
            key("ecdsa-sha2-nistp256", &[b"nistp256", &point(65)]),
            key("ecdsa-sha2-nistp384", &[b"nistp384", &point(97)]),
            key("ecdsa-sha2-nistp521", &[b"nistp521", &point(133)]),
            key("sk-ssh-ed25519@openssh.com", &[&[7; 32], b"ssh:"]),
            key("sk-ecdsa-sha2-nistp256@openssh.com", &[b"nistp256", &point(65), b"ssh:"]),
            rsa(2048),
            rsa(16384),
        ] {
            let parsed = SshPublicKey::parse(&format!("  {text} me@my laptop\n")).unwrap();
            assert_eq!((&parsed.text, &parsed.fingerprint), (&text, &fingerprint));
            assert_eq!(parsed.comment, "me@my laptop");
            assert_eq!(SshPublicKey::parse(&text).unwrap().comment, "");
        }
    }

    #[test]
    fn user_names_are_plain() {
        for good in ["root", "_apt", "user-1", "a.b", "Me"] {
            assert!(is_user_name(good), "{good}");
        }
        for bad in ["", "-l", "1a", "a b", "a;b", "a\nb", "ü", &"a".repeat(33)] {
            assert!(!is_user_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        let good = ed25519();
        let dsa = key("ssh-dss", &[&[7; 128], &[7; 20], &[7; 128], &[7; 128]]).0;
        let certificate = key("ssh-ed25519-cert-v01@openssh.com", &[&[7; 32], &[7; 32]]).0;
        for (text, reason) in [
            ("", "must be a type"),
            ("ssh-ed25519", "must be a type"),
            ("ssh-ed25519 AAAA", "must be a type"),
            (&good[..good.len() - 4], "must be a type"),
            (&good.replace("ssh-ed25519", "ssh-rsa"), "must be a type"),
            (&format!("command=\"id\" {good}"), "must be a type"),
            (&format!("{good}\n{good}"), "one line"),
            (&format!("{good} a\0b"), "one line"),
            (&format!("{good} {}", "x".repeat(MAX_TEXT)), "longer than"),
            (&format!("-----BEGIN OPENSSH {} KEY-----\nx\n", "PRIVATE"), ".pub file"),
            (&rsa(1024).0, "has 1024"),
            (&dsa, "ssh-d"),
            (&certificate, "public_key is no"),
        ] {
            let error = SshPublicKey::parse(text).unwrap_err();
            assert_eq!(error.code, Some(ErrorCode::InvalidRequest));
            assert!(error.message.contains(reason), "{text:?}: {}", error.message);
        }
    }
}
