//! Secret strings, which no log line, error text or debug output prints.

use std::fmt;

use rand::RngExt;
use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;

pub mod sealing;

/// The 62 letters and digits that generated secrets are made of.
pub const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A secret string. Its `Debug` and `Display` are redacted; [`Secret::reveal`] is the only way to the text.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps an existing secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A fresh secret of `length` base62 characters (5.95 bits each) from the system's random source.
    pub fn random(length: usize) -> Self {
        let mut rng = rand::rng();
        Self((0..length).map(|_| char::from(BASE62[rng.random_range(0..BASE62.len())])).collect())
    }

    /// The text itself. Call it only where the secret is sent to its recipient.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    pub fn matches(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

/// Only deserialization: a response that sends a secret uses [`Secret::reveal`] for that field.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints_itself() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "*** Secret(***)");
        assert!(secret.matches("hunter2") && !secret.matches("hunter") && !secret.matches("hunter3"));
    }

    #[test]
    fn random_secrets_have_their_length_and_alphabet() {
        let secret = Secret::random(40);
        assert_eq!(secret.reveal().len(), 40);
        assert!(secret.reveal().bytes().all(|byte| BASE62.contains(&byte)));
        assert_ne!(secret.reveal(), Secret::random(40).reveal());
    }
}
