//! Transfer of arbitrary sizes between a client and a computer: streamed both ways, with selected header
//! fields.
//!
//! The agent is not trusted, T4 (docs/security.md): its fields are selected by name and bounded, its
//! redirects are errors, its bodies are bounded, and its content never runs as a page of this origin.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::bounded_body::{BoundedBody, Progress};
use crate::AppState;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::error_response::{self, Result};
use hotdesk_http::untrusted_content::{confine, forbid_caching};

/// Largest body in either direction, in bytes: larger than a computer's disk.
const MAX_BYTES: u64 = 1 << 40;
/// Longest time without progress. The agent gives up a silent sender after 30 s, and stores what it received
/// before it responds.
const TIMEOUT: Duration = Duration::from_secs(330);
/// Longest time between two pieces of a response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest transfer: 1 TiB at 12 MB/s.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// Longest header field of an agent that passes, in bytes. The longest legitimate one is an upload's
/// metadata.
const MAX_FIELD: usize = 16 * 1024;

/// Statuses with a meaning for clients besides those of the error kinds: gone, protocol version, range.
const OWN_STATUSES: [StatusCode; 3] =
    [StatusCode::GONE, StatusCode::PRECONDITION_FAILED, StatusCode::RANGE_NOT_SATISFIABLE];

/// Rules of a transfer: which header fields pass.
#[derive(Clone, Copy, Debug)]
pub struct TransferRules {
    /// Request fields that pass to the agent, in lower case.
    pub request_fields: &'static [&'static str],
    /// Response fields that pass to the client.
    pub response_fields: &'static [&'static str],
    /// Whether the response must have a length.
    pub requires_length: bool,
}

impl TransferRules {
    /// Rules for a file that is downloaded, completely or in ranges.
    pub const DOWNLOAD: Self = Self {
        request_fields: &["range", "if-range", "if-none-match"],
        response_fields: &[
            "accept-ranges",
            "content-disposition",
            "content-length",
            "content-range",
            "content-type",
            "etag",
            "last-modified",
        ],
        requires_length: true,
    };
}

/// Forwards a request to `path` of a computer's agent. The path is constructed here; only the raw query comes
/// from the client, T5 (docs/security.md).
///
/// # Errors
/// The agent's refusals as errors of the service; `TimedOut` when there is no progress.
pub async fn transfer(
    app: &AppState,
    caller: &Caller,
    id: &str,
    path: &str,
    rules: TransferRules,
    request: Request,
) -> Result<Response> {
    let computer = app.directory.find_computer(caller, id).await?;
    let guest = app.directory.guest_for(request.method(), &computer).await?;
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let progress = Progress::starting();
    let mut forwarded = Request::new(Body::new(BoundedBody::new(body, MAX_BYTES, TIMEOUT, progress.clone())));
    *forwarded.method_mut() = parts.method.clone();
    *forwarded.uri_mut() = format!("http://agent{path}{query}")
        .parse()
        .map_err(|error| Error::invalid("the query cannot be read").context(error))?;
    *forwarded.headers_mut() = selected_fields(&parts.headers, rules.request_fields);
    let answer = tokio::select! {
        answer = guest.forward(forwarded, MAX_DURATION) => answer?,
        () = progress.stalled(TIMEOUT) => return Err(Error::timed_out("The computer did not respond in time").into()),
    };
    let status = answer.status();
    let mut headers = selected_fields(answer.headers(), rules.response_fields);
    if !status.is_success() && status != StatusCode::NOT_MODIFIED {
        // These fields describe the agent's own error body, which is replaced.
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
    if rules.requires_length && status.is_success() && !headers.contains_key(header::CONTENT_LENGTH) {
        let mut error = Error::internal("the agent sent a response without a length");
        error.message = "The computer's agent sent an invalid answer".to_owned();
        return Err(error.into());
    }
    confine(&mut headers);
    if parts.method.is_safe() {
        forbid_caching(&mut headers);
    }
    let content = Body::new(answer.into_body());
    let content = BoundedBody::new(content, MAX_BYTES, ANSWER_TIMEOUT, Progress::starting());
    let mut response = Response::new(Body::new(content));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Returns the first value of each named field, if it is not too long.
fn selected_fields(headers: &HeaderMap, names: &[&'static str]) -> HeaderMap {
    let named = names.iter().filter_map(|name| {
        let value = headers.get(*name).filter(|value| value.len() <= MAX_FIELD)?;
        Some((HeaderName::from_static(name), value.clone()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_named_short_fields_pass() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, HeaderValue::from_static("\"1\""));
        headers.append(header::ETAG, HeaderValue::from_static("\"2\""));
        headers.insert(header::SET_COOKIE, HeaderValue::from_static("a=b"));
        headers.insert(header::CONTENT_RANGE, HeaderValue::from_str(&"x".repeat(MAX_FIELD + 1)).unwrap());
        let crossed = selected_fields(&headers, &["etag", "content-range", "location"]);
        assert_eq!(crossed.len(), 1);
        assert_eq!(crossed[header::ETAG], "\"1\"");
    }
}
