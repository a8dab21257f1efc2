//! Verification of ID tokens (OpenID Connect Core 1.0 section 3.1.3.7).
//!
//! `jsonwebtoken` verifies signature, issuer, audience and expiry. What only ID tokens have is checked here: the party
//! to which the token was issued, its age, the nonce and the subject.
//!
//! Only RS256 and ES256 are accepted, by the keys that the provider publishes. The key decides about the algorithm, so
//! a token cannot choose `none` or a MAC with a public key (RFC 8725 section 3.1).

use std::fmt;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::Value;

use super::signature;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;

/// Seconds that the clocks of provider and service may differ.
const SKEW_SECONDS: u32 = 60;
/// Longest `sub`, in characters (OpenID Connect Core section 2).
const MAX_SUBJECT: usize = 255;

/// Refusal of a token. The text has no part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedToken(&'static str);

impl fmt::Display for RefusedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for RefusedToken {}

/// Values that a token must have.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedToken<'a> {
    /// Issuer, as configured.
    pub issuer: &'a str,
    /// Id of this service at the provider.
    pub client_id: &'a str,
    /// Value that this browser's request had.
    pub nonce: &'a Secret,
    /// The time, for the age. The expiry is compared with the system's clock.
    pub now: UnixMillis,
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
struct TokenClaims {
    /// One text. The validation of the crate accepts lists too.
    #[serde(rename = "iss")]
    _issuer: String,
    aud: Value,
    #[serde(default)]
    azp: Option<String>,
    iat: f64,
    nonce: String,
    #[serde(flatten)]
    person: Claims,
}

/// Keys that a provider publishes (RFC 7517).
#[derive(Clone, Debug, Deserialize)]
pub struct KeySet {
    /// Keys of any kind. Those that this service does not understand are passed over.
    keys: Vec<Value>,
}

/// Verifies a token.
///
/// # Errors
/// [`RefusedToken`], with the reason for the log.
pub fn verify(token: &str, keys: &KeySet, expected: &ExpectedToken<'_>) -> Result<Claims, RefusedToken> {
    signature::install();
    let header = jsonwebtoken::decode_header(token).map_err(|error| {
        RefusedToken(form(error.kind()).unwrap_or("its header is malformed, or names no known algorithm"))
    })?;
    // Extensions that a reader must understand (RFC 7515 section 4.1.11). None is.
    if header.crit.is_some() {
        return Err(RefusedToken("it has an extension that is not understood"));
    }
    for key in keys.keys.iter().filter_map(|key| Jwk::deserialize(key).ok()) {
        if !may_verify(&key, header.kid.as_deref()) {
            continue;
        }
        let Some(algorithm) = algorithm_of(&key) else { continue };
        let Ok(key) = DecodingKey::from_jwk(&key) else { continue };
        match jsonwebtoken::decode::<TokenClaims>(token, &key, &validation(algorithm, expected)) {
            Ok(token) => {
                check(&token.claims, expected)?;
                return Ok(token.claims.person);
            }
            Err(error) => {
                if let Some(why) = reason(error.kind()) {
                    return Err(RefusedToken(why));
                }
            }
        }
    }
    Err(RefusedToken("no key of the provider verifies its signature"))
}

fn validation(algorithm: Algorithm, expected: &ExpectedToken<'_>) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.leeway = SKEW_SECONDS.into();
    validation.validate_nbf = true;
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client_id]);
    validation.set_required_spec_claims(&["iss", "aud", "exp", "sub"]);
    validation
}

/// Returns what is wrong with the form of a token, if that is why it is refused.
fn form(error: &ErrorKind) -> Option<&'static str> {
    if matches!(error, ErrorKind::InvalidToken) {
        return Some("it is no JWS");
    }
    matches!(error, ErrorKind::Base64(_)).then_some("it is not base64url")
}

/// Returns why a token is refused whose signature is right; `None` when it is not right.
#[allow(clippy::wildcard_enum_match_arm)] // the crate's list of errors grows
fn reason(error: &ErrorKind) -> Option<&'static str> {
    match error {
        ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm => None,
        ErrorKind::InvalidToken | ErrorKind::Base64(_) => form(error),
        ErrorKind::InvalidIssuer => Some("it has another issuer"),
        ErrorKind::InvalidAudience => Some("it is for another client"),
        ErrorKind::ExpiredSignature => Some("it has expired"),
        ErrorKind::ImmatureSignature => Some("it is not valid yet"),
        _ => Some("a claim is missing or malformed"),
    }
}

fn check(claims: &TokenClaims, expected: &ExpectedToken<'_>) -> Result<(), RefusedToken> {
    let has_several_audiences = claims.aud.as_array().is_some_and(|audiences| audiences.len() > 1);
    if has_several_audiences && claims.azp.is_none()
        || claims.azp.as_deref().is_some_and(|party| party != expected.client_id)
    {
        return Err(RefusedToken("it was issued to another client"));
    }
    if claims.iat > expected.now.as_seconds() as f64 + f64::from(SKEW_SECONDS) {
        return Err(RefusedToken("it is from the future"));
    }
    if !expected.nonce.matches(&claims.nonce) {
        return Err(RefusedToken("it answers another request"));
    }
    let subject = &claims.person.sub;
    if subject.is_empty() || subject.chars().count() > MAX_SUBJECT {
        return Err(RefusedToken("its subject is empty or too long"));
    }
    Ok(())
}

/// Whether a published key is for signatures, and is the one that the token names, if it names one.
fn may_verify(key: &Jwk, kid: Option<&str>) -> bool {
    let is_for_signatures =
        key.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    is_for_signatures && kid.is_none_or(|kid| key.common.key_id.as_deref() == Some(kid))
}

/// Returns the algorithm of a key; `None` for a kind that is not accepted.
fn algorithm_of(key: &Jwk) -> Option<Algorithm> {
    if let AlgorithmParameters::RSA(_) = &key.algorithm {
        return Some(Algorithm::RS256);
    }
    matches!(&key.algorithm, AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256)
        .then_some(Algorithm::ES256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use hotdesk_base::clock;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    const ISSUER: &str = "https://id.example.org";
    /// More seconds than a test takes between two readings of the clock.
    const SLACK: i64 = 30;

    fn now() -> i64 {
        clock::now().as_seconds()
    }

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
        json!({"iss": ISSUER, "sub": "7", "aud": "desk", "exp": now() + 300, "iat": now(), "nonce": "n",
            "email": "ada@x.example", "email_verified": true})
    }

    fn verified(token: &str, keys: &[Value]) -> Result<Claims, &'static str> {
        let expected =
            ExpectedToken { issuer: ISSUER, client_id: "desk", nonce: &Secret::new("n"), now: clock::now() };
        verify(token, &KeySet { keys: keys.to_vec() }, &expected).map_err(|refused| refused.0)
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
        let malformed = Err("a claim is missing or malformed");
        let skew = i64::from(SKEW_SECONDS);
        for (name, value, result) in [
            ("sub", json!("7"), fine.clone()),
            ("aud", json!(["desk"]), fine.clone()),
            ("azp", json!("desk"), fine.clone()),
            ("exp", json!(now() - skew + SLACK), fine.clone()),
            ("exp", json!((now() + 300) as f64 + 0.5), fine.clone()),
            ("iat", json!(now() + skew - SLACK), fine.clone()),
            ("nbf", json!(now()), fine),
            ("iss", json!("https://id.example.org/"), Err("it has another issuer")),
            ("iss", json!([ISSUER]), malformed.clone()),
            ("iss", Value::Null, malformed.clone()),
            ("aud", json!("other"), Err("it is for another client")),
            ("aud", json!([]), Err("it is for another client")),
            ("aud", json!(["desk", "other"]), Err("it was issued to another client")),
            ("aud", Value::Null, malformed.clone()),
            ("azp", json!("other"), Err("it was issued to another client")),
            ("exp", json!(now() - skew - SLACK), Err("it has expired")),
            ("exp", json!("never"), malformed.clone()),
            ("exp", Value::Null, malformed.clone()),
            ("iat", json!(now() + skew + SLACK), Err("it is from the future")),
            ("iat", Value::Null, malformed.clone()),
            ("nbf", json!(now() + skew + SLACK), Err("it is not valid yet")),
            ("nonce", json!("m"), Err("it answers another request")),
            ("nonce", Value::Null, malformed.clone()),
            ("sub", json!(""), Err("its subject is empty or too long")),
            ("sub", json!("x".repeat(256)), Err("its subject is empty or too long")),
            ("sub", Value::Null, malformed),
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
        let header = "its header is malformed, or names no known algorithm";
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let plain = format!("{}.{}.", part(json!({"alg": "none"})), part(claims()));
        // A MAC whose secret is the published key: RFC 8725 section 2.1.
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, signer.pair.public_key().as_ref());
        let signed = format!("{}.{}", part(json!({"alg": "HS256", "kid": "k"})), part(claims()));
        let mac = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&secret, signed.as_bytes()));
        let mut marked = signer.key("k");
        marked["alg"] = json!("HS256");
        for (token, keys, why) in [
            (stranger.sign(&json!({"alg": "ES256", "kid": "k"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "ES256", "kid": "l"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "none"}), &claims()), keys.to_vec(), header),
            (plain, keys.to_vec(), header),
            (signer.sign(&json!({}), &claims()), keys.to_vec(), header),
            (format!("{signed}.{mac}"), keys.to_vec(), unsigned),
            (format!("{signed}.{mac}"), vec![marked], unsigned),
            (signer.sign(&json!({"alg": "HS256"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "RS256"}), &claims()), keys.to_vec(), unsigned),
            (signer.sign(&json!({"alg": "ES384"}), &claims()), keys.to_vec(), unsigned),
            (token.clone(), Vec::new(), unsigned),
            (format!("{}.", token.rsplit_once('.').unwrap().0), keys.to_vec(), unsigned),
            (
                signer.sign(&json!({"alg": "ES256", "crit": ["b64"]}), &claims()),
                keys.to_vec(),
                "it has an extension that is not understood",
            ),
            ("a.b".to_owned(), keys.to_vec(), "it is no JWS"),
            ("a.b.c.d".to_owned(), keys.to_vec(), "it is not base64url"),
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
