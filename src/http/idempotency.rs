//! The `Idempotency-Key` header: 8 to 255 visible ASCII characters (docs/api/conventions.md).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

use crate::error_response::HttpError;
pub use crate::error_response::REPLAYED;

/// The header's name.
pub const NAME: HeaderName = HeaderName::from_static("idempotency-key");
/// Header in which the controller tells an agent the digest of a request body before the values of secrets
/// were put in. The agent compares it, so that it records no digest of a value.
pub const REQUEST_DIGEST: HeaderName = HeaderName::from_static("x-hotdesk-request-digest");
/// Allowed length of a key in bytes.
const LENGTH: std::ops::RangeInclusive<usize> = 8..=255;

/// The documented header of requests whose answer a computer's agent stores: actions and commands.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IdempotencyHeader {
    /// A request that is sent again with the same key is executed at most once. The answer is then the
    /// stored one, with `Idempotency-Replayed: true`. It is 409 `idempotency_in_progress` while the first
    /// request runs, and 409 `outcome_unknown` when the computer's agent died meanwhile. Another request
    /// with the same key gets 422 `idempotency_key_reused`.
    #[serde(rename = "Idempotency-Key")]
    #[param(rename = "Idempotency-Key", min_length = 8, max_length = 255, pattern = "^[!-~]+$")]
    pub key: Option<String>,
}

/// The documented header of requests whose answer the controller stores: all others.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct StoredAnswerHeader {
    /// A request that is sent again with the same key within 24 hours is executed at most once. It must
    /// have the same method, path, query, documented header fields and body. A body is compared byte for
    /// byte, a form part by part. The answer is then the stored one, with `Idempotency-Replayed: true`, or
    /// an error. 409 `idempotency_in_progress`: the first request runs. 409 `outcome_unknown`: the service
    /// ended meanwhile. 409 `answer_not_kept`: the request was executed, but its answer was too long or had
    /// a secret that is shown once. 422 `idempotency_key_reused`: another request had this key. A request that got 401, 403, 429 or a `Retry-After` was not executed and can be sent
    /// again. Two API keys may use the same key independently. With a key, a body has at most 2 MiB (413).
    #[serde(rename = "Idempotency-Key")]
    #[param(rename = "Idempotency-Key", min_length = 8, max_length = 255, pattern = "^[!-~]+$")]
    pub key: Option<String>,
}

/// The key of a request, if it has one.
#[derive(Clone, Debug)]
pub struct IdempotencyKey(pub Option<HeaderValue>);

/// Reads the key.
///
/// # Errors
/// `Invalid` for another length, other characters, or several fields.
pub fn read_key(headers: &HeaderMap) -> Result<Option<HeaderValue>> {
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

/// The error 422 for a key of another request (draft-ietf-httpapi-idempotency-key-header-07 section 2.7).
pub fn reused() -> Error {
    Error::mismatched("This Idempotency-Key was used for another request")
        .code(ErrorCode::IdempotencyKeyReused)
}

/// SHA-256 of several texts as hex. Their lengths are included, so that different lists have different
/// digests.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// Returns the value of [`REQUEST_DIGEST`] for a body.
///
/// # Errors
/// `Internal` when a header cannot have it, which never happens: it is hex.
pub fn digest_header(body: &[u8]) -> Result<HeaderValue> {
    HeaderValue::from_str(&digest(&[body])).map_err(Error::internal)
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, HttpError> {
        Ok(Self(read_key(&parts.headers)?))
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
            read_key(&headers)
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
