//! Verification of what a browser says about a passkey (WebAuthn Level 2, sections 7.1 and 7.2), by `passki`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::{Value, cbor};
use passki::{
    AuthenticationOptions, Passki, PasskiError, RegistrationOptions, StoredPasskey,
    UserVerificationRequirement,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::public_key::PasskeyPublicKey;
use hotdesk_domain::error::{Error, Result};

/// Longest credential id, in bytes (WebAuthn Level 2 section 4).
const MAX_CREDENTIAL_ID: usize = 1023;
/// Stand-in for the person in a registration that is verified: the crate wants 16 bytes, and compares them with nothing.
const ANY_PERSON: [u8; 16] = [0; 16];

/// Values that an answer must match.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedCeremony<'a> {
    /// The challenge of this browser: the bytes that the browser encodes.
    pub challenge: &'a [u8],
    /// Origin of the service's pages.
    pub origin: &'a str,
    /// Host name for which passkeys are made.
    pub rp_id: &'a str,
}

/// A new passkey, as the form has it. All values are in base64url.
#[derive(Clone, Debug, Deserialize)]
pub struct NewCredential {
    /// Id of the credential.
    pub id: String,
    client_data: String,
    authenticator_data: String,
    /// DER `SubjectPublicKeyInfo`.
    pub public_key: String,
}

/// A signature of a passkey, as the form has it. All values are in base64url.
#[derive(Clone, Debug, Deserialize)]
pub struct Assertion {
    /// Id of the credential.
    pub id: String,
    client_data: String,
    authenticator_data: String,
    signature: String,
    /// Account that the passkey names.
    #[serde(default)]
    pub user: String,
}

impl ExpectedCeremony<'_> {
    /// Returns the crate's side of the ceremony. It takes the challenge of this service in place of its own, which
    /// would have to be stored for everybody who opens the page.
    fn relying_party(&self) -> (Passki, Vec<u8>) {
        (Passki::new(self.rp_id, &[self.origin], ""), self.challenge.to_vec())
    }
}

impl NewCredential {
    /// Checks a registration. Returns the authenticator's counter.
    ///
    /// # Errors
    /// `Invalid` with the reason.
    pub fn verify(&self, expected: &ExpectedCeremony<'_>) -> Result<u32> {
        let (relying_party, challenge) = expected.relying_party();
        let mut options = RegistrationOptions::default();
        options.user_verification = UserVerificationRequirement::Required;
        let started = relying_party.start_passkey_registration(&ANY_PERSON, "", "", options);
        let (_, mut state) = started.map_err(Error::internal)?;
        state.challenge = challenge;
        let credential = from_browser(json!({
            "rawId": self.id,
            "response": {
                "clientDataJSON": self.client_data,
                "attestationObject": unattested(&decode(&self.authenticator_data)?)?,
            },
        }))?;
        let made = relying_party
            .finish_passkey_registration(&credential, &state)
            .map_err(|error| refused(&error))?;
        if made.credential_id.is_empty() || made.credential_id.len() > MAX_CREDENTIAL_ID {
            return Err(malformed());
        }
        if !PasskeyPublicKey::from_der(&decode(&self.public_key)?)?.is(&made.public_key) {
            return Err(Error::invalid("The browser names another key than its device"));
        }
        Ok(made.counter)
    }
}

impl Assertion {
    /// Checks a sign-in by the stored public key and counter of the passkey. Returns the authenticator's counter.
    ///
    /// # Errors
    /// `Invalid` with the reason.
    pub fn verify(&self, public_key: &str, sign_count: u32, expected: &ExpectedCeremony<'_>) -> Result<u32> {
        let (relying_party, challenge) = expected.relying_party();
        let mut options = AuthenticationOptions::default();
        options.user_verification = UserVerificationRequirement::Required;
        // No list of passkeys: the caller has found the one that the browser names.
        let started = relying_party.start_passkey_authentication(&[], options);
        let (_, mut state) = started.map_err(Error::internal)?;
        state.challenge = challenge;
        let key = PasskeyPublicKey::from_der(&decode(public_key)?)?;
        let mut stored = StoredPasskey::default();
        stored.algorithm = key.algorithm;
        stored.public_key = key.to_cose()?;
        stored.counter = sign_count;
        let credential = from_browser(json!({
            "rawId": self.id,
            "response": {
                "clientDataJSON": self.client_data,
                "authenticatorData": self.authenticator_data,
                "signature": self.signature,
            },
        }))?;
        relying_party
            .finish_passkey_authentication(&credential, &state, &stored)
            .map(|result| result.counter)
            .map_err(|error| refused(&error))
    }
}

/// A counter that does not grow is a sign of a copied authenticator (WebAuthn Level 2 section 6.1.1).
pub fn counter_did_not_grow() -> Error {
    Error::invalid(
        "The counter of this passkey did not grow, so there may be a copy of it. Sign in in another way, \
         and remove it.",
    )
}

/// The crate's types are read from the JSON of browsers alone, so that it can add fields.
fn from_browser<T: DeserializeOwned>(credential: serde_json::Value) -> Result<T> {
    serde_json::from_value(credential).map_err(Error::internal)
}

/// Returns the attestation object of authenticator data, without a statement (WebAuthn Level 2 section 8.7). None is
/// asked for: a person's own browser says which key is theirs, as it would say a new password.
fn unattested(authenticator_data: &[u8]) -> Result<String> {
    let data = Value::from(authenticator_data);
    let object = cbor!({"fmt" => "none", "attStmt" => {}, "authData" => data}).map_err(Error::internal)?;
    let mut bytes = Vec::new();
    ciborium::into_writer(&object, &mut bytes).map_err(Error::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn decode(text: &str) -> Result<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())
}

#[allow(clippy::wildcard_enum_match_arm)] // the crate's list of errors grows
fn refused(error: &PasskiError) -> Error {
    match error {
        PasskiError::InvalidClientDataType(_)
        | PasskiError::ClientDataTypeMismatch { .. }
        | PasskiError::OriginMismatch { .. }
        | PasskiError::CrossOriginNotAllowed => Error::invalid("The passkey was used on another site"),
        PasskiError::ChallengeMismatch => Error::invalid("The passkey answers another request: try again"),
        PasskiError::RpIdHashMismatch => Error::invalid("The passkey is for another site"),
        PasskiError::UserNotPresent | PasskiError::UserVerificationRequired => {
            Error::invalid("The passkey's device did not verify you by a PIN, a finger or a face")
        }
        PasskiError::CredentialIdMismatch => {
            Error::invalid("The browser names another passkey than its device")
        }
        PasskiError::CounterRegression => counter_did_not_grow(),
        PasskiError::SignatureVerificationFailed => Error::invalid("The passkey's signature is not right"),
        _ => malformed(),
    }
}

fn malformed() -> Error {
    Error::invalid("The browser's answer is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::passkeys::w3c_vectors;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::Value as Json;
    use sha2::{Digest, Sha256};

    const ORIGIN: &str = "https://desk.example";
    const RP_ID: &str = "desk.example";
    const EXPECTED: ExpectedCeremony<'_> =
        ExpectedCeremony { challenge: b"once", origin: ORIGIN, rp_id: RP_ID };
    /// Flags of authenticator data (WebAuthn Level 2 section 6.1).
    const PRESENT: u8 = 1;
    const VERIFIED: u8 = 4;
    const BACKED_UP: u8 = 0x10;
    const ATTESTED: u8 = 0x40;
    const EXTENDED: u8 = 0x80;
    const GOOD: u8 = PRESENT | VERIFIED;
    /// Ed25519, which this service does not offer: DER up to the key, and the COSE key up to it.
    const ED25519_DER: &[u8] = &[0x30, 42, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 33, 0];
    const ED25519_COSE: &[u8] = &[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32];

    fn text(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// DER of an uncompressed point on P-256, without its first byte.
    fn p256(point: &[u8]) -> Vec<u8> {
        let head = [0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48];
        [&head[..], &[0xce, 0x3d, 3, 1, 7, 3, 0x42, 0, 4], point].concat()
    }

    fn data(rp_id: &str, flags: u8, count: u32) -> Vec<u8> {
        [&Sha256::digest(rp_id)[..], &[flags], &count.to_be_bytes()].concat()
    }

    /// Authenticator data with a new credential.
    fn attested(rp_id: &str, flags: u8, id: &[u8], cose: &[u8]) -> Vec<u8> {
        let length = u16::try_from(id.len()).unwrap().to_be_bytes();
        [&data(rp_id, flags | ATTESTED, 3), &[0; 16][..], &length, id, cose].concat()
    }

    fn client_data(kind: &str) -> Json {
        json!({"type": kind, "challenge": text("once"), "origin": ORIGIN, "crossOrigin": false})
    }

    fn changed(kind: &str, name: &str, value: Json) -> Json {
        let mut data = client_data(kind);
        data[name] = value;
        data
    }

    /// An authenticator with one ES256 credential.
    struct Authenticator {
        pair: EcdsaKeyPair,
        random: SystemRandom,
    }

    impl Authenticator {
        fn new() -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random);
            Self { pair: pair.unwrap(), random }
        }

        fn der(&self) -> Vec<u8> {
            p256(&self.pair.public_key().as_ref()[1..])
        }

        fn cose(&self) -> Vec<u8> {
            PasskeyPublicKey::from_der(&self.der()).unwrap().to_cose().unwrap()
        }

        fn sign(&self, client_data: &Json, data: &[u8]) -> Assertion {
            let client_data = client_data.to_string();
            let signed = [data, &Sha256::digest(&client_data)].concat();
            let signature = self.pair.sign(&self.random, &signed).unwrap();
            assertion(client_data.as_bytes(), data, signature.as_ref())
        }
    }

    fn assertion(client_data: &[u8], data: &[u8], signature: &[u8]) -> Assertion {
        Assertion {
            id: text("id"),
            client_data: text(client_data),
            authenticator_data: text(data),
            signature: text(signature),
            user: String::new(),
        }
    }

    #[test]
    fn a86_a_sign_in_is_verified_in_every_part() {
        let (own, other) = (Authenticator::new(), Authenticator::new());
        let kind = "webauthn.get";
        let right = client_data(kind);
        let key = text(own.der());
        for (flags, count, stored) in
            [(GOOD, 7, 6), (GOOD, 7, 0), (GOOD, 0, 0), (GOOD | 8, 7, 6), (GOOD | 8 | BACKED_UP, 7, 6)]
        {
            let answer = own.sign(&right, &data(RP_ID, flags, count));
            assert_eq!(answer.verify(&key, stored, &EXPECTED).unwrap(), count, "{flags} {count} {stored}");
        }
        let good = data(RP_ID, GOOD, 7);
        for (client_data, data, stored, why) in [
            (changed(kind, "type", json!("webauthn.create")), good.clone(), 6, "another site"),
            (changed(kind, "type", json!("payment.get")), good.clone(), 6, "another site"),
            (changed(kind, "origin", json!("https://evil.example")), good.clone(), 6, "another site"),
            (changed(kind, "origin", json!("https://desk.example:8443")), good.clone(), 6, "another site"),
            (changed(kind, "origin", json!("https://a.desk.example")), good.clone(), 6, "another site"),
            (changed(kind, "origin", json!("http://desk.example")), good.clone(), 6, "another site"),
            (changed(kind, "origin", Json::Null), good.clone(), 6, "malformed"),
            (changed(kind, "crossOrigin", json!(true)), good.clone(), 6, "another site"),
            (changed(kind, "challenge", json!(text("twice"))), good.clone(), 6, "another request"),
            (changed(kind, "challenge", json!("")), good.clone(), 6, "another request"),
            (changed(kind, "challenge", Json::Null), good.clone(), 6, "malformed"),
            (json!("webauthn.get"), good.clone(), 6, "malformed"),
            (right.clone(), data("evil.example", GOOD, 7), 6, "for another site"),
            (right.clone(), data(RP_ID, PRESENT, 7), 6, "did not verify you"),
            (right.clone(), data(RP_ID, VERIFIED, 7), 6, "did not verify you"),
            (right.clone(), data(RP_ID, GOOD | BACKED_UP, 7), 6, "malformed"),
            (right.clone(), good[..36].to_vec(), 6, "malformed"),
            (right.clone(), good.clone(), 7, "did not grow"),
            (right.clone(), good.clone(), u32::MAX, "did not grow"),
            (right.clone(), data(RP_ID, GOOD, 0), 6, "did not grow"),
        ] {
            let refused = own.sign(&client_data, &data).verify(&key, stored, &EXPECTED).unwrap_err();
            assert!(refused.message.contains(why), "{client_data} {why}: {}", refused.message);
        }
        let answer = own.sign(&right, &good);
        let mut later = answer.clone();
        later.authenticator_data = text(data(RP_ID, GOOD, 8));
        let mut cut_off = answer.clone();
        cut_off.signature.truncate(40);
        let ed25519 = text([ED25519_DER, &[7; 32]].concat());
        for (answer, key, why) in [
            (&answer, text(other.der()), "signature is not right"),
            (&later, key.clone(), "signature is not right"),
            (&cut_off, key, "signature is not right"),
            (&answer, ed25519, "not supported"),
        ] {
            let refused = answer.verify(&key, 6, &EXPECTED).unwrap_err();
            assert!(refused.message.contains(why), "{why}: {}", refused.message);
        }
    }

    /// Made with `openssl dgst -sha256 -sign`, by a key of 2,048 bits.
    #[test]
    fn a86_a_sign_in_with_an_rs256_key_is_verified() {
        const KEY: &str = "\
            MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAoLHRkWuXycnoJCpKAWk9Hnnim3bl8_NOSpomEnk1ghjC\
            Kwx1RjQdRK3_lttAjI3Q4qsvL8VtnNFTLKtKVaWlZFESawDoN0MQE-sBaCyNL0yYRiaWrc3SOm0lMOEgCEwO_nmu\
            hDW3f_9x4BPykfW3vm-nc9Qo8Gagv79YSHc9unpt89kI1RJMwTCk_ItS429ism2n_mj0QoXE4O2_K04W27_n0gwZ\
            P-GWI3Bi0TNiaZeafH6JhNAeMkZ-KjAG89-_noXQik3ilhVnZZDXItWkrQTI5454ZzJ-aeTJAVJ-UbMINWdNTQXJ\
            QeUprv5zCqwdOV3Jproyhj6gNlQ-e43cXQIDAQAB";
        const SIGNATURE: &str = "\
            ktqvRP4Udm1787RFI4ljbDI82pwYYGmOQo0lMZXnLxZgRNvc-j6yymCYv7bu4zW58xa5nxfAxURSfXzgrufH3kFD\
            -BHBms6xbCeUqYpv_wbqIphtz0rnwIe1QYGHyG5QAEhana5x5s0bn19o2oRqaFxCeU9iDipyNtaU5wi0qMRvTNLH\
            UULyuGv-5D_LSB8NSVifsNyovlDuc4z-EhecPjMpy_CY0Nx4bZZFCmsweyD-7RWqSeBullumKQthMPRFVXBPzdis\
            Tt9Lge0NxD3kgp68h7aQZ-hcwoQrTcA9kgwKdEncuelEh3Qeds5pd-qMDuLt83facMrGtj_YP_DkgQ";
        let client_data = concat!(
            r#"{"type":"webauthn.get","challenge":"b25jZQ","#,
            r#""origin":"https://desk.example","crossOrigin":false}"#
        );
        let signature = decode(SIGNATURE).unwrap();
        let answer = assertion(client_data.as_bytes(), &data(RP_ID, GOOD, 7), &signature);
        assert_eq!(answer.verify(KEY, 6, &EXPECTED).unwrap(), 7);
        let changed = assertion(client_data.as_bytes(), &data(RP_ID, GOOD, 8), &signature);
        let refused = changed.verify(KEY, 6, &EXPECTED).unwrap_err();
        assert!(refused.message.contains("signature is not right"), "{}", refused.message);
    }

    fn registration(id: &[u8], client_data: &[u8], data: &[u8], public_key: String) -> NewCredential {
        NewCredential {
            id: text(id),
            client_data: text(client_data),
            authenticator_data: text(data),
            public_key,
        }
    }

    #[test]
    fn a86_a_registration_is_verified_in_every_part() {
        let (own, other) = (Authenticator::new(), Authenticator::new());
        let kind = "webauthn.create";
        let (right, key, cose) = (client_data(kind), text(own.der()), own.cose());
        let good = attested(RP_ID, GOOD, b"id", &cose);
        let new = |id: &[u8], client_data: &Json, data: &[u8], key: &str| {
            registration(id, client_data.to_string().as_bytes(), data, key.to_owned()).verify(&EXPECTED)
        };
        assert_eq!(new(b"id", &right, &good, &key).unwrap(), 3);
        // Chromium asks security keys for the extension `credProtect`.
        let mut extended = good.clone();
        extended[32] |= EXTENDED;
        extended.extend(b"\xa1\x6bcredProtect\x02");
        assert_eq!(new(b"id", &right, &extended, &key).unwrap(), 3);
        let longest = [9; MAX_CREDENTIAL_ID];
        assert_eq!(new(&longest, &right, &attested(RP_ID, GOOD, &longest, &cose), &key).unwrap(), 3);

        let too_long = [9; MAX_CREDENTIAL_ID + 1];
        let ed25519 = attested(RP_ID, GOOD, b"id", &[ED25519_COSE, &[7; 32]].concat());
        let ed25519_key = text([ED25519_DER, &[7; 32]].concat());
        let origin = changed(kind, "origin", json!("https://evil.example"));
        let framed = changed(kind, "crossOrigin", json!(true));
        let challenge = changed(kind, "challenge", json!(text("twice")));
        let sign_in = client_data("webauthn.get");
        let of = |rp_id, flags, id: &[u8]| attested(rp_id, flags, id, &cose);
        for (id, client_data, data, key, why) in [
            (&b"other"[..], &right, good.clone(), &*key, "another passkey"),
            (b"", &right, of(RP_ID, GOOD, b""), &key, "malformed"),
            (&too_long, &right, of(RP_ID, GOOD, &too_long), &key, "malformed"),
            (b"id", &sign_in, good.clone(), &key, "another site"),
            (b"id", &origin, good.clone(), &key, "another site"),
            (b"id", &framed, good.clone(), &key, "another site"),
            (b"id", &challenge, good.clone(), &key, "another request"),
            (b"id", &right, of("evil.example", GOOD, b"id"), &key, "for another site"),
            (b"id", &right, of(RP_ID, PRESENT, b"id"), &key, "did not verify you"),
            (b"id", &right, data(RP_ID, GOOD, 3), &key, "malformed"),
            (b"id", &right, good[..good.len() - 1].to_vec(), &key, "malformed"),
            (b"id", &right, [&good[..], &[0]].concat(), &key, "malformed"),
            (b"id", &right, good.clone(), &text(other.der()), "another key"),
            (b"id", &right, ed25519.clone(), &key, "another key"),
            (b"id", &right, ed25519, &ed25519_key, "not supported"),
            (b"id", &right, good.clone(), "AAAA", "not supported"),
            (b"id", &right, good.clone(), "!", "malformed"),
        ] {
            let refused = new(id, client_data, &data, key).unwrap_err();
            assert!(refused.message.contains(why), "{client_data} {why}: {}", refused.message);
        }
    }

    #[test]
    fn a86_the_vectors_of_the_standard_are_decided_by_its_rules() {
        let bytes = |hex: &str| hotdesk_base::hex::unhex(hex.as_bytes()).expect("hexadecimal digits");
        for vector in w3c_vectors::REGISTRATIONS {
            let (id, challenge, data) = (bytes(vector.id), bytes(vector.challenge), bytes(vector.data));
            // The COSE key ends with: label of x, 32 bytes, label of y, 32 bytes.
            let (head, y) = data.split_at(data.len() - 32);
            let point = [&head[head.len() - 35..head.len() - 3], y].concat();
            let expected = w3c_vectors::expected(&challenge);
            let new = registration(&id, &bytes(vector.client_data), &data, text(p256(&point)));
            let verified = new.verify(&expected).map_err(|error| error.message);
            match vector.refusal {
                None => assert_eq!(verified, Ok(0), "{}", vector.name),
                Some(why) => assert!(verified.unwrap_err().contains(why), "{}", vector.name),
            }
            let challenge = bytes(vector.sign_in.challenge);
            let answer = assertion(
                &bytes(vector.sign_in.client_data),
                &bytes(vector.sign_in.data),
                &bytes(vector.sign_in.signature),
            );
            let expected = w3c_vectors::expected(&challenge);
            let refused = answer.verify(&text(p256(&point)), 0, &expected).unwrap_err().message;
            assert!(refused.contains(vector.sign_in.refusal), "{}: {refused}", vector.name);
        }
    }
}
