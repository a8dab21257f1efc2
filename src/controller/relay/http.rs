//! Proxy path to a computer's own API: any method, bodies streamed both ways (docs/channels.md).
//!
//! The upstream request is built from the computer, an allow-listed endpoint and the raw query. Nothing of
//! the client's URI is copied unchecked, T5 (docs/security.md). No credential passes in either direction, A80
//! (docs/authentication-rules.md).

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, Uri, header};
use axum::response::Response;
use http_body_util::{BodyExt, Limited};

use super::typed_secrets;
use crate::AppState;
use hotdesk_base::hex::unhex;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_domain::limits::MAX_COMMAND_SECONDS;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, check_declared};
use hotdesk_http::headers::actor;
use hotdesk_http::idempotency::{REPLAYED, REQUEST_DIGEST};
use hotdesk_http::untrusted_content::{confine, forbid_caching};
use hotdesk_wire::desktop::action::Action;

/// First path segment of the endpoints of background processes, whose output people read in a pager.
const PROCESSES: &str = "processes";
/// First path segment of the files' endpoints, which viewers may not read by default.
const FILES: &str = "files";
/// Endpoints of the agent that clients may reach besides the actions, by their first path segment.
const ENDPOINTS: [&str; 16] = [
    "actions",
    "bash",
    "clipboard",
    "cursor_position",
    "elements",
    "events",
    "exec",
    FILES,
    "health",
    "launch",
    PROCESSES,
    "recordings",
    "screens",
    "selftest",
    "sessions",
    "windows",
];
/// Time until the first byte of a response: the longest command and a margin.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(MAX_COMMAND_SECONDS as u64 + 15);
/// Largest request body in bytes; the agent's own limits are below it.
const MAX_REQUEST: usize = 16 * 1024 * 1024;
/// Largest response in bytes: an exported file of 1 GiB.
const MAX_ANSWER: usize = 1024 * 1024 * 1024;

/// Header fields that concern one connection only (RFC 9110 section 7.6.1), or that must not pass.
const DROPPED: [HeaderName; 14] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::AUTHORIZATION,
    header::COOKIE,
    header::SET_COOKIE,
    header::HOST,
    // These are between the controller and the agent alone.
    REQUEST_DIGEST,
    actor::NAME,
];

/// Header fields of an answer that concern its content alone.
const CONTENT_FIELDS: [HeaderName; 13] = [
    header::ACCEPT_RANGES,
    header::ALLOW,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::DATE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::RETRY_AFTER,
    header::VARY,
];

/// Header fields of an agent's response that may pass besides [`CONTENT_FIELDS`]. Exact names, because browsers apply many fields to the
/// whole origin (cookies, `Clear-Site-Data`, `Alt-Svc`, CORS and future ones), and proxies in front obey
/// others (`X-Accel-Redirect`, `X-Sendfile`).
const RESPONSE_FIELDS: [HeaderName; 16] = [
    REPLAYED,
    // Resumable uploads (tus.io).
    HeaderName::from_static("tus-extension"),
    HeaderName::from_static("tus-max-size"),
    HeaderName::from_static("tus-resumable"),
    HeaderName::from_static("tus-version"),
    HeaderName::from_static("upload-expires"),
    HeaderName::from_static("upload-length"),
    HeaderName::from_static("upload-metadata"),
    HeaderName::from_static("upload-offset"),
    // Screenshots, and output of background processes.
    HeaderName::from_static("x-hotdesk-frame"),
    HeaderName::from_static("x-hotdesk-height"),
    HeaderName::from_static("x-hotdesk-lost"),
    HeaderName::from_static("x-hotdesk-offset"),
    HeaderName::from_static("x-hotdesk-scale"),
    HeaderName::from_static("x-hotdesk-screen"),
    HeaderName::from_static("x-hotdesk-width"),
];

/// `ANY /desktops/{id}/proxy/{path}`.
pub async fn proxy(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, _path)): Path<(String, String)>,
    OriginalUri(uri): OriginalUri,
    request: Request,
) -> Result<Response> {
    let (computer, role) = app.directory.find_computer_as(&caller, &id).await?;
    let target = upstream(&uri)?;
    let endpoint = target.path().split('/').nth(1).map(str::to_owned);
    if endpoint.as_deref() == Some(FILES) {
        app.directory.check_files(role, &computer).await?;
    }
    let is_output = endpoint.as_deref() == Some(PROCESSES) && target.path().ends_with("/output");
    let (mut parts, body) = request.into_parts();
    parts.headers = end_to_end_fields(&parts.headers);
    let body = if parts.method == Method::POST && endpoint.as_deref().is_some_and(typed_secrets::types) {
        typed_secrets::fill(&app.secrets, &caller, &computer, &mut parts.headers, body).await?
    } else {
        check_declared(&body, MAX_REQUEST)?;
        Body::new(Limited::new(body, MAX_REQUEST))
    };
    let guest = app.directory.guest_for(&parts.method, &computer).await?.acting_as(Actor::of(&caller));
    let mut forwarded = Request::new(body);
    *forwarded.method_mut() = parts.method;
    *forwarded.uri_mut() = target;
    *forwarded.headers_mut() = parts.headers;
    // The origin was checked here and does not concern the agent.
    forwarded.headers_mut().remove(header::ORIGIN);
    let answer = guest.forward(forwarded, FIRST_BYTE_TIMEOUT).await?;
    let (answered, content) = answer.into_parts();
    let mut response = Response::new(Body::new(Limited::new(content.map_err(axum::Error::new), MAX_ANSWER)));
    *response.status_mut() = answered.status;
    *response.headers_mut() = response_fields(&answered.headers);
    confine(response.headers_mut());
    forbid_caching(response.headers_mut());
    if is_output {
        app.output_readers.let_pause(computer.id, caller.account, &mut response);
    }
    Ok(response)
}

/// Returns the fields of a message that may pass to the other side.
pub(super) fn end_to_end_fields(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    let crosses = |name: &HeaderName| {
        !DROPPED.contains(name)
            && !name.as_str().starts_with("x-forwarded-")
            && *name != header::FORWARDED
            && !named.iter().any(|dropped| dropped == name.as_str())
    };
    headers
        .iter()
        .filter(|(name, _)| crosses(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether a header field of an answer concerns its content alone.
pub(super) fn is_of_content(name: &HeaderName) -> bool {
    CONTENT_FIELDS.contains(name)
}

/// Returns the fields of an agent's response that may pass to the client.
fn response_fields(headers: &HeaderMap) -> HeaderMap {
    let crossed = end_to_end_fields(headers);
    crossed
        .iter()
        .filter(|(name, _)| is_of_content(name) || RESPONSE_FIELDS.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the agent's URI for a proxied one.
fn upstream(uri: &Uri) -> Result<Uri> {
    let unknown = || Error::not_found("No such endpoint on the computer");
    let (_, path) = uri.path().split_once("/proxy/").ok_or_else(unknown)?;
    let segments: Vec<&str> = path.split('/').collect();
    if !segments.first().is_some_and(|first| ENDPOINTS.contains(first) || Action::NAMES.contains(first))
        || !segments.iter().all(|part| plain(part))
    {
        return Err(unknown().into());
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("http://agent/{path}{query}").parse().map_err(|_| unknown())?)
}

/// Whether a raw segment is one plain name, even after decoding.
fn plain(segment: &str) -> bool {
    let mut decoded = Vec::new();
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next().unwrap_or_default(), bytes.next().unwrap_or_default()];
            let Some(value) = unhex(&digits) else { return false };
            decoded.extend(value);
        } else {
            decoded.push(byte);
        }
    }
    !decoded.is_empty()
        && decoded != b"."
        && decoded != b".."
        && !decoded.iter().any(|byte| byte.is_ascii_control() || matches!(byte, b'/' | b'\\'))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_known_endpoints_and_plain_segments_pass() {
        for (uri, expected) in [
            ("/desktops/x/proxy/health", "http://agent/health"),
            ("/desktops/x/proxy/key_down", "http://agent/key_down"),
            ("/desktops/x/proxy/screenshot?a=b&c=%2F", "http://agent/screenshot?a=b&c=%2F"),
            ("/desktops/x/proxy/files/desktop/a%20b.txt", "http://agent/files/desktop/a%20b.txt"),
            ("/api/desktops/x/proxy/screens/screen-100", "http://agent/screens/screen-100"),
        ] {
            assert_eq!(upstream(&uri.parse().unwrap()).unwrap().to_string(), expected);
        }
        for bad in [
            "/desktops/x/proxy/",
            "/desktops/x/proxy/nope",
            // Between the controller and the agent alone.
            "/desktops/x/proxy/identity",
            "/desktops/x/proxy/activity",
            "/desktops/x/proxy//health",
            "/desktops/x/proxy/health/",
            "/desktops/x/proxy/files/..",
            "/desktops/x/proxy/files/%2e%2e",
            "/desktops/x/proxy/files/a%2fb",
            "/desktops/x/proxy/files/a%5cb",
            "/desktops/x/proxy/files/%00",
            "/desktops/x/proxy/files/%0d%0aX:1",
            "/desktops/x/proxy/http:%2f%2fevil/",
            "/desktops/x/proxy/@evil",
            "/desktops/x/proxy/files/%zz",
            "/x",
        ] {
            assert!(upstream(&bad.parse().unwrap()).is_err(), "{bad}");
        }
    }

    #[test]
    fn response_fields_that_affect_the_origin_are_dropped() {
        let names = [
            "content-type",
            "idempotency-replayed",
            "content-range",
            "etag",
            "x-hotdesk-frame",
            "x-accel-redirect",
            "x-sendfile",
            "upload-offset",
            "location",
            "set-cookie",
            "clear-site-data",
            "alt-svc",
            "access-control-allow-origin",
            "strict-transport-security",
            "refresh",
            "link",
            "www-authenticate",
            "service-worker-allowed",
            "x-forwarded-host",
        ];
        let value = HeaderValue::from_static("v");
        let sent: HeaderMap =
            names.map(|name| (HeaderName::from_static(name), value.clone())).into_iter().collect();
        let mut passed: Vec<String> = response_fields(&sent).keys().map(ToString::to_string).collect();
        passed.sort_unstable();
        assert_eq!(
            passed,
            [
                "content-range",
                "content-type",
                "etag",
                "idempotency-replayed",
                "upload-offset",
                "x-hotdesk-frame"
            ]
        );
    }

    #[test]
    fn credentials_and_connection_fields_do_not_pass() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("connection", "close, X-Drop"),
            ("x-drop", "1"),
            ("x-forwarded-for", "1.2.3.4"),
            ("forwarded", "for=x"),
            ("upgrade", "h2c"),
            ("host", "h"),
            ("x-hotdesk-request-digest", "0"),
            ("x-hotdesk-actor", "password"),
            ("content-type", "application/json"),
            ("accept", "*/*"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let crossed = end_to_end_fields(&headers);
        let mut names: Vec<&str> = crossed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "content-type"]);
    }
}
