//! Stored responses and their replay.

use std::collections::BTreeMap;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::api_key;
use hotdesk_domain::network::replay_rule::{ReplayRule, replay_rule};
use hotdesk_http::error_response::{self, CarriedError};
use hotdesk_http::idempotency::REPLAYED;
use hotdesk_store::idempotency::StoredResponse;

/// Longest stored body in bytes. Records are a tenth of it, and an account's 30,000 longest bodies are less
/// than two gigabytes.
const MAX_BODY: u64 = 64 * 1024;
/// Stored header fields: the content type, the new resource's location, and the state of a resumable upload
/// (tus.io).
const STORED_FIELDS: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::LOCATION,
    header::ETAG,
    HeaderName::from_static("tus-resumable"),
    HeaderName::from_static("upload-expires"),
    HeaderName::from_static("upload-offset"),
];

/// Meaning of a response for its request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The request is complete.
    Final(StoredResponse),
    /// It was refused before it had an effect.
    Refused,
    /// It had no effect, unless it was cut off.
    Later,
}

/// Determines a response's outcome and returns both. `request_id` is in the bodies of failures, which are
/// rendered later.
pub(super) async fn read(response: Response, request_id: &str) -> (Response, Outcome) {
    let status = response.status().as_u16();
    if let Some(CarriedError(error)) = response.extensions().get::<CarriedError>() {
        if let Some(outcome) = not_done(status, error.retry_after.is_some()) {
            return (response, outcome);
        }
        let headers = BTreeMap::from([(header::CONTENT_TYPE.to_string(), "application/json".to_owned())]);
        let body = serde_json::to_string(&error_response::body(error, request_id)).ok();
        return (response, Outcome::Final(StoredResponse { status, headers, body }));
    }
    let has_retry_after = response.headers().contains_key(header::RETRY_AFTER);
    if let Some(outcome) = not_done(status, has_retry_after) {
        return (response, outcome);
    }
    let headers = stored_fields(response.headers());
    if is_secret(response.headers()) || response.body().size_hint().upper().is_none_or(|most| most > MAX_BODY)
    {
        return (response, Outcome::Final(StoredResponse { status, headers, body: None }));
    }
    let (parts, body) = response.into_parts();
    // A body of known length is in memory already. If reading it fails, the client must not take the part for
    // the whole.
    let whole = body.collect().await.map(http_body_util::Collected::to_bytes);
    let text = whole.as_ref().ok().and_then(|whole| String::from_utf8(whole.to_vec()).ok());
    let body = match whole {
        Ok(whole) => Body::from(whole),
        Err(error) => Body::from_stream(futures_util::stream::iter([Err::<bytes::Bytes, _>(error)])),
    };
    // An API key is shown once and never stored, A3 and A5 (docs/authentication-rules.md).
    let text = text.filter(|text| !api_key::is_in(text));
    (Response::from_parts(parts, body), Outcome::Final(StoredResponse { status, headers, body: text }))
}

fn not_done(status: u16, has_retry_after: bool) -> Option<Outcome> {
    match replay_rule(status, has_retry_after) {
        ReplayRule::Final => None,
        ReplayRule::Refused => Some(Outcome::Refused),
        ReplayRule::Later => Some(Outcome::Later),
    }
}

/// Whether a response must not be stored: it says `no-store` (RFC 9111 section 5.2.2.5), as every response
/// with a secret does, A6 (docs/authentication-rules.md).
fn is_secret(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    fields
        .flat_map(|value| value.split(','))
        .any(|directive| directive.trim().eq_ignore_ascii_case("no-store"))
}

fn stored_fields(headers: &HeaderMap) -> BTreeMap<String, String> {
    let kept = STORED_FIELDS.into_iter().filter_map(|name| {
        let value = headers.get(&name)?.to_str().ok()?.to_owned();
        Some((name.to_string(), value))
    });
    kept.collect()
}

/// Rebuilds the stored response of a completed request.
///
/// # Errors
/// `Conflict` (`answer_not_kept`) with the original status when the body was not stored; `Internal` when the
/// stored response is invalid.
pub(super) fn replay(answer: StoredResponse) -> Result<Response> {
    let Some(body) = answer.body else {
        return Err(Error::conflict(format!(
            "The request completed with status {}; its response was not stored because it was too long or \
             held a secret",
            answer.status
        ))
        .code(ErrorCode::AnswerNotKept)
        .number("status", answer.status.into()));
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(answer.status).map_err(Error::internal)?;
    for (name, value) in answer.headers {
        let name = HeaderName::try_from(name).map_err(Error::internal)?;
        response.headers_mut().insert(name, HeaderValue::try_from(value).map_err(Error::internal)?);
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;
    use hotdesk_http::error_response::HttpError;

    async fn stored_response(response: impl IntoResponse) -> Option<StoredResponse> {
        match read(response.into_response(), "id").await.1 {
            Outcome::Final(answer) => Some(answer),
            Outcome::Refused | Outcome::Later => None,
        }
    }

    #[tokio::test]
    async fn a_stored_body_is_short_and_has_no_secret() {
        let record = stored_response((
            StatusCode::CREATED,
            [(header::LOCATION, "/x"), (header::SET_COOKIE, "a=b")],
            "{}",
        ))
        .await;
        let record = record.expect("it is final");
        assert_eq!((record.status, record.body.as_deref(), record.headers.len()), (201, Some("{}"), 2));
        assert_eq!(record.headers["location"], "/x");
        let key = api_key::assemble("0123456789abcdefghijABCDEFGHIJ");
        let secret = [(header::CACHE_CONTROL, "private, No-Store")];
        let stream = Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("{}")]));
        for (what, response) in [
            ("long", "x".repeat(64 * 1024 + 1).into_response()),
            ("a key", format!("{{\"key\": \"{key}\"}}").into_response()),
            ("marked no-store", (secret, "{}").into_response()),
            ("a stream", stream.into_response()),
        ] {
            assert_eq!(stored_response(response).await.expect("it is final").body, None, "{what}");
        }
    }

    #[tokio::test]
    async fn a_failure_is_stored_with_its_body_and_request_id() {
        let failed =
            stored_response(HttpError(Error::conflict("It is stopped").code(ErrorCode::ComputerAsleep)))
                .await
                .expect("it is final");
        let body: serde_json::Value = serde_json::from_str(&failed.body.expect("a body")).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"error": "It is stopped", "code": "computer_asleep", "request_id": "id"})
        );
        assert!(stored_response(HttpError(Error::forbidden("no"))).await.is_none());
        assert!(stored_response(HttpError(Error::unavailable("later").retry_after(5))).await.is_none());
        assert!(stored_response((StatusCode::CONFLICT, [(header::RETRY_AFTER, "30")], "{}")).await.is_none());
    }

    #[test]
    fn a_response_that_was_not_stored_is_reported() {
        let headers = BTreeMap::from([("location".to_owned(), "/x".to_owned())]);
        let again =
            replay(StoredResponse { status: 201, headers: headers.clone(), body: Some("{}".to_owned()) })
                .unwrap();
        assert_eq!(
            (again.status(), &again.headers()["location"]),
            (StatusCode::CREATED, &"/x".parse::<HeaderValue>().unwrap())
        );
        assert_eq!(again.headers()[REPLAYED], "true");
        let gone = replay(StoredResponse { status: 201, headers, body: None }).unwrap_err();
        assert_eq!(gone.code, Some(ErrorCode::AnswerNotKept));
    }
}
