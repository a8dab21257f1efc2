//! Request rate limits: one token bucket for each credential.
//!
//! Responses report the bucket in the syntax of draft-ietf-httpapi-ratelimit-headers-11.

use std::hash::Hash;
use std::num::NonZeroU32;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

use crate::config::Limits;
use hotdesk_domain::error::{self, Error};
use hotdesk_domain::identity::access::Credential;

type Limiter =
    RateLimiter<Credential, DefaultKeyedStateStore<Credential>, DefaultClock, StateInformationMiddleware>;

/// Instant of the limiters' clock.
type Now = <DefaultClock as Clock>::Instant;

/// Token buckets of all credentials.
pub struct Rates {
    limiter: Limiter,
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

/// State of a rate limit, for the fields `RateLimit` and `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Name of the limit.
    pub policy: &'static str,
    /// Requests allowed in each window.
    pub quota: u32,
    /// Window in seconds.
    pub window: u32,
    /// Requests that are left.
    pub left: u32,
    /// Seconds within which no further requests are added.
    pub seconds: u32,
}

impl Rates {
    /// Creates the limiter of a configuration.
    pub fn new(limits: &Limits) -> Self {
        let least_one = |value: u32| NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN);
        let (per_second, burst) = (least_one(limits.requests_per_second), least_one(limits.request_burst));
        let limiter = RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst));
        Self { limiter: limiter.with_middleware::<StateInformationMiddleware>(), per_second, burst }
    }

    /// Counts a request and returns the state of its bucket.
    ///
    /// # Errors
    /// The state of the bucket when this request exceeds it.
    pub fn take(&self, credential: &Credential) -> Result<RateStatus, RateStatus> {
        match self.limiter.check_key(credential) {
            Ok(state) => {
                let left = state.remaining_burst_capacity();
                Ok(self.status(left, self.refilled_in(left)))
            }
            Err(refused) => Err(self.status(0, seconds_left(&refused))),
        }
    }

    /// Removes buckets that are full again.
    pub fn forget_idle(&self) {
        self.limiter.retain_recent();
    }

    fn status(&self, left: u32, seconds: u32) -> RateStatus {
        let window = self.refilled_in(self.burst.get());
        RateStatus { policy: "requests", quota: self.burst.get(), window, left, seconds }
    }

    /// Seconds until this many requests are added. A client that divides the remaining requests by it gets a
    /// sustainable rate (section 8.5 of the draft).
    fn refilled_in(&self, requests: u32) -> u32 {
        requests.div_ceil(self.per_second.get()).max(1)
    }
}

impl RateStatus {
    /// Adds the fields to a response.
    pub fn write(&self, headers: &mut HeaderMap) {
        let Self { policy, quota, window, left, seconds } = self;
        for (name, value) in [
            ("ratelimit-policy", format!("\"{policy}\";q={quota};w={window}")),
            ("ratelimit", format!("\"{policy}\";r={left};t={seconds}")),
        ] {
            // Policy names are constants, so this does not fail.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// Quota of this many per minute, with a burst of the same size.
pub fn per_minute(most: u32) -> Quota {
    Quota::per_minute(NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN))
}

/// Counts one event of a key, without reporting the bucket's state.
///
/// # Errors
/// `RateLimited` when it exceeds the quota.
pub fn count<K: Clone + Eq + Hash>(limiter: &DefaultKeyedRateLimiter<K>, key: &K) -> error::Result<()> {
    limiter.check_key(key).map_err(|refused| rate_limited(&refused))
}

/// Converts a refusal to `RateLimited` with the seconds to wait.
pub fn rate_limited(refused: &NotUntil<Now>) -> Error {
    Error::rate_limited(seconds_left(refused))
}

/// Seconds until the next event is allowed, rounded up.
fn seconds_left(refused: &NotUntil<Now>) -> u32 {
    let wait = refused.wait_time_from(DefaultClock::default().now());
    u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::KeyId;

    #[test]
    fn each_credential_has_a_bucket_that_responses_report() {
        let limits = Limits { requests_per_second: 1, request_burst: 5, ..Limits::default() };
        let (rates, one) = (Rates::new(&limits), Credential::Key(KeyId::random()));
        let first = rates.take(&one).unwrap();
        assert_eq!((first.quota, first.window, first.left, first.seconds), (5, 5, 4, 4));
        let refused = (0..100).find_map(|_| rates.take(&one).err()).unwrap();
        assert_eq!((refused.left, refused.seconds), (0, 1));
        assert_eq!(rates.take(&Credential::Key(KeyId::random())).unwrap().left, 4);
        let mut headers = HeaderMap::new();
        refused.write(&mut headers);
        assert_eq!(headers["ratelimit-policy"], "\"requests\";q=5;w=5");
        assert_eq!(headers["ratelimit"], "\"requests\";r=0;t=1");
    }
}
