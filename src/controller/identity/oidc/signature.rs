//! Signature verification for `jsonwebtoken` by `ring`: RS256 and ES256.
//!
//! The crate's own back ends are aws-lc and RustCrypto, which would be a second set of cryptography in the program.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{self, ErrorKind, new_error};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// This service issues no JSON Web Tokens, and computes no thumbprints of keys.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` verify signatures by `ring`, in this process.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Nothing else in this program uses the crate, so no other provider is installed.
        PROVIDER.install_default().ok();
    });
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> errors::Result<Box<dyn JwtVerifier>> {
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
}

/// Verification by one key of a provider.
struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            // An uncompressed point (SEC 1 section 2.3.3).
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims of the examples of RFC 7515 appendix A, in base64url.
    const CLAIMS: &str =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    /// Appendix A.2.
    const RS256_HEADER: &str = "eyJhbGciOiJSUzI1NiJ9";
    const RS256_MODULUS: &str = "\
        ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt\
        0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSX\
        ndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5\
        IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    const RS256_SIGNATURE: &str = "\
        cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W\
        2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkS\
        jtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnv\
        Wh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    /// Appendix A.3.
    const ES256_HEADER: &str = "eyJhbGciOiJFUzI1NiJ9";
    const ES256_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const ES256_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
    const ES256_SIGNATURE: &str =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

    #[test]
    fn a84_the_examples_of_rfc_7515_are_verified() {
        install();
        let rsa = DecodingKey::from_rsa_components(RS256_MODULUS, "AQAB").expect("a key");
        let elliptic = DecodingKey::from_ec_components(ES256_X, ES256_Y).expect("a key");
        let verify = |header: &str, signature: &str, key: &DecodingKey, algorithm| {
            let message = format!("{header}.{CLAIMS}");
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), key, algorithm).expect("base64url")
        };
        for (header, signature, key, algorithm, ok) in [
            (RS256_HEADER, RS256_SIGNATURE, &rsa, Algorithm::RS256, true),
            (ES256_HEADER, ES256_SIGNATURE, &elliptic, Algorithm::ES256, true),
            (ES256_HEADER, RS256_SIGNATURE, &rsa, Algorithm::RS256, false),
            (RS256_HEADER, ES256_SIGNATURE, &elliptic, Algorithm::ES256, false),
            (RS256_HEADER, RS256_SIGNATURE, &rsa, Algorithm::RS384, false),
            (RS256_HEADER, RS256_SIGNATURE, &rsa, Algorithm::PS256, false),
            (RS256_HEADER, RS256_SIGNATURE, &rsa, Algorithm::HS256, false),
            (ES256_HEADER, ES256_SIGNATURE, &rsa, Algorithm::ES256, false),
            (RS256_HEADER, RS256_SIGNATURE, &elliptic, Algorithm::RS256, false),
            (ES256_HEADER, "", &elliptic, Algorithm::ES256, false),
        ] {
            assert_eq!(verify(header, signature, key, algorithm), ok, "{header} {algorithm:?}");
        }
    }
}
