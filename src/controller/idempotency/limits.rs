//! Limits of bodies of requests with an idempotency key.
//!
//! They follow from the OpenAPI document: the size and time that apply without a key, as far as the service's
//! disk allows.

use std::time::Duration;

use axum::http::HeaderName;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use crate::data_dir::files::{MAX_FORM, UPLOAD_TIMEOUT};
use hotdesk_domain::limits::MAX_STDIN;
use hotdesk_http::extract::{BODY_TIMEOUT, MAX_JSON_BYTES};
use hotdesk_wire::desktop::clipboard;

/// Most bytes of a body that has no other limit. It is stored on the service's disk, like an exported file.
/// Larger transfers use several requests (tus), each with its own key.
pub(super) const MAX_STREAM: u64 = 1024 * 1024 * 1024;
/// Longest time for such a body: a gigabyte at 2.4 megabits per second.
const STREAM_TIMEOUT: Duration = Duration::from_secs(3600);

/// Routes whose bodies have another limit than their media type, in bytes.
const ROUTE_LIMITS: [(&str, u64); 2] = [
    ("/computers/{id}/clipboard", clipboard::MAX_BODY_BYTES as u64),
    ("/computers/{id}/processes/{process_id}/stdin", MAX_STDIN as u64),
];

/// Limits of an operation's body.
#[derive(Clone, Debug)]
pub(super) struct BodyLimits {
    /// Most bytes of the body.
    pub(super) most: u64,
    /// Longest time until the body is complete.
    pub(super) timeout: Duration,
    /// Whether the body is a form, whose parts are compared instead of its bytes.
    pub(super) form: bool,
    /// Documented header fields, which belong to the fingerprint (such as the offset of tus).
    pub(super) fields: Vec<HeaderName>,
}

impl BodyLimits {
    /// Returns the limits of an operation at a path.
    pub(super) fn of(path: &str, operation: &Operation) -> Self {
        let media: Vec<&str> = match &operation.request_body {
            Some(RefOr::T(body)) => body.content.keys().map(String::as_str).collect(),
            Some(RefOr::Ref(_)) | None => Vec::new(),
        };
        let form = media.contains(&"multipart/form-data");
        let (most, timeout) = match media.first() {
            _ if form => (MAX_FORM, UPLOAD_TIMEOUT),
            None | Some(&"application/json") => (MAX_JSON_BYTES as u64, BODY_TIMEOUT),
            Some(_) => (MAX_STREAM, STREAM_TIMEOUT),
        };
        let own = ROUTE_LIMITS.iter().find_map(|(route, most)| (*route == path).then_some(*most));
        Self { most: own.unwrap_or(most), timeout, form, fields: fields(operation) }
    }
}

fn fields(operation: &Operation) -> Vec<HeaderName> {
    let fields = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Header => {
            HeaderName::try_from(parameter.name.as_str()).ok()
        }
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_from_the_openapi_document() {
        let document = crate::api::openapi::document();
        let item = |path: &str| document.paths.paths.get(path).unwrap_or_else(|| panic!("{path} is gone"));
        for (path, operation, most, form) in [
            ("/workspaces", &item("/workspaces").post, 2 << 20, false),
            ("/computers/{id}", &item("/computers/{id}").delete, 2 << 20, false),
            ("/computers/{id}/clipboard", &item("/computers/{id}/clipboard").put, ROUTE_LIMITS[0].1, false),
            (ROUTE_LIMITS[1].0, &item(ROUTE_LIMITS[1].0).post, 17 << 20, false),
            ("/files/upload", &item("/files/upload").post, (10 << 20) + (64 << 10), true),
            ("/computers/{id}/files/content", &item("/computers/{id}/files/content").put, 1 << 30, false),
        ] {
            let limits = BodyLimits::of(path, operation.as_ref().expect("an operation"));
            assert_eq!((limits.most, limits.form), (most, form), "{path}");
        }
        let append = &item("/computers/{id}/files/uploads/{upload_id}").patch;
        let limits = BodyLimits::of("", append.as_ref().expect("an operation"));
        assert!(limits.fields.iter().any(|field| field == "upload-offset"), "{:?}", limits.fields);
        assert_eq!(limits.most, MAX_STREAM);
    }
}
