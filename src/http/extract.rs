//! Extractors for JSON bodies, queries and paths. Their rejections are hotdesk's JSON errors, not axum's
//! plain text.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The body of a request, as a stream of bytes: for code outside of the API layers.
pub use axum::body::Body;
use hotdesk_domain::error::{Error, Result};

use super::error_response::HttpError;

/// Largest JSON body in bytes; scripts and texts to type are much smaller.
pub const MAX_JSON_BYTES: usize = 2 * 1024 * 1024;

/// Largest whole number of which a float knows the last digit, 2 to the power of 53 (RFC 8259 section 6).
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Longest time to receive a JSON body; a slower sender would occupy a connection (T13, docs/security.md).
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON object. Types of bodies refuse unknown fields (`deny_unknown_fields`), so that a misspelled field is no
/// silent default. An empty body counts as `{}`, because some clients send `Content-Type: application/json`
/// with no body (docs/api/conventions.md). The media type is ignored, because others send none.
#[derive(Clone, Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, HttpError> {
        let bytes = read_body(request.into_body(), MAX_JSON_BYTES).await?;
        Ok(Self(parse_object(&bytes)?))
    }
}

/// Any JSON value; its type decides which shapes are valid.
#[derive(Clone, Debug)]
pub struct AnyJson<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for AnyJson<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, HttpError> {
        let bytes = read_body(request.into_body(), MAX_JSON_BYTES).await?;
        Ok(Self(parse(&bytes)?))
    }
}

/// Reads a whole body of at most `limit` bytes.
///
/// # Errors
/// `TooLarge` above the limit, at once for a declared length; `SlowRequest` when it takes over 30 seconds;
/// `Invalid` when the client disconnects.
pub async fn read_body(body: Body, limit: usize) -> Result<bytes::Bytes> {
    read_within(body, limit, BODY_TIMEOUT).await
}

async fn read_within(body: Body, limit: usize, timeout: Duration) -> Result<bytes::Bytes> {
    check_declared(&body, limit)?;
    let collected = tokio::time::timeout(timeout, Limited::new(body, limit).collect()).await;
    match collected {
        Err(_) => Err(Error::slow_request("the request body did not arrive in time")),
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large(limit)),
        Ok(Err(error)) => Err(Error::invalid("the request body broke off").context(error)),
    }
}

/// Checks the length that a body declares, before any of it is read.
///
/// # Errors
/// `TooLarge` above the limit.
pub fn check_declared(body: &Body, limit: usize) -> Result<()> {
    if body.size_hint().lower() > limit as u64 { Err(too_large(limit)) } else { Ok(()) }
}

fn too_large(limit: usize) -> Error {
    Error::too_large(format!("the request body is larger than {limit} bytes"))
}

/// Parses a JSON object; an empty text counts as `{}`.
///
/// # Errors
/// `Invalid` with the position, for anything else.
pub fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    parse(object_text(bytes)?)
}

fn object_text(bytes: &[u8]) -> Result<&[u8]> {
    let trimmed = bytes.trim_ascii();
    let text = if trimmed.is_empty() { b"{}" } else { trimmed };
    if text.first() != Some(&b'{') {
        return Err(Error::invalid("the request body must be a JSON object"));
    }
    Ok(text)
}

/// Parses any JSON value. A whole number may have a point, such as `2.0`: it is an integer (JSON Schema
/// 2020-12, validation, section 6.1.1).
///
/// # Errors
/// `Invalid` with the position.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    let error = match serde_json::from_slice(text) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    if error.is_data()
        && let Some(text) = with_integers(text)
        && let Ok(read) = serde_json::from_slice(&text)
    {
        return Ok(read);
    }
    Err(Error::invalid(format!("invalid JSON body: {error}")))
}

/// Returns a JSON text in which whole numbers with a point are integers; `None` when there are none. The result is text
/// and no value, because a reader of values would double the code of each type of a body.
fn with_integers(text: &[u8]) -> Option<Vec<u8>> {
    let mut value = serde_json::from_slice(text).ok()?;
    if write_as_integers(&mut value) { serde_json::to_vec(&value).ok() } else { None }
}

/// Replaces whole numbers that have a point by integers. Returns whether there were any.
fn write_as_integers(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => match number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0) {
            Some(whole) if whole.abs() <= MAX_EXACT => {
                *number = (whole as i64).into();
                true
            }
            _ => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, item| write_as_integers(item) | any),
        Value::Object(fields) => fields.values_mut().fold(false, |any, field| write_as_integers(field) | any),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// The query string. Unknown keys are ignored (docs/api/conventions.md).
#[derive(Clone, Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        axum::extract::Query::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Query(value)| Self(value))
            .map_err(|error: QueryRejection| {
                Error::invalid(format!("invalid query: {}", error.body_text())).into()
            })
    }
}

/// The path's parameters.
#[derive(Clone, Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(value)| Self(value))
            .map_err(|error: PathRejection| {
                Error::invalid(format!("invalid path: {}", error.body_text())).into()
            })
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::{Frame, SizeHint};

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        count: u32,
        list: Vec<i64>,
    }

    #[test]
    fn a_whole_number_with_a_point_is_an_integer() {
        for (text, count, list) in [
            (r#"{"count": 2.0, "list": [1, -3.0, 4e2]}"#, 2, vec![1, -3, 400]),
            (r#"{"count": 2, "list": []}"#, 2, vec![]),
        ] {
            assert_eq!(parse_object::<Sample>(text.as_bytes()).unwrap(), Sample { count, list });
        }
        for wrong in [
            r#"{"count": 2.5, "list": []}"#,
            r#"{"count": -2.0, "list": []}"#,
            r#"{"count": 1e300, "list": []}"#,
        ] {
            let error = parse_object::<Sample>(wrong.as_bytes()).unwrap_err();
            assert!(error.message.starts_with("invalid JSON body: invalid"), "{}", error.message);
        }
    }

    use hotdesk_domain::error::Kind;
    use hotdesk_wire::desktop::action::{Click, Wait};

    #[tokio::test]
    async fn a_body_that_declares_too_much_or_stalls_is_refused() {
        let pending = || futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        let short = Duration::from_millis(20);
        let stalled = read_within(Body::from_stream(pending()), 5, short).await;
        assert_eq!(stalled.unwrap_err().kind, Kind::SlowRequest);
        // None of it was sent.
        let declared = |bytes| Body::new(BodyOfLength { bytes, body: Body::from_stream(pending()) });
        assert_eq!(read_body(declared(6), 5).await.unwrap_err().kind, Kind::TooLarge);
        assert_eq!(read_within(declared(5), 5, short).await.unwrap_err().kind, Kind::SlowRequest);
        assert_eq!(read_body(Body::from("12345"), 5).await.unwrap(), "12345");
        assert_eq!(read_body(Body::from("123456"), 5).await.unwrap_err().kind, Kind::TooLarge);
    }

    /// A body with a declared length.
    struct BodyOfLength {
        bytes: u64,
        body: Body,
    }

    impl HttpBody for BodyOfLength {
        type Data = bytes::Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<bytes::Bytes>, axum::Error>>> {
            Pin::new(&mut self.body).poll_frame(cx)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.bytes)
        }
    }

    #[test]
    fn bodies_are_objects_or_refused() {
        assert!(parse_object::<Wait>(b"").is_ok());
        assert!(parse_object::<Wait>(b"  \n").is_ok());
        let unknown = parse_object::<Click>(br#"{"x":0,"y":1.5,"unknown":[1]}"#).unwrap_err();
        assert!(unknown.message.contains("unknown field `unknown`"), "{unknown}");
        let deep = [b"{\"x\":".as_slice(), &b"[".repeat(100_000)].concat();
        let bad: [&[u8]; 9] = [
            b"{}",
            b"[1,2]",
            b"\"x\"",
            b"null",
            b"{\"x\":\"1\",\"y\":2}",
            b"{\"x\":1,\"y\":null}",
            b"{\"x\":1",
            b"{\"x\":1,\"y\":2}}",
            &deep,
        ];
        for body in bad {
            assert!(
                parse_object::<Click>(body).is_err(),
                "{}",
                String::from_utf8_lossy(&body[..body.len().min(40)])
            );
        }
        assert!(parse_object::<hotdesk_wire::desktop::action::Type>(b"{\"text\":\"\xff\xfe\"}").is_err());
    }
}
