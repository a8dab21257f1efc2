//! Verification of what a browser says about a passkey (WebAuthn Level 2, sections 7.1 and 7.2).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::webauthn::{AuthenticatorData, MAX_CREDENTIAL_ID, PasskeyPublicKey};

/// What an answer must be about.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedCeremony<'a> {
    /// The challenge of this browser.
    pub challenge: &'a Secret,
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

/// What the browser signed over (section 5.8.1).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
}

impl NewCredential {
    /// Checks a registration. Returns the authenticator's counter.
    ///
    /// # Errors
    /// `Invalid` with the reason.
    pub fn verify(&self, expected: &ExpectedCeremony<'_>) -> Result<u32> {
        check_client_data(&decode(&self.client_data)?, "webauthn.create", expected)?;
        let data = AuthenticatorData::parse(&decode(&self.authenticator_data)?)?;
        data.check(expected.rp_id)?;
        let id = decode(&self.id)?;
        if id.is_empty() || id.len() > MAX_CREDENTIAL_ID || data.credential_id.as_ref() != Some(&id) {
            return Err(Error::invalid("The browser names another passkey than its device"));
        }
        PasskeyPublicKey::parse(&decode(&self.public_key)?)?;
        Ok(data.sign_count)
    }
}

impl Assertion {
    /// Checks a sign-in by the passkey's public key. Returns the authenticator's counter.
    ///
    /// # Errors
    /// `Invalid` with the reason.
    pub fn verify(&self, public_key: &str, expected: &ExpectedCeremony<'_>) -> Result<u32> {
        let client_data = decode(&self.client_data)?;
        check_client_data(&client_data, "webauthn.get", expected)?;
        let data = decode(&self.authenticator_data)?;
        let read = AuthenticatorData::parse(&data)?;
        read.check(expected.rp_id)?;
        let signed = [&data[..], &Sha256::digest(&client_data)].concat();
        let (key, signature) = (decode(public_key)?, decode(&self.signature)?);
        let verified = match PasskeyPublicKey::parse(&key)? {
            PasskeyPublicKey::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(&signed, &signature)
            }
            PasskeyPublicKey::Rsa(key) => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).verify(&signed, &signature)
            }
        };
        verified.map_err(|_| Error::invalid("The passkey's signature is not right"))?;
        Ok(read.sign_count)
    }
}

fn check_client_data(bytes: &[u8], kind: &str, expected: &ExpectedCeremony<'_>) -> Result<()> {
    let data: ClientData = serde_json::from_slice(bytes).map_err(|_| malformed())?;
    if data.r#type != kind || data.cross_origin || data.origin != expected.origin {
        return Err(Error::invalid("The passkey was used on another site"));
    }
    // The browser encodes the challenge's bytes.
    if !expected.challenge.matches(&String::from_utf8(decode(&data.challenge)?).map_err(|_| malformed())?) {
        return Err(Error::invalid("The passkey answers another request: try again"));
    }
    Ok(())
}

fn decode(text: &str) -> Result<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())
}

fn malformed() -> Error {
    Error::invalid("The browser's answer is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::{Value, json};

    const ORIGIN: &str = "https://desk.example";

    fn text(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
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

        fn public_key(&self) -> String {
            let head =
                [0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48];
            let tail = [0xce, 0x3d, 3, 1, 7, 3, 0x42, 0];
            text(&[&head[..], &tail, self.pair.public_key().as_ref()].concat())
        }

        fn data(rp_id: &str, flags: u8) -> Vec<u8> {
            [&Sha256::digest(rp_id)[..], &[flags, 0, 0, 0, 7]].concat()
        }

        fn sign(&self, client_data: &Value, data: &[u8]) -> Assertion {
            let client_data = client_data.to_string();
            let signed = [data, &Sha256::digest(&client_data)].concat();
            let signature = self.pair.sign(&self.random, &signed).unwrap();
            Assertion {
                id: text(b"id"),
                client_data: text(client_data.as_bytes()),
                authenticator_data: text(data),
                signature: text(signature.as_ref()),
                user: String::new(),
            }
        }
    }

    fn client_data(kind: &str) -> Value {
        json!({"type": kind, "challenge": text(b"once"), "origin": ORIGIN, "crossOrigin": false})
    }

    fn changed(name: &str, value: Value) -> Value {
        let mut data = client_data("webauthn.get");
        data[name] = value;
        data
    }

    #[test]
    fn a86_a_sign_in_is_verified_in_every_part() {
        let (own, other) = (Authenticator::new(), Authenticator::new());
        let challenge = Secret::new("once");
        let expected = ExpectedCeremony { challenge: &challenge, origin: ORIGIN, rp_id: "desk.example" };
        let (right, data) = (client_data("webauthn.get"), Authenticator::data("desk.example", 5));
        assert_eq!(own.sign(&right, &data).verify(&own.public_key(), &expected).unwrap(), 7);
        for (client_data, data, why) in [
            (changed("type", json!("webauthn.create")), data.clone(), "another site"),
            (changed("origin", json!("https://evil.example")), data.clone(), "another site"),
            (changed("origin", json!("http://desk.example")), data.clone(), "another site"),
            (changed("crossOrigin", json!(true)), data.clone(), "another site"),
            (changed("challenge", json!(text(b"twice"))), data.clone(), "another request"),
            (changed("challenge", Value::Null), data.clone(), "malformed"),
            (right.clone(), Authenticator::data("evil.example", 5), "for another site"),
            (right.clone(), Authenticator::data("desk.example", 1), "did not verify you"),
            (right.clone(), data[..36].to_vec(), "cut off"),
        ] {
            let refused = own.sign(&client_data, &data).verify(&own.public_key(), &expected).unwrap_err();
            assert!(refused.message.contains(why), "{why}: {}", refused.message);
        }
        let not_right = own.sign(&right, &data).verify(&other.public_key(), &expected).unwrap_err();
        assert!(not_right.message.contains("signature"), "{}", not_right.message);
        let mut later = own.sign(&right, &data);
        later.authenticator_data = text(&[&Sha256::digest("desk.example")[..], &[5, 0, 0, 0, 8]].concat());
        assert!(later.verify(&own.public_key(), &expected).is_err(), "the counter is signed");
    }

    #[test]
    fn a86_a_registration_names_the_credential_of_its_device() {
        let challenge = Secret::new("once");
        let expected = ExpectedCeremony { challenge: &challenge, origin: ORIGIN, rp_id: "desk.example" };
        let attested = [&[0; 16][..], &[0, 2], b"id", b"a key"].concat();
        let data = [&Sha256::digest("desk.example")[..], &[0x45, 0, 0, 0, 0], &attested].concat();
        let new = |id: &[u8], kind: &str, public_key: &str| NewCredential {
            id: text(id),
            client_data: text(client_data(kind).to_string().as_bytes()),
            authenticator_data: text(&data),
            public_key: public_key.to_owned(),
        };
        let key = Authenticator::new().public_key();
        assert_eq!(new(b"id", "webauthn.create", &key).verify(&expected).unwrap(), 0);
        for (id, kind, key, why) in [
            (&b"other"[..], "webauthn.create", &*key, "another passkey"),
            (b"id", "webauthn.get", &key, "another site"),
            (b"id", "webauthn.create", "AAAA", "not supported"),
            (b"id", "webauthn.create", "!", "malformed"),
        ] {
            let refused = new(id, kind, key).verify(&expected).unwrap_err();
            assert!(refused.message.contains(why), "{why}: {}", refused.message);
        }
    }
}
