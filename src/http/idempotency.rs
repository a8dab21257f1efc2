//! Which key makes a request safe to send again? `Idempotency-Key`: 8 to 255 visible ASCII characters (wire.md 1).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Result};

use crate::error_response::HttpError;

/// The header's name.
pub const NAME: HeaderName = HeaderName::from_static("idempotency-key");
/// Tells a client that the answer is the stored one (`true`).
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long a key may be.
const LENGTH: std::ops::RangeInclusive<usize> = 8..=255;

/// The header as it is documented where a computer's agent keeps the answer: at actions and commands.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IdempotencyHeader {
    /// Sent again with the same key, the request is carried out at most once: the stored answer is given, with
    /// `Idempotency-Replayed: true`; or 409 with code `idempotency_in_progress` or `outcome_unknown` (the computer's agent died
    /// meanwhile). Another request under the key is 422 `idempotency_key_reused`.
    #[serde(rename = "Idempotency-Key")]
    #[param(rename = "Idempotency-Key", min_length = 8, max_length = 255, pattern = "^[!-~]+$")]
    pub key: Option<String>,
}

/// The header as it is documented everywhere else.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct KeptHeader {
    /// Sent again with the same key within 24 hours, the same request (method, path, query, header fields of this document, and the
    /// body byte for byte, or a form's parts whatever its boundary) is carried out at most once: the stored answer is given, with
    /// `Idempotency-Replayed: true`; or 409 with code `idempotency_in_progress`, `outcome_unknown` (the service ended meanwhile) or
    /// `answer_not_kept` (it was done, and its answer was too long or held a secret that is shown once). Another request under the
    /// key is 422 `idempotency_key_reused`. What was refused by 401, 403, 429 or with a `Retry-After` was not done, and may be sent
    /// again. A key belongs to the API key that it is sent with; a body that may have any size has at most 1 GiB then.
    #[serde(rename = "Idempotency-Key")]
    #[param(rename = "Idempotency-Key", min_length = 8, max_length = 255, pattern = "^[!-~]+$")]
    pub key: Option<String>,
}

/// A request's key, if it has one.
#[derive(Clone, Debug)]
pub struct IdempotencyKey(pub Option<HeaderValue>);

/// Reads the key.
///
/// # Errors
/// `Invalid` for one of another length or with other characters, and for several.
pub fn shown(headers: &HeaderMap) -> Result<Option<HeaderValue>> {
    let mut fields = headers.get_all(NAME).iter();
    let Some(key) = fields.next() else { return Ok(None) };
    let plain = LENGTH.contains(&key.len()) && key.as_bytes().iter().all(u8::is_ascii_graphic);
    if plain && fields.next().is_none() {
        return Ok(Some(key.clone()));
    }
    let (least, most) = (LENGTH.start(), LENGTH.end());
    Err(Error::invalid(format!(
        "Idempotency-Key must be {least} to {most} visible ASCII characters, sent once"
    )))
}

/// Another request had the key (draft-ietf-httpapi-idempotency-key-header-07 section 2.7: 422).
pub fn reused() -> Error {
    Error::mismatched("This Idempotency-Key was used for another request").code("idempotency_key_reused")
}

/// A name for several texts: SHA-256, with their lengths, so that no two lists have the same.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, HttpError> {
        Ok(Self(shown(&parts.headers)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_8_to_255_visible_characters_sent_once() {
        let read = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(NAME, HeaderValue::from_bytes(value).unwrap());
            }
            shown(&headers)
        };
        assert!(read(&[]).unwrap().is_none());
        assert_eq!(read(&[b"12345678"]).unwrap().unwrap(), "12345678");
        assert!(read(&[&[b'~'; 255]]).unwrap().is_some());
        let twice: [&[u8]; 2] = [b"12345678", b"12345678"];
        for bad in [&[b"1234567".as_slice()][..], &[&[b'a'; 256]], &[b"1234 5678"], &[b"1234567\xe9"], &twice]
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
