//! Public keys of passkeys: DER, as browsers give them and the store holds them, as COSE, which `passki` reads.

use std::collections::BTreeMap;

use ciborium::Value;
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

use hotdesk_domain::error::{Error, Result};

/// `id-ecPublicKey` and `prime256v1` (RFC 5480).
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// `rsaEncryption` (RFC 3279).
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// Bytes of a coordinate on P-256.
const COORDINATE: usize = 32;

/// Labels and values of COSE keys: RFC 9052 section 7.1, RFC 9053 section 7.1.1, RFC 8230 section 4.
const KEY_TYPE: i64 = 1;
const EC2_TYPE: i64 = 2;
const RSA_TYPE: i64 = 3;
const ALGORITHM: i64 = 3;
const EC2_CURVE: i64 = -1;
const EC2_P256: i64 = 1;
const EC2_X: i64 = -2;
const EC2_Y: i64 = -3;
const RSA_MODULUS: i64 = -1;
const RSA_EXPONENT: i64 = -2;
/// ECDSA on P-256 with SHA-256 (RFC 9053 section 2.1).
const ES256: i32 = -7;
/// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8812 section 2).
const RS256: i32 = -257;

/// Public key of a kind that this service offers.
#[derive(Clone, Debug, PartialEq)]
pub struct PasskeyPublicKey {
    /// Number of the algorithm (RFC 9052 section 3.1): ES256 or RS256.
    pub algorithm: i32,
    parameters: BTreeMap<i64, Value>,
}

impl PasskeyPublicKey {
    /// Reads a DER `SubjectPublicKeyInfo` (RFC 5280 section 4.1).
    ///
    /// # Errors
    /// `Invalid` for malformed DER and for other kinds of keys than ES256 and RS256.
    pub fn from_der(der: &[u8]) -> Result<Self> {
        Self::read(der)
            .ok_or_else(|| Error::invalid("The passkey's kind of key is not supported: ES256 and RS256 are"))
    }

    fn read(der: &[u8]) -> Option<Self> {
        let info = SubjectPublicKeyInfoRef::try_from(der).ok()?;
        let key = info.subject_public_key.as_bytes()?;
        if info.algorithm.assert_oids(EC, P256).is_ok() {
            // An uncompressed point (SEC 1 section 2.3.3).
            let ([4], point) = key.split_at_checked(1)? else { return None };
            let (x, y) = point.split_at_checked(COORDINATE)?;
            let coordinates = [(EC2_CURVE, EC2_P256.into()), (EC2_X, x.into()), (EC2_Y, y.into())];
            return (y.len() == COORDINATE).then(|| Self::new(EC2_TYPE, ES256, coordinates));
        }
        info.algorithm.assert_algorithm_oid(RSA).ok()?;
        let key = pkcs1::RsaPublicKeyRef::try_from(key).ok()?;
        let numbers = [
            (RSA_MODULUS, key.modulus.as_bytes().into()),
            (RSA_EXPONENT, key.public_exponent.as_bytes().into()),
        ];
        Some(Self::new(RSA_TYPE, RS256, numbers))
    }

    fn new(key_type: i64, algorithm: i32, parameters: impl IntoIterator<Item = (i64, Value)>) -> Self {
        let common = [(KEY_TYPE, key_type.into()), (ALGORITHM, algorithm.into())];
        Self { algorithm, parameters: common.into_iter().chain(parameters).collect() }
    }

    /// Whether a COSE key is this key.
    pub fn is(&self, cose: &[u8]) -> bool {
        ciborium::from_reader(cose)
            .is_ok_and(|parameters: BTreeMap<i64, Value>| parameters == self.parameters)
    }

    /// Returns the COSE key.
    ///
    /// # Errors
    /// `Internal`, which does not happen.
    pub fn to_cose(&self) -> Result<Vec<u8>> {
        let mut cose = Vec::new();
        ciborium::into_writer(&self.parameters, &mut cose).map_err(Error::internal)?;
        Ok(cose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spki::der::Encode;
    use spki::der::asn1::{AnyRef, BitStringRef, UintRef};

    fn der(algorithm: ObjectIdentifier, parameters: Option<AnyRef<'_>>, key: &[u8]) -> Vec<u8> {
        let algorithm = spki::AlgorithmIdentifierRef { oid: algorithm, parameters };
        let subject_public_key = BitStringRef::from_bytes(key).expect("bytes");
        SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().expect("DER")
    }

    #[test]
    fn keys_of_two_kinds_are_read() {
        let curve = Some(AnyRef::from(&P256));
        let point = [&[4][..], &[7; 32], &[8; 32]].concat();
        let elliptic = PasskeyPublicKey::from_der(&der(EC, curve, &point)).expect("a key");
        assert_eq!(elliptic.algorithm, ES256);
        // The order of CTAP2, in which authenticators write keys.
        let cose =
            [&[0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32][..], &[7; 32], &[0x22, 0x58, 32], &[8; 32]]
                .concat();
        assert!(elliptic.is(&cose) && elliptic.is(&elliptic.to_cose().expect("CBOR")));
        for length in [256, 512] {
            let mut modulus = vec![0xc5; length];
            let number = |bytes| UintRef::new(bytes).expect("a number");
            let numbers =
                pkcs1::RsaPublicKey { modulus: number(&modulus), public_exponent: number(&[1, 0, 1]) };
            let key = der(RSA, Some(AnyRef::NULL), &numbers.to_der().expect("DER"));
            let key = PasskeyPublicKey::from_der(&key).expect("a key");
            assert_eq!(key.algorithm, RS256);
            let size = u16::try_from(length).expect("a size").to_be_bytes();
            let head = [&[0xa4, 1, 3, 3, 0x39, 1, 0, 0x20, 0x59][..], &size].concat();
            let cose = |modulus: &[u8]| [&head, modulus, &[0x21, 0x43, 1, 0, 1]].concat();
            assert!(key.is(&cose(&modulus)));
            modulus[9] = 0;
            assert!(!key.is(&cose(&modulus)), "another modulus");
        }
    }

    #[test]
    fn other_kinds_of_keys_are_refused() {
        let curve = Some(AnyRef::from(&P256));
        let point = [&[4][..], &[7; 64]].concat();
        let whole = der(EC, curve, &point);
        let other = ObjectIdentifier::new_unwrap("1.3.101.112");
        for (wrong, why) in [
            (whole[..whole.len() - 1].to_vec(), "cut off"),
            ([&whole[..], &[0]].concat(), "bytes behind it"),
            (der(EC, curve, &[&[2][..], &[7; 32]].concat()), "a compressed point"),
            (der(EC, curve, &point[..64]), "a short point"),
            (der(EC, Some(AnyRef::from(&other)), &point), "another curve"),
            (der(other, None, &[7; 32]), "Ed25519"),
            (der(RSA, Some(AnyRef::NULL), &point), "no RSA key"),
            (Vec::new(), "nothing"),
        ] {
            assert!(PasskeyPublicKey::from_der(&wrong).is_err(), "{why}");
        }
    }
}
