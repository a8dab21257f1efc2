//! Throttle of wrong keys, tokens and codes by client address.

use std::time::{Duration, Instant};

use axum::response::{IntoResponse, Response};

use super::rate::RateStatus;
use crate::config::Limits;
use crate::web::failures::Failures;
use crate::web::source::Source;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;

/// Seconds in which wrong credentials are counted. The configuration gives their limit per minute.
const WINDOW_SECONDS: u32 = 60;

/// Recent wrong keys, tokens and codes by client address. A correct credential is looked up first, so it is
/// never refused.
#[derive(Debug)]
pub struct WrongCredentials {
    failures: Failures<Source>,
    quota: u32,
}

impl WrongCredentials {
    /// Creates an empty counter with the limit of a configuration.
    pub fn new(limits: &Limits) -> Self {
        let quota = limits.wrong_keys_per_minute;
        Self { failures: Failures::new(quota, Duration::from_secs(WINDOW_SECONDS.into())), quota }
    }

    /// Counts a wrong credential of a client address, and returns a 429 when there were too many. `wrong`
    /// begins its message. Call it only after the look-up failed, so that a correct credential is never
    /// refused.
    pub fn note(&self, source: Source, wrong: &str) -> Option<Response> {
        let refused = self.failures.attempt(&source, Instant::now()).err()?;
        let (quota, window, seconds) = (self.quota, WINDOW_SECONDS, refused.retry_after.unwrap_or(1));
        let message = format!("{wrong}, and your address has sent too many wrong ones");
        let mut response = HttpError(Error { message, ..refused }).into_response();
        RateStatus { policy: "wrong-keys", quota, window, left: 0, seconds }.write(response.headers_mut());
        Some(response)
    }

    /// Forgets the wrong credentials of a client address that sent a correct one.
    pub fn forget(&self, source: Source) {
        self.failures.forget(&source);
    }
}
