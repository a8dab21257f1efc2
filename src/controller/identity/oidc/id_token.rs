//! Verification of ID tokens (OpenID Connect Core 1.0 section 3.1.3.7): signature, issuer, audience, time, nonce.
//!
//! Only RS256 and ES256 are accepted, by the keys that the provider publishes. The algorithm comes from this table
//! and must fit the key's type, so a token cannot choose `none` or a MAC with a public key (RFC 8725 section 3.1).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use hotdesk_base::secret::Secret;

/// Seconds that the clocks of provider and service may differ.
const SKEW_SECONDS: f64 = 60.0;
/// Longest `sub`, in characters (OpenID Connect Core section 2).
const MAX_SUBJECT: usize = 255;

/// What a token must say.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedToken<'a> {
    /// Issuer, as configured.
    pub issuer: &'a str,
    /// Id of this service at the provider.
    pub client_id: &'a str,
    /// Value that this browser's request had.
    pub nonce: &'a Secret,
    /// Seconds since 1970.
    pub now: i64,
}

/// Claims of a verified token that the sign-in uses.
#[derive(Clone, Debug, Deserialize)]
pub struct Claims {
    /// The provider's id of the person.
    pub sub: String,
    /// Address of the person.
    #[serde(default)]
    pub email: Option<String>,
    /// Whether the provider has verified the address. Some send the text `true`.
    #[serde(default)]
    pub email_verified: Value,
}

impl Claims {
    /// Returns the address if the provider has verified it.
    pub fn verified_email(&self) -> Option<&str> {
        let verified = self.email_verified == Value::Bool(true) || self.email_verified == "true";
        self.email.as_deref().filter(|_| verified)
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that a reader must understand (RFC 7515 section 4.1.11). None is.
    #[serde(default)]
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct TokenClaims {
    iss: String,
    aud: Audience,
    #[serde(default)]
    azp: Option<String>,
    exp: f64,
    iat: f64,
    nonce: String,
    #[serde(flatten)]
    person: Claims,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Keys that a provider publishes (RFC 7517).
#[derive(Clone, Debug, Deserialize)]
pub struct KeySet {
    /// Keys of any kind. Those that this service does not understand are passed over.
    keys: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "kty")]
enum Key {
    #[serde(rename = "RSA")]
    Rsa { n: String, e: String },
    #[serde(rename = "EC")]
    Ec { crv: String, x: String, y: String },
}

/// Verifies a token.
///
/// # Errors
/// The reason, for the log; it has no part of the token.
pub fn verify(token: &str, keys: &KeySet, expected: &ExpectedToken<'_>) -> Result<Claims, &'static str> {
    let (signed, signature) = token.rsplit_once('.').ok_or("it is no JWS")?;
    let (header, payload) = signed.split_once('.').ok_or("it is no JWS")?;
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| "its header is malformed")?;
    if header.crit.is_some() {
        return Err("it has an extension that is not understood");
    }
    let signature = decode(signature)?;
    let candidates = keys.keys.iter().filter(|key| may_verify(key, header.kid.as_deref()));
    let candidates = candidates.filter_map(|key| serde_json::from_value(key.clone()).ok());
    if !candidates.into_iter().any(|key: Key| key.verifies(&header.alg, signed.as_bytes(), &signature)) {
        return Err("no key of the provider verifies its signature");
    }
    let claims: TokenClaims =
        serde_json::from_slice(&decode(payload)?).map_err(|_| "a claim is missing or malformed")?;
    check(&claims, expected)?;
    Ok(claims.person)
}

fn check(claims: &TokenClaims, expected: &ExpectedToken<'_>) -> Result<(), &'static str> {
    let audiences = match &claims.aud {
        Audience::One(one) => std::slice::from_ref(one),
        Audience::Many(many) => many.as_slice(),
    };
    let now = expected.now as f64;
    if claims.iss != expected.issuer {
        return Err("it has another issuer");
    }
    if !audiences.iter().any(|audience| audience == expected.client_id) {
        return Err("it is for another client");
    }
    if audiences.len() > 1 && claims.azp.is_none()
        || claims.azp.as_deref().is_some_and(|party| party != expected.client_id)
    {
        return Err("it was issued to another client");
    }
    if now >= claims.exp + SKEW_SECONDS {
        return Err("it has expired");
    }
    if claims.iat > now + SKEW_SECONDS {
        return Err("it is from the future");
    }
    if !expected.nonce.matches(&claims.nonce) {
        return Err("it answers another request");
    }
    let subject = &claims.person.sub;
    if subject.is_empty() || subject.chars().count() > MAX_SUBJECT {
        return Err("its subject is empty or too long");
    }
    Ok(())
}

/// Whether a published key is for signatures, and is the one that the token names, if it names one.
fn may_verify(key: &Value, kid: Option<&str>) -> bool {
    let is_for_signatures = key["use"].is_null() || key["use"] == "sig";
    is_for_signatures && kid.is_none_or(|kid| key["kid"] == kid)
}

impl Key {
    fn verifies(&self, alg: &str, signed: &[u8], signature: &[u8]) -> bool {
        match (self, alg) {
            (Self::Rsa { n, e }, "RS256") => {
                let (Ok(n), Ok(e)) = (decode(n), decode(e)) else { return false };
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            (Self::Ec { crv, x, y }, "ES256") if crv == "P-256" => {
                let (Ok(x), Ok(y)) = (decode(x), decode(y)) else { return false };
                // An uncompressed point (SEC 1 section 2.3.3).
                let point = [&[4][..], &x, &y].concat();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
            _ => false,
        }
    }
}

fn decode(text: &str) -> Result<Vec<u8>, &'static str> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| "it is not base64url")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    const ISSUER: &str = "https://id.example.org";
    const NOW: i64 = 1_800_000_000;

    struct Signer {
        pair: EcdsaKeyPair,
        random: SystemRandom,
    }

    impl Signer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
            Self { pair: pair.unwrap(), random }
        }

        fn key(&self, kid: &str) -> Value {
            let point = self.pair.public_key().as_ref();
            let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": text(&point[1..33]), "y": text(&point[33..])})
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let signed = format!("{}.{}", part(header), part(claims));
            let signature = self.pair.sign(&self.random, signed.as_bytes()).unwrap();
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        }
    }

    fn claims() -> Value {
        json!({"iss": ISSUER, "sub": "7", "aud": "desk", "exp": NOW + 300, "iat": NOW, "nonce": "n",
            "email": "ada@x.example", "email_verified": true})
    }

    fn verified(token: &str, keys: &[Value]) -> Result<Claims, &'static str> {
        let expected =
            ExpectedToken { issuer: ISSUER, client_id: "desk", nonce: &Secret::new("n"), now: NOW };
        verify(token, &KeySet { keys: keys.to_vec() }, &expected)
    }

    #[test]
    fn a84_every_claim_of_a_token_is_checked() {
        let signer = Signer::new();
        let keys = [json!({"kty": "oct", "k": "AA"}), signer.key("other"), signer.key("k")];
        let header = json!({"alg": "ES256", "kid": "k"});
        let changed = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            verified(&signer.sign(&header, &claims), &keys).map(|claims| claims.sub)
        };
        let fine = Ok("7".to_owned());
        for (name, value, result) in [
            ("sub", json!("7"), fine.clone()),
            ("aud", json!(["desk"]), fine.clone()),
            ("azp", json!("desk"), fine.clone()),
            ("exp", json!(NOW - 59), fine.clone()),
            ("iat", json!(NOW + 59), fine),
            ("iss", json!("https://id.example.org/"), Err("it has another issuer")),
            ("aud", json!("other"), Err("it is for another client")),
            ("aud", json!(["desk", "other"]), Err("it was issued to another client")),
            ("azp", json!("other"), Err("it was issued to another client")),
            ("exp", json!(NOW - 60), Err("it has expired")),
            ("iat", json!(NOW + 61), Err("it is from the future")),
            ("nonce", json!("m"), Err("it answers another request")),
            ("nonce", Value::Null, Err("a claim is missing or malformed")),
            ("sub", json!(""), Err("its subject is empty or too long")),
            ("sub", json!("x".repeat(256)), Err("its subject is empty or too long")),
            ("sub", Value::Null, Err("a claim is missing or malformed")),
        ] {
            assert_eq!(changed(name, value.clone()), result, "{name} {value}");
        }
    }

    #[test]
    fn a84_a_token_is_verified_by_the_provider_s_keys_alone() {
        let (signer, stranger) = (Signer::new(), Signer::new());
        let keys = [signer.key("k")];
        let unsigned = "no key of the provider verifies its signature";
        let token = signer.sign(&json!({"alg": "ES256", "kid": "k"}), &claims());
        assert!(verified(&token, &keys).is_ok());
        assert!(verified(&signer.sign(&json!({"alg": "ES256"}), &claims()), &keys).is_ok(), "without a kid");
        for (token, keys, why) in [
            (stranger.sign(&json!({"alg": "ES256", "kid": "k"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "ES256", "kid": "l"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "none"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "HS256"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "RS256"}), &claims()), keys.to_vec(), unsigned),
            (token.clone(), Vec::new(), unsigned),
            (format!("{}.", token.rsplit_once('.').unwrap().0), keys.to_vec(), unsigned),
            (
                signer.sign(&json!({"alg": "ES256", "crit": ["b64"]}), &claims()),
                keys.to_vec(),
                "it has an extension that is not understood",
            ),
            ("a.b".to_owned(), keys.to_vec(), "it is no JWS"),
            ("!.b.c".to_owned(), keys.to_vec(), "it is not base64url"),
        ] {
            assert_eq!(verified(&token, &keys).map(|claims| claims.sub), Err(why), "{token}");
        }
        let mut encryption = signer.key("k");
        encryption["use"] = json!("enc");
        assert!(verified(&token, &[encryption]).is_err());
    }

    #[test]
    fn an_address_counts_only_when_it_is_verified() {
        for (verified, counts) in [
            (json!(true), true),
            (json!("true"), true),
            (json!(false), false),
            (json!(1), false),
            (Value::Null, false),
        ] {
            let claims = Claims {
                sub: "7".to_owned(),
                email: Some("a@x".to_owned()),
                email_verified: verified.clone(),
            };
            assert_eq!(claims.verified_email().is_some(), counts, "{verified}");
        }
    }
}
