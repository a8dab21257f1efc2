//! Header fields of responses whose content a guest or an uploader chose.

use axum::http::{HeaderMap, HeaderValue, header};

/// Marks a response as the answer of a program in a computer, which chose its status. An extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct ProgramAnswer;

/// Keeps the content from running as a page of this origin.
pub fn confine(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Keeps the content out of caches, so that none in front gives it to another person. The answer is not kept for a
/// repeated request with the same `Idempotency-Key` either.
pub fn forbid_caching(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
}
