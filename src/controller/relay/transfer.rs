//! How do bytes of any number pass between a client and a computer? Streamed both ways, with chosen header fields only.
//!
//! The agent is hostile (threats.md T4): its fields are picked by name and bounded, its redirects are no answers, its
//! bodies end, and whatever it sends never runs as a page of this origin.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::paced::{Paced, Progress};
use crate::Shared;
use hotdesk_domain::access::Caller;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::error_response::{self, Result};

/// Largest body in either direction: larger than a computer's disk.
const MAX_BYTES: u64 = 1 << 40;
/// Longest time in which nothing moves: the agent gives up a silent sender after 30 s, and brings what came to its disk
/// before it answers.
const TIMEOUT: Duration = Duration::from_secs(330);
/// Longest time between two pieces of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest transfer: 1 TiB at 12 MB/s.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Longest header field of an agent that is passed on; an upload's metadata are the longest honest ones.
const MAX_FIELD: usize = 16 * 1024;

/// Statuses that mean something to clients beside the kinds of errors: gone, a protocol's version, a range.
const OWN_STATUSES: [StatusCode; 3] =
    [StatusCode::GONE, StatusCode::PRECONDITION_FAILED, StatusCode::RANGE_NOT_SATISFIABLE];

/// What of a request and of its answer crosses.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// Fields of the client that the agent sees, in lower case.
    pub asked: &'static [&'static str],
    /// Fields of the agent that the client sees.
    pub answered: &'static [&'static str],
    /// The answer must say its length beforehand.
    pub sized: bool,
}

/// Passes a request on to `path` of a computer's agent (of our own making: nothing of the client's URI but its raw query
/// is in it, threats.md T5).
///
/// # Errors
/// The agent's refusals as errors of ours; `TimedOut` when nothing moves any more.
pub async fn transfer(
    app: &Shared,
    caller: &Caller,
    id: &str,
    path: &str,
    crossing: Crossing,
    request: Request,
) -> Result<Response> {
    let computer = app.find_computer(caller, id).await?;
    let guest = app.guest_for(request.method(), &computer).await?;
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let progress = Progress::starting();
    let mut forwarded = Request::new(Body::new(Paced::new(body, MAX_BYTES, TIMEOUT, progress.clone())));
    *forwarded.method_mut() = parts.method;
    *forwarded.uri_mut() = format!("http://agent{path}{query}")
        .parse()
        .map_err(|error| Error::invalid("the query cannot be read").context(error))?;
    *forwarded.headers_mut() = chosen(&parts.headers, crossing.asked);
    let answer = tokio::select! {
        answer = guest.forward(forwarded, LONGEST) => answer?,
        () = progress.stalled(TIMEOUT) => return Err(Error::timed_out("The computer did not answer in time").into()),
    };
    let status = answer.status();
    let mut headers = chosen(answer.headers(), crossing.answered);
    if !status.is_success() && status != StatusCode::NOT_MODIFIED {
        // What describes the refusal's own body is not ours.
        for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::CONTENT_DISPOSITION, header::ETAG]
        {
            headers.remove(name);
        }
        let error = guest.refusal(answer).await;
        let mut refused = match OWN_STATUSES.contains(&status) {
            true => error_response::with_status(status, error),
            false => HttpError(error).into_response(),
        };
        refused.headers_mut().extend(headers);
        return Ok(refused);
    }
    if crossing.sized && status.is_success() && !headers.contains_key(header::CONTENT_LENGTH) {
        let mut error = Error::internal("an answer without its length");
        error.message = "The computer's agent sent an invalid answer".to_owned();
        return Err(error.into());
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let content = Body::new(answer.into_body());
    let content = Paced::new(content, MAX_BYTES, ANSWER_TIMEOUT, Progress::starting());
    let mut response = Response::new(Body::new(content));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Of each named field the first value that is of a sensible length.
fn chosen(headers: &HeaderMap, names: &[&'static str]) -> HeaderMap {
    let named = names.iter().filter_map(|name| {
        let value = headers.get(*name).filter(|value| value.len() <= MAX_FIELD)?;
        Some((HeaderName::from_static(name), value.clone()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_fields_of_a_sensible_length_cross() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, HeaderValue::from_static("\"1\""));
        headers.append(header::ETAG, HeaderValue::from_static("\"2\""));
        headers.insert(header::SET_COOKIE, HeaderValue::from_static("a=b"));
        headers.insert(header::CONTENT_RANGE, HeaderValue::from_str(&"x".repeat(MAX_FIELD + 1)).unwrap());
        let crossed = chosen(&headers, &["etag", "content-range", "location"]);
        assert_eq!(crossed.len(), 1);
        assert_eq!(crossed[header::ETAG], "\"1\"");
    }
}
