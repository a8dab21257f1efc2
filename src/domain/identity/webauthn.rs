//! Parts of WebAuthn (W3C Web Authentication Level 2) that need no cryptography: authenticator data, and public keys.
//!
//! Public keys are read from the DER that browsers give (`getPublicKey()`, section 5.2.1), so no CBOR is parsed. No
//! attestation is asked for: a person's own browser says which key is theirs, as it would say a new password.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Longest credential id, in bytes (section 4).
pub const MAX_CREDENTIAL_ID: usize = 1023;
/// Bytes before the credential data: hash, flags, counter (section 6.1).
const FIXED: usize = 37;
/// Bytes of the authenticator's model, before the length of the credential id (section 6.5.1).
const AAGUID: usize = 16;

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const CREDENTIAL_INCLUDED: u8 = 0x40;

/// What an authenticator signs (section 6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatorData {
    rp_id_hash: [u8; 32],
    flags: u8,
    /// Signatures that the authenticator has made; 0 when it does not count.
    pub sign_count: u32,
    /// Id of a new credential.
    pub credential_id: Option<Vec<u8>>,
}

impl AuthenticatorData {
    /// Reads authenticator data.
    ///
    /// # Errors
    /// `Invalid` when it is cut off.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let cut_off = || Error::invalid("The authenticator's data is cut off");
        let (fixed, rest) = bytes.split_at_checked(FIXED).ok_or_else(cut_off)?;
        let (hash, tail) = fixed.split_first_chunk::<32>().ok_or_else(cut_off)?;
        let [flags, count @ ..] = tail else { return Err(cut_off()) };
        let sign_count = u32::from_be_bytes(count.try_into().map_err(|_| cut_off())?);
        let credential_id = if flags & CREDENTIAL_INCLUDED == 0 {
            None
        } else {
            let (_, rest) = rest.split_at_checked(AAGUID).ok_or_else(cut_off)?;
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut_off)?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (id, _key) = rest.split_at_checked(length).ok_or_else(cut_off)?;
            Some(id.to_vec())
        };
        Ok(Self { rp_id_hash: *hash, flags: *flags, sign_count, credential_id })
    }

    /// Checks that the data is for this service, and that the authenticator verified the person, by a PIN or a
    /// finger. So a passkey is two factors: the device, and what unlocks it.
    ///
    /// # Errors
    /// `Invalid` with the reason.
    pub fn check(&self, rp_id: &str) -> Result<()> {
        if self.rp_id_hash != <[u8; 32]>::from(Sha256::digest(rp_id.as_bytes())) {
            return Err(Error::invalid("The passkey is for another site"));
        }
        if self.flags & (USER_PRESENT | USER_VERIFIED) != USER_PRESENT | USER_VERIFIED {
            return Err(Error::invalid(
                "The passkey's device did not verify you by a PIN, a finger or a face",
            ));
        }
        Ok(())
    }
}

/// Public key of a passkey, as libraries take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasskeyPublicKey<'a> {
    /// ES256: an uncompressed point on P-256.
    P256(&'a [u8]),
    /// RS256: an `RSAPublicKey` (RFC 8017 appendix A.1.1).
    Rsa(&'a [u8]),
}

/// Algorithm identifiers of a `SubjectPublicKeyInfo`: `id-ecPublicKey` with `prime256v1` (RFC 5480), and
/// `rsaEncryption` (RFC 3279).
const P256: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const RSA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

impl<'a> PasskeyPublicKey<'a> {
    /// Reads a DER `SubjectPublicKeyInfo` (RFC 5280 section 4.1).
    ///
    /// # Errors
    /// `Invalid` for malformed DER and for other kinds of keys.
    pub fn parse(der: &'a [u8]) -> Result<Self> {
        let wrong = || Error::invalid("The passkey's kind of key is not supported: ES256 and RS256 are");
        let (info, rest) = element(der, SEQUENCE).ok_or_else(wrong)?;
        let (algorithm, key) = element(info, SEQUENCE).ok_or_else(wrong)?;
        let (bits, behind) = element(key, BIT_STRING).ok_or_else(wrong)?;
        // The first byte of a bit string is the number of unused bits.
        let (0, key) = bits.split_first().map(|(unused, key)| (*unused, key)).ok_or_else(wrong)? else {
            return Err(wrong());
        };
        if !rest.is_empty() || !behind.is_empty() {
            return Err(wrong());
        }
        match algorithm {
            P256 if key.len() == 65 && key[0] == 4 => Ok(Self::P256(key)),
            RSA => Ok(Self::Rsa(key)),
            _ => Err(wrong()),
        }
    }
}

/// Splits a DER element of this tag off: its content, and what follows. Lengths beyond 65,535 do not occur in keys.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match der {
        [first, length @ 0..=0x7f, rest @ ..] if *first == tag => (usize::from(*length), rest),
        [first, 0x81, length, rest @ ..] if *first == tag => (usize::from(*length), rest),
        [first, 0x82, high, low, rest @ ..] if *first == tag => {
            (usize::from(u16::from_be_bytes([*high, *low])), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// Whether the counter of an authenticator may follow the stored one. A counter that does not grow is a sign of a
/// copied authenticator; many do not count, and always say 0 (section 6.1.1).
pub fn may_follow(stored: u32, counted: u32) -> bool {
    counted > stored || (counted, stored) == (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(rp_id: &str, flags: u8, rest: &[u8]) -> Vec<u8> {
        [&Sha256::digest(rp_id)[..], &[flags, 0, 0, 1, 2], rest].concat()
    }

    #[test]
    fn authenticator_data_is_for_one_site_and_a_verified_person() {
        for (rp_id, flags, ok) in [
            ("desk.example", 0x05, true),
            ("desk.example", 0x1d, true),
            ("desk.example", 0x01, false),
            ("desk.example", 0x04, false),
            ("evil.example", 0x05, false),
        ] {
            let read = AuthenticatorData::parse(&data(rp_id, flags, &[])).unwrap();
            assert_eq!(read.check("desk.example").is_ok(), ok, "{rp_id} {flags}");
            assert_eq!((read.sign_count, read.credential_id), (258, None));
        }
    }

    #[test]
    fn a_new_credential_s_id_is_read_and_nothing_beyond_the_end() {
        let credential = [&[9; AAGUID][..], &[0, 3], b"abc", b"a key in CBOR"].concat();
        let whole = data("desk.example", 0x45, &credential);
        let read = AuthenticatorData::parse(&whole).unwrap();
        assert_eq!(read.credential_id.as_deref(), Some(&b"abc"[..]));
        for end in 0..FIXED + AAGUID + 2 + 3 {
            assert!(AuthenticatorData::parse(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn keys_of_two_kinds_are_read() {
        let wrap = |tag: u8, content: &[u8]| match u8::try_from(content.len()) {
            Ok(length @ 0..=0x7f) => [&[tag, length], content].concat(),
            Ok(length) => [&[tag, 0x81, length], content].concat(),
            Err(_) => {
                [&[tag, 0x82], &u16::try_from(content.len()).unwrap().to_be_bytes()[..], content].concat()
            }
        };
        let info = |algorithm: &[u8], key: &[u8]| {
            let bits = wrap(BIT_STRING, &[&[0], key].concat());
            wrap(SEQUENCE, &[wrap(SEQUENCE, algorithm), bits].concat())
        };
        let point = [&[4][..], &[7; 64]].concat();
        assert_eq!(PasskeyPublicKey::parse(&info(P256, &point)).unwrap(), PasskeyPublicKey::P256(&point));
        for length in [100, 200, 526] {
            let key = vec![5; length];
            assert_eq!(PasskeyPublicKey::parse(&info(RSA, &key)).unwrap(), PasskeyPublicKey::Rsa(&key));
        }
        let whole = info(P256, &point);
        let compressed = info(P256, &[&[2][..], &[7; 32]].concat());
        let other = info(&[6, 3, 0x2b, 0x65, 0x70], &[7; 32]);
        for wrong in [&whole[..whole.len() - 1], &[&whole[..], &[0]].concat(), &compressed, &other, b"", b"0"]
        {
            assert!(PasskeyPublicKey::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_counter_grows_or_stays_zero() {
        for (stored, counted, ok) in
            [(0, 0, true), (0, 1, true), (5, 6, true), (5, 5, false), (5, 4, false), (5, 0, false)]
        {
            assert_eq!(may_follow(stored, counted), ok, "{stored} {counted}");
        }
    }
}
