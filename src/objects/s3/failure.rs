//! Failures of calls to S3: which are retried, when, and their texts.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use reqwest::StatusCode;

use super::call::S3Call;
use super::xml::error_text;
use crate::store::ObjectError;

/// Retries of one call, and the time after which no further one begins. Both are small, because callers retry
/// too.
const RETRIES: u32 = 2;
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before the first retry.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Failure of one attempt. The text has neither a URL nor a body, which would show the signature.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct S3Failure {
    text: String,
    is_missing: bool,
    /// Whether another attempt may succeed. Each call may be repeated: none depends on an earlier one.
    pub is_transient: bool,
}

impl S3Failure {
    /// No answer, or not all of one.
    pub(super) fn transport(error: reqwest::Error) -> Self {
        let is_transient = !error.is_builder();
        let error = error.without_url();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            // Writing to a string does not fail.
            let _written = write!(text, ": {inner}");
            cause = inner.source();
        }
        Self { text, is_missing: false, is_transient }
    }

    /// An answer that is no success, with its document.
    pub(super) fn status(status: StatusCode, document: &[u8]) -> Self {
        let mut text = status.as_str().to_owned();
        let told = error_text(document);
        if !told.is_empty() {
            let _written = write!(text, " {told}");
        }
        let is_transient = status.is_server_error()
            || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status);
        Self { text, is_missing: status == StatusCode::NOT_FOUND, is_transient }
    }

    /// An answer that is longer than allowed.
    pub(super) fn too_long(most: usize) -> Self {
        Self {
            text: format!("the answer is longer than {most} bytes"),
            is_missing: false,
            is_transient: false,
        }
    }

    /// The error of a call after these retries. Only an object can be missing: 404 for other calls means
    /// that the bucket is.
    pub(super) fn into_error(self, call: &S3Call<'_>, retries: u32) -> ObjectError {
        if self.is_missing && matches!(call, S3Call::Get { .. } | S3Call::Delete { .. }) {
            return ObjectError::Missing;
        }
        let mut text = format!("{} {}: {}", call.method(), call.name(), self.text);
        if retries > 0 {
            let _written = write!(text, ", after {retries} retries");
        }
        ObjectError::Failed(text)
    }
}

/// Returns the pause before the next attempt; `None` when there is no further one. `random` is between 0
/// and 1.
pub(super) fn pause(retries: u32, elapsed: Duration, random: f64) -> Option<Duration> {
    if retries >= RETRIES || elapsed > RETRY_TIMEOUT {
        return None;
    }
    let longest = FIRST_PAUSE * 2_u32.saturating_pow(retries);
    Some(FIRST_PAUSE + (longest - FIRST_PAUSE).mul_f64(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_jitter_until_the_retries_or_the_time_are_used_up() {
        let ms = Duration::from_millis;
        for (retries, elapsed, random, expected) in [
            (0, ms(0), 0.0, Some(100)),
            (0, ms(0), 0.9, Some(100)),
            (1, ms(100), 0.0, Some(100)),
            (1, ms(100), 0.5, Some(150)),
            (1, ms(30_000), 1.0, Some(200)),
            (1, ms(30_001), 0.5, None),
            (0, ms(60_000), 0.5, None),
            (2, ms(0), 0.5, None),
        ] {
            let found = pause(retries, elapsed, random);
            assert_eq!(found, expected.map(ms), "{retries} {elapsed:?} {random}");
        }
    }

    #[test]
    fn a_status_decides_whether_a_call_is_retried_and_whether_an_object_is_missing() {
        let get = S3Call::Get { name: "a/b", most: 1 };
        let put = S3Call::Put { name: "a/b", bytes: bytes::Bytes::new(), checksum: String::new() };
        let list = S3Call::List { prefix: "a/", delimiter: None, token: None };
        let failed = |text: &str| ObjectError::Failed(text.to_owned());
        let slow: &[u8] = b"<Error><Code>SlowDown</Code><Message>Wait.</Message></Error>";
        let bucket: &[u8] = b"<Error><Code>NoSuchBucket</Code></Error>";
        let (html, none): (&[u8], &[u8]) = (b"<html>", b"");
        for (call, status, document, is_transient, expected) in [
            (&get, 404, bucket, false, ObjectError::Missing),
            (&S3Call::Delete { name: "a/b" }, 404, bucket, false, ObjectError::Missing),
            (&put, 404, bucket, false, failed("PUT a/b: 404 NoSuchBucket")),
            (&list, 404, bucket, false, failed("GET a/: 404 NoSuchBucket")),
            (&get, 301, none, false, failed("GET a/b: 301")),
            (&get, 403, none, false, failed("GET a/b: 403")),
            (&put, 400, slow, false, failed("PUT a/b: 400 SlowDown: Wait.")),
            (&put, 408, none, true, failed("PUT a/b: 408")),
            (&put, 429, none, true, failed("PUT a/b: 429")),
            (&put, 500, html, true, failed("PUT a/b: 500")),
            (&put, 503, slow, true, failed("PUT a/b: 503 SlowDown: Wait.")),
        ] {
            let failure = S3Failure::status(StatusCode::from_u16(status).unwrap(), document);
            assert_eq!(failure.is_transient, is_transient, "{call:?} {status}");
            assert_eq!(failure.into_error(call, 0), expected, "{call:?} {status}");
        }
        let failure = S3Failure::status(StatusCode::BAD_GATEWAY, b"");
        assert_eq!(failure.into_error(&get, 2), failed("GET a/b: 502, after 2 retries"));
    }
}
