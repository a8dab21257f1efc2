//! What is kept of an answer, and how is it told again?

use std::collections::BTreeMap;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;

use hotdesk_domain::api_key;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::idempotency::{Meaning, meaning};
use hotdesk_http::error_response::{self, CarriedError};
use hotdesk_http::idempotency::REPLAYED;
use hotdesk_store::idempotency::Answer;

/// Longest body that is kept in bytes: records are a tenth of it, and an account's 30,000 of the longest stay below two gigabytes.
const MAX_BODY: u64 = 64 * 1024;
/// Fields that are kept beside a body: what it is, where the new thing is, and how far a resumable upload is (tus.io).
const KEPT: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::LOCATION,
    header::ETAG,
    HeaderName::from_static("tus-resumable"),
    HeaderName::from_static("upload-expires"),
    HeaderName::from_static("upload-offset"),
];

/// What an answer means for its request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is done, as far as it ever will be.
    Final(Answer),
    /// It was refused before anything of it was done.
    Refused,
    /// Nothing of it was done, unless something broke it off.
    Later,
}

/// Splits an answer into itself and what it means. `request_id` is told in the bodies of failures, which are written later.
pub(super) async fn read(response: Response, request_id: &str) -> (Response, Outcome) {
    let status = response.status().as_u16();
    if let Some(CarriedError(error)) = response.extensions().get::<CarriedError>() {
        if let Some(outcome) = not_done(status, error.retry_after.is_some()) {
            return (response, outcome);
        }
        let headers = BTreeMap::from([(header::CONTENT_TYPE.to_string(), "application/json".to_owned())]);
        let body = serde_json::to_string(&error_response::body(error, request_id)).ok();
        return (response, Outcome::Final(Answer { status, headers, body }));
    }
    let come_back = response.headers().contains_key(header::RETRY_AFTER);
    if let Some(outcome) = not_done(status, come_back) {
        return (response, outcome);
    }
    let headers = kept_fields(response.headers());
    if is_secret(response.headers()) || response.body().size_hint().upper().is_none_or(|most| most > MAX_BODY)
    {
        return (response, Outcome::Final(Answer { status, headers, body: None }));
    }
    let (parts, body) = response.into_parts();
    // A body of a known length is in memory already; should it break off, the client is not told a part as the whole.
    let whole = body.collect().await.map(http_body_util::Collected::to_bytes);
    let text = whole.as_ref().ok().and_then(|whole| String::from_utf8(whole.to_vec()).ok());
    let body = match whole {
        Ok(whole) => Body::from(whole),
        Err(error) => Body::from_stream(futures_util::stream::iter([Err::<bytes::Bytes, _>(error)])),
    };
    // An API key is shown once and kept nowhere (access.md A3, A5).
    let text = text.filter(|text| !api_key::is_in(text));
    (Response::from_parts(parts, body), Outcome::Final(Answer { status, headers, body: text }))
}

fn not_done(status: u16, come_back: bool) -> Option<Outcome> {
    match meaning(status, come_back) {
        Meaning::Final => None,
        Meaning::Refused => Some(Outcome::Refused),
        Meaning::Later => Some(Outcome::Later),
    }
}

/// Whether an answer must not be kept: it says so (RFC 9111 section 5.2.2.5), as every one with a secret does (access.md A6).
fn is_secret(headers: &HeaderMap) -> bool {
    let said = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(',')).any(|directive| directive.trim().eq_ignore_ascii_case("no-store"))
}

fn kept_fields(headers: &HeaderMap) -> BTreeMap<String, String> {
    let kept = KEPT.into_iter().filter_map(|name| {
        let value = headers.get(&name)?.to_str().ok()?.to_owned();
        Some((name.to_string(), value))
    });
    kept.collect()
}

/// The answer to a request that was answered before.
///
/// # Errors
/// `answer_not_kept` with the status that it had.
pub(super) fn tell_again(answer: Answer) -> Result<Response> {
    let Some(body) = answer.body else {
        return Err(Error::conflict(format!(
            "It was done with status {}; the answer was not kept: too long, or with a secret that is shown once",
            answer.status
        ))
        .code("answer_not_kept")
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

    async fn kept(response: impl IntoResponse) -> Option<Answer> {
        match read(response.into_response(), "id").await.1 {
            Outcome::Final(answer) => Some(answer),
            Outcome::Refused | Outcome::Later => None,
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_short_and_holds_no_secret() {
        let record =
            kept((StatusCode::CREATED, [(header::LOCATION, "/x"), (header::SET_COOKIE, "a=b")], "{}")).await;
        let record = record.expect("it is final");
        assert_eq!((record.status, record.body.as_deref(), record.headers.len()), (201, Some("{}"), 2));
        assert_eq!(record.headers["location"], "/x");
        let key = api_key::assemble("0123456789abcdefghijABCDEFGHIJ");
        let secret = [(header::CACHE_CONTROL, "private, No-Store")];
        let stream = Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("{}")]));
        for (what, response) in [
            ("long", "x".repeat(64 * 1024 + 1).into_response()),
            ("a key", format!("{{\"key\": \"{key}\"}}").into_response()),
            ("said to be secret", (secret, "{}").into_response()),
            ("a stream", stream.into_response()),
        ] {
            assert_eq!(kept(response).await.expect("it is final").body, None, "{what}");
        }
    }

    #[tokio::test]
    async fn a_failure_is_kept_with_its_body_and_its_request() {
        let failed = kept(Error::conflict("It is stopped").code("x")).await.expect("it is final");
        let body: serde_json::Value = serde_json::from_str(&failed.body.expect("a body")).unwrap();
        assert_eq!(body, serde_json::json!({"error": "It is stopped", "code": "x", "request_id": "id"}));
        assert!(kept(Error::forbidden("no")).await.is_none());
        assert!(kept(Error::unavailable("later").retry_after(5)).await.is_none());
        assert!(kept((StatusCode::CONFLICT, [(header::RETRY_AFTER, "30")], "{}")).await.is_none());
    }

    #[test]
    fn what_was_not_kept_is_said() {
        let headers = BTreeMap::from([("location".to_owned(), "/x".to_owned())]);
        let again = tell_again(Answer { status: 201, headers: headers.clone(), body: Some("{}".to_owned()) })
            .unwrap();
        assert_eq!(
            (again.status(), &again.headers()["location"]),
            (StatusCode::CREATED, &"/x".parse::<HeaderValue>().unwrap())
        );
        assert_eq!(again.headers()[REPLAYED], "true");
        let gone = tell_again(Answer { status: 201, headers, body: None }).unwrap_err();
        assert_eq!(gone.code, Some("answer_not_kept"));
    }
}
