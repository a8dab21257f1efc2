//! Which key makes a request safe to send again? `Idempotency-Key`: 8 to 255 visible ASCII characters (wire.md 1).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::domain::error::{Error, Result};

/// The header's name.
pub const NAME: HeaderName = HeaderName::from_static("idempotency-key");
/// How long a key may be.
const LENGTH: std::ops::RangeInclusive<usize> = 8..=255;

/// The header as it is documented.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IdempotencyHeader {
    /// Sent again with the same key, the request is carried out at most once: the stored answer is given, or 409 with
    /// code `idempotency_in_progress`, `outcome_unknown` (the computer's agent died meanwhile) or
    /// `idempotency_key_reused` (another request had this key).
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

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self> {
        shown(&parts.headers).map(Self)
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
