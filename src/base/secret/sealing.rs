//! Authenticated encryption of values that are stored or leave the host: AES-256-GCM with a key for each place.
//!
//! ```text
//! key --HKDF-SHA256(place)--> key of the place --AES-256-GCM(random nonce)--> ciphertext, tag, nonce
//! ```
//! A place names where the value belongs, such as a row and its column. A value that is moved to another place
//! cannot be opened there. Because each place has a key of its own, a random nonce of 96 bits has to be unique
//! among the values of one place only. NIST SP 800-38D (section 8.3) allows 2^32 of them; no place has as many.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{Context, SHA256};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};

use crate::hex::{hex, unhex};
use crate::secret::Secret;
use crate::step_error::StepError;

/// Length of a key: 256 bits.
const KEY_BYTES: usize = 32;
/// Bytes by which a sealed value is longer than the value: the nonce and the tag.
pub const SEALED_OVERHEAD: usize = NONCE_LEN + 16;
/// Bytes of a derived key: the most that fscrypt takes (`FSCRYPT_MAX_KEY_SIZE` of linux/fscrypt.h).
const DERIVED_BYTES: usize = 64;
/// Digits of a key's id: 64 bits distinguish all keys that one installation ever has.
const ID_DIGITS: usize = 16;

/// A random key of 256 bits. Its `Debug` is redacted.
#[derive(Clone)]
pub struct SealingKey {
    bytes: [u8; KEY_BYTES],
    root: Prk,
}

impl SealingKey {
    /// Returns a new key from the system's random source.
    pub fn random() -> Self {
        let mut bytes = [0; KEY_BYTES];
        rand::fill(&mut bytes);
        Self::of(bytes)
    }

    /// Parses the 64 hex digits of [`Self::digits`]; `None` for any other text.
    pub fn parse(digits: &str) -> Option<Self> {
        Some(Self::of(unhex(digits.as_bytes())?.try_into().ok()?))
    }

    fn of(bytes: [u8; KEY_BYTES]) -> Self {
        // The bytes are uniformly random, which is what HKDF's first step would make of others.
        Self { root: Prk::new_less_safe(HKDF_SHA256, &bytes), bytes }
    }

    /// Returns the key as 64 hex digits.
    pub fn digits(&self) -> Secret {
        Secret::new(hex(&self.bytes))
    }

    /// Returns 16 hex digits that identify the key and reveal nothing of it.
    pub fn id(&self) -> String {
        let mut context = Context::new(&SHA256);
        context.update(b"id of a sealing key");
        context.update(&self.bytes);
        hex(context.finish().as_ref()).chars().take(ID_DIGITS).collect()
    }

    /// Returns a key of 64 bytes for another purpose, as 128 hex digits; the same each time. It reveals nothing of this
    /// key. No place is named like a purpose.
    ///
    /// # Errors
    /// None in practice: HKDF-SHA256 derives up to 8,160 bytes.
    pub fn derive(&self, purpose: &str) -> Result<Secret, StepError> {
        let (mut bytes, info) = ([0; DERIVED_BYTES], [purpose.as_bytes()]);
        self.root
            .expand(&info, DerivedLength)
            .and_then(|derived| derived.fill(&mut bytes))
            .map_err(|_| StepError::new(format!("cannot derive a key for {purpose}")))?;
        Ok(Secret::new(hex(&bytes)))
    }

    /// Seals a value for a place: [`SEALED_OVERHEAD`] bytes longer, and different each time.
    ///
    /// # Errors
    /// For values of more than 64 GiB.
    pub fn seal(&self, place: &str, value: &[u8]) -> Result<Vec<u8>, StepError> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce);
        let mut sealed = Vec::with_capacity(value.len() + SEALED_OVERHEAD);
        sealed.extend_from_slice(value);
        let failed = |_| StepError::new(format!("cannot seal the value of {place}"));
        let key = self.key_of(place)?;
        let tag = key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), &mut sealed)
            .map_err(failed)?;
        sealed.extend_from_slice(tag.as_ref());
        sealed.extend_from_slice(&nonce);
        Ok(sealed)
    }

    /// Opens a value that was sealed with this key for this place.
    ///
    /// # Errors
    /// When it was changed, or sealed with another key or for another place.
    pub fn open(&self, place: &str, mut sealed: Vec<u8>) -> Result<Vec<u8>, StepError> {
        let failed = || {
            StepError::new(format!(
                "cannot open the value of {place}: it was changed, or sealed with another key or for another place"
            ))
        };
        let end = sealed.len().checked_sub(NONCE_LEN).ok_or_else(failed)?;
        let nonce = Nonce::try_assume_unique_for_key(&sealed.split_off(end)).map_err(|_| failed())?;
        let key = self.key_of(place)?;
        let length = key.open_in_place(nonce, Aad::from(place), &mut sealed).map_err(|_| failed())?.len();
        sealed.truncate(length);
        Ok(sealed)
    }

    fn key_of(&self, place: &str) -> Result<LessSafeKey, StepError> {
        let key =
            self.root.expand(&[place.as_bytes()], &AES_256_GCM).map(UnboundKey::from).map(LessSafeKey::new);
        key.map_err(|_| StepError::new(format!("cannot derive the key of {place}")))
    }
}

/// The length of a derived key.
#[derive(Debug)]
struct DerivedLength;

impl KeyType for DerivedLength {
    fn len(&self) -> usize {
        DERIVED_BYTES
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_with_its_key_at_its_place_unchanged() {
        let (key, other) = (SealingKey::random(), SealingKey::random());
        for value in [&b""[..], b"hunter2", &[7; 5000]] {
            let sealed = key.seal("a/1", value).unwrap();
            assert_eq!(sealed.len(), value.len() + SEALED_OVERHEAD);
            assert_ne!(sealed, key.seal("a/1", value).unwrap());
            assert_eq!(key.open("a/1", sealed.clone()).unwrap(), value);
            assert!(key.open("a/2", sealed.clone()).is_err(), "another place");
            assert!(other.open("a/1", sealed.clone()).is_err(), "another key");
            for at in [0, sealed.len() / 2, sealed.len() - 1] {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert!(key.open("a/1", changed).is_err(), "byte {at} of {}", sealed.len());
            }
            for length in [0, 1, SEALED_OVERHEAD - 1, sealed.len() - 1] {
                assert!(key.open("a/1", sealed[..length].to_vec()).is_err(), "{length} bytes");
            }
        }
    }

    #[test]
    fn a_key_is_known_by_its_id_and_never_prints_itself() {
        let key = SealingKey::random();
        let same = SealingKey::parse(key.digits().reveal()).unwrap();
        assert_eq!((same.id(), same.id().len()), (key.id(), ID_DIGITS));
        assert_ne!(SealingKey::random().id(), key.id());
        assert_eq!(same.open("p", key.seal("p", b"x").unwrap()).unwrap(), b"x");
        assert_eq!(format!("{key:?}"), format!("SealingKey({})", key.id()));
        assert!(!key.digits().reveal().contains(&key.id()));
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
            assert!(SealingKey::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_derived_key_is_the_same_each_time_and_another_for_each_key_and_purpose() {
        let (key, other) = (SealingKey::random(), SealingKey::random());
        let derived = key.derive("disks").unwrap();
        assert_eq!(derived.reveal().len(), 2 * DERIVED_BYTES);
        let same = SealingKey::parse(key.digits().reveal()).unwrap().derive("disks").unwrap();
        assert!(derived.matches(same.reveal()));
        for different in [key.derive("memory").unwrap(), other.derive("disks").unwrap()] {
            assert!(!derived.matches(different.reveal()));
        }
        assert!(!derived.reveal().contains(key.digits().reveal()));
    }

    /// The figure of docs/performance.md: parts of a saved state on one core.
    #[test]
    fn parts_are_sealed_and_opened_at_full_speed() {
        if std::env::var_os("HOTDESK_FIGURES").is_none() {
            return hotdesk_capability::Capability::Host.skip("HOTDESK_FIGURES is not set");
        }
        let parts = 256_u32;
        let (key, part) = (SealingKey::random(), vec![7; 4 << 20]);
        let began = std::time::Instant::now();
        let mut sealed = Vec::new();
        for number in 0..parts {
            sealed = key.seal(&number.to_string(), &part).unwrap();
        }
        let sealing = began.elapsed();
        let began = std::time::Instant::now();
        for _ in 0..parts {
            key.open(&(parts - 1).to_string(), sealed.clone()).unwrap();
        }
        let rate = |took: std::time::Duration| f64::from(parts) * 4.0 / took.as_secs_f64();
        println!("sealing: {:.0} MiB/s, opening: {:.0} MiB/s", rate(sealing), rate(began.elapsed()));
    }
}
